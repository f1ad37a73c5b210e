"""Containers to come: what they demand over their age, how much work they have, when they arrive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from cosim.contract.records import Floats, Ints, Records
from cosim.extensions.cosco.interval import layout as l

_LAWS = {"given": l.GIVEN, "poisson": l.POISSON, "normal": l.NORMAL}
MIPS_PER_MHZ = 2054.0 / 1200.0  # Dhrystone of the Pentium III that the peer scales by: 2054 MIPS at 600 MHz


@dataclass(frozen=True, slots=True)
class ContainerArrivals:
    """How many containers are created per interval.

    `poisson` with `mean`, or `normal`: max(1, int(N(mean, deviation))), so never none.
    """

    law: Literal["poisson", "normal"] = "poisson"
    mean: float = 5.0
    deviation: float = 1.5


@dataclass(frozen=True, slots=True, eq=False)
class ContainerWorkload:
    """Profiles and laws. `names` are those of the profiles.

    Work is either `work[p]` MI, times a log-normal factor with sigma `spread`, with a deadline drawn
    from the whole numbers `due[p, 0]` to `due[p, 1]`; or, without `work`, that of the first
    int(1.2 s) samples of the profile, with s drawn from N(`duration`) and the deadline s intervals.
    With `given`, rows of (interval of creation, profile, MI, deadline in intervals), these containers
    come and no others.
    """

    names: tuple[str, ...]
    demand: Floats  # (P, T, 6) MIPS, MB, MB/s memory read and write, MB/s disk read and write
    length: Ints  # (P,) samples that count
    peak: Floats  # (P,) MIPS
    disk: Floats  # (P,) MB
    share: Floats  # (P,) chance, any scale
    arrivals: ContainerArrivals = ContainerArrivals()
    work: Floats | None = None  # (P,) MI
    spread: float = 0.0
    due: Ints | None = None  # (P, 2) intervals
    duration: tuple[float, float] = (20.0, 3.0)  # intervals
    given: Floats | None = None  # (N, 4)

    def laws(self) -> dict[str, float]:
        """The fields of `layout.RULES` that define how containers are drawn."""
        return {
            "arrivals": l.GIVEN if self.given is not None else _LAWS[self.arrivals.law],
            "mean": self.arrivals.mean, "deviation": self.arrivals.deviation,
            "work": l.SAMPLES if self.work is None else l.FIXED, "spread": self.spread,
            "duration": self.duration[0], "duration_deviation": self.duration[1],
        }  # fmt: skip

    def arrays(self, length: float) -> tuple[Records, Floats, Floats, Floats]:
        """profiles, demand, sums and given of `layout.World` for intervals of `length` s.

        Raises `ValueError` when this is no workload.
        """
        count, samples, _ = self.demand.shape
        if not count or not np.all((self.length >= 1) & (self.length <= samples)):
            raise ValueError("a workload needs profiles, each with one sample or more")
        if not np.all(np.isfinite(self.demand)) or np.any(self.demand < 0.0) or np.any(self.peak < 0.0):
            raise ValueError("demands must be finite and not negative")
        if np.any(self.share < 0.0) or not self.share.sum() > 0.0:
            raise ValueError("the shares of the profiles must not be negative, and one at least positive")
        if self.arrivals.mean < 0.0 or self.arrivals.deviation < 0.0:
            raise ValueError("mean and deviation of the arrivals must not be negative")
        known = np.arange(samples) < self.length[:, None]
        sums = np.zeros((count, samples + 1))
        np.cumsum(np.where(known, self.demand[:, :, l.D_MIPS] * length, 0.0), axis=1, out=sums[:, 1:])
        given = np.empty((0, 4)) if self.given is None else self.given[np.argsort(self.given[:, 0], kind="stable")]
        if not (np.all(given[:, 0] >= 0) and np.all((given[:, 1] >= 0) & (given[:, 1] < count))):
            raise ValueError(f"given containers need an interval from 0 on and a profile of 0..{count - 1}")
        profiles: Records = np.zeros(count, l.PROFILE)
        profiles["peak"], profiles["disk"], profiles["length"] = self.peak, self.disk, self.length
        profiles["share"] = np.cumsum(self.share / self.share.sum())
        profiles["share"][np.flatnonzero(self.share)[-1] :] = 1.0  # whatever rounding left
        if self.work is not None and self.due is not None:
            profiles["work"], profiles["due_least"], profiles["due_most"] = self.work, *self.due.T
        elif self.work is not None:
            raise ValueError("a workload with 'work' needs 'due'")
        return profiles, np.array(self.demand, np.float64, order="C"), sums, np.array(given, np.float64, order="C")

    def replay(self, rows: ArrayLike) -> ContainerWorkload:
        """These containers and no others: rows of (interval of creation, profile, MI, deadline in intervals)."""
        return replace(self, given=np.array(rows, np.float64).reshape(-1, 4))


def _constant(
    names: Sequence[str], mips: ArrayLike, ram: ArrayLike, disk: ArrayLike, peak: ArrayLike
) -> tuple[tuple[str, ...], Floats, Ints, Floats, Floats]:
    demand = np.zeros((len(names), 1, l.DEMANDS))
    demand[:, 0, l.D_MIPS], demand[:, 0, l.D_RAM] = mips, ram
    return tuple(names), demand, np.ones(len(names), np.int64), np.array(peak, np.float64), np.array(disk, np.float64)


def static(length: float, arrivals: ContainerArrivals = ContainerArrivals()) -> ContainerWorkload:
    """Four sizes k = 1..4, equally likely: 1000 k MIPS, at most 1500 k, for 4 k intervals, due after 3 k.

    `length` (s) of the intervals. The peer's static workload; memory and disk are 100 k MB here.
    """
    k = np.arange(1, 5)
    parts = _constant([f"size-{i}" for i in k], 1000.0 * k, 100.0 * k, 100.0 * k, 1500.0 * k)
    return ContainerWorkload(
        *parts,
        np.ones(4),
        arrivals,
        work=np.asarray(4000.0 * k * k * length, np.float64),
        due=np.stack([3 * k, 3 * k], axis=1),
    )


# name -> multiply-accumulate operations in 1e9 of one 224 x 224 image (figures of torchvision's model
# pages), and m of the peer's weight 1 - m / 14
AIOTBENCH = {
    "resnet18": (1.81, 2), "resnet34": (3.66, 1), "squeezenet1_0": (0.82, 4), "mobilenet_v2": (0.30, 2),
    "mnasnet1_0": (0.31, 1), "googlenet": (1.50, 3), "resnext50_32x4d": (4.23, 1),
}  # fmt: skip
# name -> weight of the peer, and work relative to the other two (ours: seconds on one core of a Pi class host)
DEFOG = {"yolo": (0.2, 4.0), "pocketsphinx": (0.4, 2.0), "aeneas": (0.4, 1.0)}


def aiotbench(work: float = 400_000.0, arrivals: ContainerArrivals = ContainerArrivals()) -> ContainerWorkload:
    """Seven image networks by the peer's weights, due after 5, 6 or 7 intervals.

    `work` (MI) is what a container does on average over the mix; the networks share it in proportion
    to their operations. Demand 1000 MIPS, at most 4000; 500 MB: the peer measures these on its testbed.
    """
    names = list(AIOTBENCH)
    share = np.array([1.0 - m / 14.0 for _, m in AIOTBENCH.values()])
    size = np.array([macs for macs, _ in AIOTBENCH.values()])
    return _mix(names, share, size, work, arrivals)


def defog(work: float = 400_000.0, arrivals: ContainerArrivals = ContainerArrivals()) -> ContainerWorkload:
    """Object detection, speech recognition and text alignment by the peer's weights; otherwise as `aiotbench`."""
    share, size = np.array(list(DEFOG.values())).T
    return _mix(list(DEFOG), share, size, work, arrivals)


