"""The interval model as its caller sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosim.compiled.compiling import address_of, ready
from cosim.contract.records import Flags, Floats, Ints, Records
from cosim.extensions.cosco.interval import kernel, quirks
from cosim.extensions.cosco.interval import layout as l
from cosim.extensions.cosco.interval.fleet import HostFleet
from cosim.extensions.cosco.interval.layout import IntervalState, link_up
from cosim.extensions.cosco.interval.workload import ContainerWorkload

_NO_DECISIONS = np.empty((0, 2), np.int64)
_NO_SEEDS = np.zeros(1, np.uint64)
COLUMNS = tuple(l.ENDED.names or ())

Decide = Callable[["IntervalView"], ArrayLike]


class IntervalView(NamedTuple):
    """A policy's view before it decides: copies of its own.

    It lists the containers that have a slot; those with host -1 wait for a decision.
    """

    interval: int  # the one that is about to pass
    # hosts
    mips: Floats  # (H,) MIPS
    ram: Floats  # (H,) MB
    demanded: Floats  # (H,) MIPS that the containers on it demand now
    ram_used: Floats  # (H,) MB
    utilisation: Floats  # (H,) 0..1 in the last interval
    power: Floats  # (H,) W, mean of the last interval
    latency: Floats  # (H,) s
    up: Flags  # (H,)
    # containers
    slot: Ints  # (C,) number for decisions
    container: Ints  # (C,) number in order of creation
    profile: Ints  # (C,)
    host: Ints  # (C,)
    age: Ints  # (C,) intervals since it got its slot
    demand: Floats  # (C,) MIPS
    size: Floats  # (C,) MB of memory: what a move transfers
    remaining: Floats  # (C,) MI
    deadline: Floats  # (C,) intervals left


class IntervalSnapshot(NamedTuple):
    """All that changes, at a moment between two steps."""

    arrays: tuple[NDArray[Any], ...]


class Interval:
    """Containers on hosts, interval by interval.

    Containers come at the beginning of an interval and take free slots, in order of creation; decisions
    (slot, host) place or move them; then the interval passes. `policy` is one of `layout.POLICIES`, a
    function of an `IntervalView` that returns decisions (k, 2), or None when `step` is given them. `quirks` are
    names of `quirks.QUIRKS`: none is the corrected physics, `quirks.compatible()` the peer's. `length`
    (s) of an interval; `slots` defaults to one per host. `overhead` (s) is added to every transfer.
    With `switch_off` hosts without containers use nothing and need `boot` s (at most an interval) when
    one comes. `keep` keeps a row per container that ended, for `drain`.

    Everything is a function of the seed, and container n is the same whatever the decisions are.
    """

    def __init__(
        self,
        fleet: HostFleet,
        workload: ContainerWorkload,
        seed: int,
        *,
        policy: str | Decide | None = "least-loaded",
        quirks: Iterable[str] = (),
        length: float = 300.0,
        slots: int | None = None,
        overhead: float = 0.0,
        switch_off: bool = False,
        boot: float = 0.0,
        keep: bool = True,
    ) -> None:
        if not 0.0 < length < float("inf"):
            raise ValueError(f"an interval of {length} s; expected a positive length")
        if not 0.0 <= boot <= length:
            raise ValueError(f"a boot time of {boot} s; expected 0 to {length:g} s, the length of an interval")
        if overhead < 0.0:
            raise ValueError(f"an overhead of {overhead} s; expected 0 or more")
        self.fleet, self.workload, self.length = fleet, workload, length
        self._quirks = frozenset(quirks)
        self._decide: Decide | None = None if isinstance(policy, str) else policy
        hosts, power = fleet.hosts()
        count = len(hosts) if slots is None else slots
        if count < 1:
            raise ValueError(f"{count} slots; expected one or more")
        profiles, demand, sums, given = workload.arrays(length)
        rules: Records = np.zeros(1, l.RULES)
        for name, value in workload.laws().items():
            rules[name] = value
        rules["seed"] = seed % 2**64
        rules["length"], rules["router"], rules["overhead"], rules["boot"] = length, fleet.router, overhead, boot
        rules["switch_off"] = switch_off
        rules["policy"] = _policy(policy)
        rules["quirks"] = _bits(self._quirks)
        places: Records = np.zeros(count, l.SLOT)
        places["container"] = places["host"] = places["next"] = l.NONE
        self.world = link_up(
            IntervalState(
                rules, hosts, power, places, profiles, demand, sums, given,
                queue=np.zeros(1024 + 4 * count, l.WAITING),
                pairs=np.zeros(2 * count, l.PAIR),
                ended=np.zeros(8 * count if keep else 0, l.ENDED),
                row=np.zeros(len(l.FIGURES)),
            )
        )  # fmt: skip
        self._kept: list[Records] = []
        self._copy: IntervalState | None = None
        self._call(kernel.RUN, 0, _NO_DECISIONS)
        self._make_ready()

    @property
    def now(self) -> float:
        """Simulated seconds that have passed."""
        return float((self.world.rules["now"][0] - self.world.rules["open"][0]) * self.length)

    @property
    def interval(self) -> int:
        """The number, from 1, of the interval about to pass."""
        return int(self.world.rules["now"][0])

    def step(self, decisions: ArrayLike | None = None) -> dict[str, float]:
        """Let one interval pass under `decisions` (k, 2) of slot and host; its figures.

        Without decisions the policy decides. Moves that do not fit are refused and counted; a slot
        without a container, one named twice or a host that does not exist raises `ValueError`.
        """
        if decisions is None and self._decide is not None:
            decisions = self._decide(self.state())
        rules = self.world.rules
        policy = int(rules["policy"][0])
        if decisions is None:
            row = self._pass(1, _NO_DECISIONS)[0]
        else:
            rules["policy"] = l.CALLER
            try:
                row = self._pass(1, self._checked(decisions))[0]
            finally:
                rules["policy"] = policy
        return dict(zip(l.FIGURES, row.tolist(), strict=True))

    def decide_by(self, policy: Decide) -> None:
        """From now on `policy` decides, a function of an `IntervalView`."""
        self._decide = policy
        self.world.rules["policy"] = l.CALLER

    def run(self, intervals: int) -> dict[str, Floats]:
        """Let intervals pass under the policy; their figures, one array (intervals,) per name of `FIGURES`."""
        if self._decide is None:
            rows = self._pass(intervals, _NO_DECISIONS)
        else:
            rows = np.array([list(self.step().values()) for _ in range(intervals)]).reshape(-1, len(l.FIGURES))
        return {name: rows[:, k].copy() for k, name in enumerate(l.FIGURES)}

    def add(self, rows: ArrayLike) -> None:
        """More containers to come: rows of (interval of creation, profile, MI, deadline in intervals).

        For workloads with `given` containers. Those created at the end of interval n must be added before
        that interval passes. Raises `ValueError` for a creation that is over, or before one that was added.
        """
        new = np.array(rows, np.float64).reshape(-1, 4)
        held = self.world.given
        count = int(np.searchsorted(held[:, 0], np.inf))
        least = max(self.interval, held[count - 1, 0] if count else 0.0)
        known = len(self.world.profiles)
        if self.workload.given is None:
            raise ValueError("containers can be added to a workload of given ones only: Workload.replay")
        if len(new) and not (new[0, 0] >= least and np.all(np.diff(new[:, 0]) >= 0) and np.all(new[:, 0] < np.inf)):
            raise ValueError(f"containers must be added in order of creation, from interval {least:g} on")
        if not np.all((new[:, 1] >= 0) & (new[:, 1] < known)):
            raise ValueError(f"containers need a profile of 0..{known - 1}")
        if count + len(new) > len(held):
            free = np.full((max(64, len(held), count + len(new) - len(held)), 4), np.inf)
            self.world = link_up(self.world._replace(given=np.concatenate([held, free])))
        self.world.given[count : count + len(new)] = new

    def expect(self, mean: float) -> None:
        """From the interval after the one about to pass on, `mean` containers come per interval on average.

        Raises `ValueError` for a negative mean, and for containers that are given and not drawn.
        """
        if not mean >= 0.0:
            raise ValueError(f"a mean of {mean} containers per interval; expected 0 or more")
        if self.workload.given is not None:
            raise ValueError("these containers are given: ContainerWorkload.replay")
        self.world.rules["mean"] = mean

    def state(self) -> IntervalView:
        """What is to be decided about. Looking changes nothing."""
        w = self.world
        hosts, now = w.hosts, self.interval
        there = np.flatnonzero(w.slots["container"] >= 0)
        slots = w.slots[there]
        age = now - slots["start"]
        profile = slots["profile"]
        sample = age % w.profiles["length"][profile]
        demand = np.where(slots["done"] < slots["work"], w.demand[profile, sample, l.D_MIPS], 0.0)
        size = w.demand[profile, sample, l.D_RAM]
        placed = slots["host"] >= 0

        def on_hosts(values: Floats) -> Floats:
            return np.bincount(slots["host"][placed], values[placed], len(hosts)).astype(np.float64)

        return IntervalView(
            interval=now, mips=hosts["mips"].copy(), ram=hosts["ram"].copy(), demanded=on_hosts(demand),
            ram_used=on_hosts(size), utilisation=hosts["used"] / hosts["mips"], power=hosts["joules"] / self.length,
            latency=hosts["latency"].copy(), up=hosts["up"] != 0, slot=there, container=slots["container"].copy(),
            profile=profile.copy(), host=slots["host"].copy(), age=age, demand=demand, size=size,
            remaining=np.maximum(slots["work"] - slots["done"], 0.0),
            deadline=slots["created"] + slots["deadline"] - (now - 1),
        )  # fmt: skip

    def drain(self) -> dict[str, NDArray[np.generic]]:
        """The containers that ended since the last call, by time of their end, then number.

        Columns of `layout.ENDED`; `finish` and `response` are NaN for those whose host failed.
        """
        self._empty()
        rows = np.concatenate(self._kept) if self._kept else np.zeros(0, l.ENDED)
        self._kept = []
        rows = rows[np.lexsort((rows["container"], rows["finish"]))]
        return {name: rows[name].copy() for name in COLUMNS}

    def fail(self, hosts: Sequence[int]) -> None:
        """Hosts fail: the containers on them end, and nothing fits there until `recover`.

        Raises `ValueError` for a host that there is not.
        """
        self._call(kernel.FAIL, 0, self._numbers(hosts).reshape(-1, 1))

    def recover(self, hosts: Sequence[int]) -> None:
        """Failed hosts are back, empty. Raises `ValueError` for a host that there is not."""
        self.world.hosts["up"][self._numbers(hosts)] = 1

    def _numbers(self, hosts: Sequence[int]) -> Ints:
        """Checked host numbers: compiled code would write at any index. Raises `ValueError` for an unknown host."""
        numbers = np.array(hosts, np.int64).reshape(-1)
        wrong = numbers[(numbers < 0) | (numbers >= len(self.world.hosts))]
        if len(wrong):
            raise ValueError(f"there is no host {wrong[0]}; there are 0 to {len(self.world.hosts) - 1}")
        return numbers

    def snapshot(self) -> IntervalSnapshot:
        """A copy of all that changes; rows of ended containers that have not been drained included."""
        self._empty()
        kept = np.concatenate([np.zeros(0, l.ENDED), *self._kept])
        return IntervalSnapshot((*(getattr(self.world, name).copy() for name in l.CHANGING), kept))

    def restore(self, snapshot: IntervalSnapshot) -> None:
        """Go back (or on) to a snapshot of this simulation; what follows is equal to the bit."""
        *arrays, kept = (array.copy() for array in snapshot.arrays)
        self.world = link_up(self.world._replace(**dict(zip(l.CHANGING, arrays, strict=True))))
        self._kept = [kept]

    def branch(
        self, candidates: ArrayLike, horizon: int = 1, *, then: str | None = None, seed: int | None = None,
        each: bool = False,
    ) -> Records:  # fmt: skip
        """What each of K candidate decisions would lead to.

        Returns records (K,) of `layout.FIGURE`, sums over `horizon` intervals, equal to the bit to those of
        snapshot, steps and restore, summed in order; with `each` (K, horizon), those of each interval. `candidates`
        (K, C) holds a host for each container in the order of `state`, -1 to leave it where it is. They hold for
        the interval about to pass; in those after it the built-in policy `then` decides, by default the simulation's
        own. `seed` draws other containers to come than those that will really come. Nothing of this simulation
        changes. Raises `ValueError` for hosts that there are not, and without a policy for a horizon above 1.
        """
        hosts = np.array(candidates, np.int64, ndmin=2)
        there = np.flatnonzero(self.world.slots["container"] >= 0)
        count = len(self.world.hosts)
        if hosts.shape[1] != len(there):
            raise ValueError(f"candidates about {hosts.shape[1]} containers; there are {len(there)}, as `state` lists")
        if hosts.size and not -1 <= hosts.min() <= hosts.max() < count:
            raise ValueError(
                f"candidates name hosts {hosts.min()} to {hosts.max()}; there are 0..{count - 1}, -1 stays"
            )
        if horizon < 1:
            raise ValueError(f"a horizon of {horizon} intervals; expected one or more")
        policy = int(self.world.rules["policy"][0]) if then is None else _policy(then)
        if horizon > 1 and policy == l.CALLER:
            raise ValueError("a horizon above 1 needs a built-in policy, which decides after the first interval")
        answers = np.full((1 + len(hosts), len(self.world.slots)), -1, np.int64)
        answers[0] = np.arange(len(self.world.slots))
        if "order-dependent" not in self._quirks:  # as decisions are carried out
            answers[0] = np.argsort(self.world.slots["container"], kind="stable")
        answers[1:, there] = hosts
        span = horizon if each else 1
        rows = np.empty((1, len(hosts) * span, len(l.FIGURES)))
        done = 0
        while done < len(hosts):
            self._make_copy(policy, seed)
            rest = np.delete(answers, slice(1, 1 + done), 0)
            done += self._call(kernel.BRANCH, horizon, rest, rows[:, done * span :])
            if done < len(hosts):  # more wait than the ring holds
                self._grow()
        figures: Records = rows[0].view(l.FIGURE)[:, 0]
        return figures.reshape(len(hosts), horizon) if each else figures

    def _make_copy(self, policy: int, seed: int | None) -> None:
        """The world that candidates are tried in, of the same sizes as this one."""
        if self._copy is None or len(self._copy.queue) != len(self.world.queue):
            self._copy = self.world._replace(
                **{
                    name: getattr(self.world, name).copy()
                    for name in ("rules", "hosts", "slots", "queue", "pairs", "row")
                },
                ended=np.zeros(0, l.ENDED),
            )
        copy = link_up(self._copy._replace(given=self.world.given))
        copy.hosts[:] = self.world.hosts
        copy.rules["policy"] = policy
        copy.rules["seed"] = self.world.rules["seed"] if seed is None else seed % 2**64
        self.world.rules["branch"] = address_of(copy.rules)
        self._copy = copy

    def cost(self) -> float:
        """The cost so far, as the physics counts it."""
        if "constant-cost" in self._quirks:
            return quirks.CONSTANT_COST
        return float(self.world.hosts["cost"].sum())

    def _checked(self, decisions: ArrayLike) -> Ints:
        pairs = np.array(decisions, np.int64, order="C").reshape(-1, 2)
        slots, hosts = len(self.world.slots), len(self.world.hosts)
        for slot, host in pairs:
            if not 0 <= slot < slots or self.world.slots["container"][slot] < 0:
                raise ValueError(f"a decision about slot {slot}, which has no container")
            if not 0 <= host < hosts:
                raise ValueError(f"a decision for host {host}; there are hosts 0..{hosts - 1}")
        if len(np.unique(pairs[:, 0])) != len(pairs):
            raise ValueError("two decisions about the same slot")
        return pairs

    def _pass(self, intervals: int, decisions: Ints) -> Floats:
        rows = np.empty((intervals, len(l.FIGURES)))
        done = 0
        while done < intervals:
            done += self._call(kernel.RUN, intervals - done, decisions, rows[None, done:])
            self._make_ready()
        return rows

    def _make_ready(self) -> None:
        """Room for ended containers and for those that come, and the next interval begun."""
        if len(self.world.ended) - int(self.world.rules["ended_count"][0]) < 2 * len(self.world.slots):
            self._empty()
        while not self.world.rules["open"][0]:
            self._grow()
            self._call(kernel.RUN, 0, _NO_DECISIONS)

    def _empty(self) -> None:
        count = int(self.world.rules["ended_count"][0])
        if count:
            self._kept.append(self.world.ended[:count].copy())
            self.world.rules["ended_count"] = 0

    def _grow(self) -> None:
        """Twice the room in the ring of those that wait."""
        old, rules = self.world.queue, self.world.rules
        order = (int(rules["head"][0]) + np.arange(len(old))) % len(old)
        self.world = link_up(self.world._replace(queue=np.concatenate([old[order], np.zeros_like(old)])))
        rules["head"] = 0

    def _call(self, what: int, count: int, decisions: Ints, rows: Floats | None = None) -> int:
        room = np.empty((1, max(count, 1), len(l.FIGURES))) if rows is None else rows
        return kernel.act(self.world.rules, what, count, decisions, _NO_SEEDS, room)


def _policy(policy: str | Decide | None) -> int:
    if not isinstance(policy, str):
        return l.CALLER
    if policy not in l.POLICIES[1:]:
        raise ValueError(f"there is no policy '{policy}'; known: {', '.join(l.POLICIES[1:])}, or a function")
    return l.POLICIES.index(policy)


def _bits(names: Iterable[str]) -> int:
    return int(sum(1 << k for k, flag in enumerate(quirks.switches(names)) if flag))


def compiled() -> bool:
    """Whether a simulation starts without compiling."""
    return ready(kernel.act)