def _mix(names: list[str], share: Floats, size: Floats, work: float, arrivals: ContainerArrivals) -> ContainerWorkload:
    each = work * size / np.average(size, weights=share)
    parts = _constant(names, np.full(len(names), 1000.0), 500.0, np.full(len(names), 100.0), np.full(len(names), 4e3))
    return ContainerWorkload(*parts, share, arrivals, work=each, due=np.tile([5, 7], (len(names), 1)))


def traces(
    names: Sequence[str],
    demand: Floats,
    peak: ArrayLike,
    disk: ArrayLike,
    arrivals: ContainerArrivals = ContainerArrivals(),
) -> ContainerWorkload:
    """Containers that repeat recorded demands (P, T, 6); NaN ends a record that is shorter than T."""
    ends = np.isnan(demand[:, :, l.D_MIPS])
    length = np.where(ends.any(axis=1), ends.argmax(axis=1), demand.shape[1])
    return ContainerWorkload(
        tuple(names), np.nan_to_num(demand), length.astype(np.int64), np.array(peak, np.float64),
        np.array(disk, np.float64), np.ones(len(names)), arrivals,
    )  # fmt: skip


def bitbrains(
    usage_mhz: Floats,
    capacity_mhz: ArrayLike,
    memory_kb: ArrayLike,
    *,
    disk_kb_s: tuple[ArrayLike, ArrayLike] = (0.0, 0.0),
    network_kb_s: tuple[ArrayLike, ArrayLike] = (0.0, 0.0),
    arrivals: ContainerArrivals = ContainerArrivals(),
    quirks: frozenset[str] = frozenset(),
) -> ContainerWorkload:
    """Containers from traces of virtual machines (GWA-T-12): used MHz (P, T), provisioned MHz (P,), used kB.

    MIPS are MHz x 2054/1200. A machine counts when its sample 10 lies between 500 and 3000 MIPS, as with the
    peer. Disk sizes are 1, 2, 3 MB in turn. `disk_kb_s` are read and written, `network_kb_s` received and
    sent, both used as `bitbrains-units` defines. NaN samples are left out. Raises `ValueError` if no machine
    counts.
    """
    raw = np.asarray(usage_mhz, np.float64) * MIPS_PER_MHZ
    order = np.argsort(np.isnan(raw), axis=1, kind="stable")  # what there is first, in its order
    mips = np.take_along_axis(raw, order, axis=1)
    sample = mips[:, min(10, mips.shape[1] - 1)]
    chosen = np.flatnonzero((sample > 500.0) & (sample < 3000.0))
    if not len(chosen):
        raise ValueError(f"none of {len(mips)} machines has 500 to 3000 MIPS in its sample 10")

    def at(values: ArrayLike) -> Floats:
        wide = np.asarray(values, np.float64)
        full = np.broadcast_to(wide[:, None] if wide.ndim == 1 else wide, mips.shape)
        return np.take_along_axis(full, order, axis=1)[chosen]

    odd = "bitbrains-units" in quirks
    demand = np.empty((len(chosen), mips.shape[1], l.DEMANDS))
    demand[:, :, l.D_MIPS] = mips[chosen]
    demand[:, :, l.D_RAM] = at(memory_kb) / (4000.0 if odd else 1000.0)
    demand[:, :, l.D_RAM_READ] = at(network_kb_s[0]) / 1000.0 if odd else 0.0
    demand[:, :, l.D_RAM_WRITE] = at(network_kb_s[1]) / 1000.0 if odd else 0.0
    demand[:, :, l.D_DISK_READ] = at(disk_kb_s[0]) / (4000.0 if odd else 1000.0)
    demand[:, :, l.D_DISK_WRITE] = at(disk_kb_s[1]) / (12000.0 if odd else 1000.0)
    peak = np.broadcast_to(np.asarray(capacity_mhz, np.float64), (len(mips),))[chosen] * MIPS_PER_MHZ
    return traces([str(i) for i in chosen], demand, peak, np.array([1.0, 2.0, 3.0])[chosen % 3], arrivals)
