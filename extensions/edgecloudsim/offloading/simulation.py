"""One run of an offloading study, as its caller sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Records
from cosim.extensions.edgecloudsim.offloading import kernel, prepare
from cosim.extensions.edgecloudsim.offloading.books import OffloadingOutcome
from cosim.extensions.edgecloudsim.offloading.build import make_room
from cosim.extensions.edgecloudsim.offloading.flow import FREE, OWN, REFUSED
from cosim.extensions.edgecloudsim.offloading.layout import CLOUD, EDGE, ENDED, OffloadingState
from cosim.extensions.edgecloudsim.offloading.study import OffloadingStudy

COLUMNS = tuple(ENDED.names or ())


@dataclass(frozen=True, slots=True)
class OffloadingRequest:
    """A task that waits for the caller's choice. Sizes in kB, length in MI, loads in %, delays in s."""

    now: float
    device: int
    place: int
    application: int
    upload: float
    download: float
    length: float
    delay_sensitivity: float
    need: tuple[float, float, float]  # % of an edge machine, a cloud machine, the device's own
    wlan_delay: float  # of the upload as the link is now; zero or less: no capacity
    wan_delay: float
    chance: float  # uniform in [0, 1), for policies that draw


Choose = Callable[..., int]


class Simulation:
    """A run of `study`; equal seeds give bit-equal runs, however finely time is stepped.

    `choose`, if given, decides instead of the study's policy: a function of the request and of the
    machines (records with tier 0 edge, 1 cloud; place; load and reserved in %; active tasks; cores;
    rate in MIPS; edge machines first) that answers with the number of a machine, -1 for none, -2 for
    the device itself. With `trace` finished tasks can be had from `drain`.

    Raises ScenarioError for a study that cannot be simulated.
    """

    def __init__(self, study: OffloadingStudy, seed: int, choose: Choose | None = None, *, trace: bool = False) -> None:
        self.study = study
        self._choose = choose
        if study.model == "app5":
            from cosim.extensions.edgecloudsim.offloading import vehicular

            self._kernel: Any = vehicular
            self._state: OffloadingState = vehicular.prepare(study, seed, trace=trace, custom=choose is not None)
        else:
            self._kernel = kernel
            self._state = prepare.prepare(study, seed, trace=trace, custom=choose is not None)

    @property
    def now(self) -> float:
        """Simulated seconds since the start."""
        return float(self._state.meta["now"][0])

    def advance(self, until: float) -> None:
        """Let time pass to `until` (s, from now to the study's duration), inclusive."""
        if not self.now <= until <= self.study.duration:
            raise ValueError(f"cannot advance from {self.now:g} s to {until:g} s of {self.study.duration:g} s")
        choice: Any = kernel.NOBODY  # an int64 always: one signature
        while True:
            answer = self._kernel.act(self._state.meta, until, choice)
            choice = kernel.NOBODY
            if answer == kernel.DONE:
                return
            if answer == kernel.GROW:
                make_room(self._state)
            else:
                choice = self._ask()

    def drain(self) -> dict[str, NDArray[Any]]:
        """The tasks that ended since the last call, in order of their end; columns of `layout.ENDED`."""
        meta = self._state.meta
        rows = self._state["ended"][: meta["done"][0]]
        order = np.lexsort((rows["serial"], rows["ended"]))
        meta["done"] = 0
        return {name: rows[name][order] for name in COLUMNS}

    def places(self) -> NDArray[np.int64]:
        """(devices,) the place of every device now."""
        if hasattr(self._kernel, "places"):
            on_road: NDArray[np.int64] = self._kernel.places(self._state, self.study)
            return on_road
        found: NDArray[np.int64] = self._state["devices"]["place"].copy()
        return found

    def positions(self) -> NDArray[np.float64]:
        """(devices, 2) m, where every device is now: at its place (on the road, with `app5`)."""
        if hasattr(self._kernel, "positions"):
            found: NDArray[np.float64] = self._kernel.positions(self._state, self.study)
            return found
        points = np.array([(place.x, place.y) for place in self.study.places])
        at: NDArray[np.float64] = points[self._state["devices"]["place"]]
        return at

    def loads(self) -> NDArray[np.float64]:
        """(machines,) % of every machine that executing tasks take now: edge, cloud, devices."""
        found: NDArray[np.float64] = self._state["vms"]["load"].copy()
        return found

    def machines(self) -> Records:
        """(machines,) what every machine does now, records of `layout.VM`: edge, cloud, devices; `busy` up to now."""
        found: Records = self._state["vms"].copy()
        since = np.maximum(self.now - found["since"], 0.0)
        found["busy"] += np.where(found["active"] > 0, np.minimum(found["used"], found["cores"]) * since, 0.0)
        return found

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """The whole state, to `restore` later; bit-exact."""
        return {"meta": self._state.meta.copy(), **{name: a.copy() for name, a in self._state.arrays.items()}}

    def restore(self, snapshot: dict[str, NDArray[Any]]) -> None:
        """Go back (or on) to a `snapshot` of a simulation of the same study."""
        arrays = {name: array.copy() for name, array in snapshot.items() if name != "meta"}
        self._state = OffloadingState(snapshot["meta"].copy(), arrays)
        self._state.link_up()

    def outcome(self) -> OffloadingOutcome:
        """The books up to now."""
        s = self._state
        meta = s.meta[0]
        uncompleted = np.zeros((2, len(self.study.applications), 3), np.int64)
        tasks = s["tasks"][s["tasks"]["stage"] != FREE]
        np.add.at(uncompleted, ((tasks["created"] >= self.study.warm_up).astype(int), tasks["app"], tasks["tier"]), 1)
        return OffloadingOutcome(
            study=self.study,
            time=self.now,
            created=int(meta["created"]),
            events=int(meta["events"]),
            tally=s["tally"].copy(),
            uncompleted=uncompleted,
            left=(tasks["app"].copy(), self.now - tasks["created"]),
            loads=s["load_samples"][: meta["loads_sampled"]].copy(),
            locations=s["location_samples"][: meta["locations_sampled"]].copy(),
            access=s["access_samples"][: meta["access_sampled"]].copy(),
            energy=energies(s, self.study),
        )

    def _ask(self) -> np.int64:
        """The caller's choice for the task at which the kernel has stopped."""
        if hasattr(self._kernel, "ask"):
            return np.int64(self._kernel.ask(self._state, self._choose))
        s = self._state
        task = s["tasks"][s.meta["asked"][0]]
        application = self.study.applications[task["app"]]
        wlan, wan, chance = kernel.outlook(s.meta)
        request = OffloadingRequest(
            self.now, int(task["device"]), int(task["place"]), int(task["app"]),
            float(task["upload"]), float(task["download"]), float(task["length"]), application.delay_sensitivity,
            (application.load_edge, application.load_cloud, application.load_mobile), wlan, wan, chance,
        )  # fmt: skip
        count = int(s.meta["edge_vms"][0] + s.meta["cloud_vms"][0])
        answer = self._choose(request, s["vms"][:count]) if self._choose is not None else REFUSED
        least = OWN if s.meta["mobile_vms"][0] else REFUSED
        if not isinstance(answer, int | np.integer) or not least <= answer < count:
            raise ValueError(
                f"the policy answered {answer!r} for a task of device {request.device}; expected the number of a "
                f"machine, 0..{count - 1}, -1 for none" + (", or -2 for the device itself" if least == OWN else "")
            )
        return np.int64(answer)


def simulate(study: OffloadingStudy, seed: int) -> OffloadingOutcome:
    """Run a study from beginning to end."""
    run = Simulation(study, seed)
    run.advance(study.duration)
    return run.outcome()


def energies(s: OffloadingState, study: OffloadingStudy) -> dict[str, float]:
    """J by meter: mobile, edge, cloud, network; nothing without an energy model. Looking changes nothing."""
    if study.energy is None:
        return {}
    meta = s.meta[0]
    now = float(meta["now"])
    batteries = s["batteries"]
    drawn = batteries["consumed"] + batteries["power"] * (now - batteries["since"])
    if meta["idle_power_per_call"]:
        drawn = drawn + meta["idle_calls"] * meta["device_idle"]
    return {
        "mobile": float(drawn.sum()),
        "edge": _edge(s, study, now),
        "cloud": _cloud(s, study, now),
        "network": float(meta["network_energy"]),
    }


def _busy(s: OffloadingState, tier: int, now: float) -> tuple[np.ndarray, np.ndarray]:
    """The tier's machines and the s that the cores of each have been busy."""
    vms = s["vms"][s["vms"]["tier"] == tier]
    late = np.minimum(vms["used"], vms["cores"]) * np.maximum(now - vms["since"], 0.0)
    return vms, vms["busy"] + np.where(vms["active"] > 0, late, 0.0)


def _edge(s: OffloadingState, study: OffloadingStudy, now: float) -> float:
    """Per host idle + (max - idle) * (busy cores / cores of its machines); or what the quirk adds up."""
    if "edge-on-cloud-power" in study.quirks:
        alive = s["centres"]["alive"][s["vms"]["centre"]] != 0
        return float(s["vms"]["energy"][alive].sum())
    vms, busy = _busy(s, int(EDGE), now)
    total = 0.0
    for p, place in enumerate(study.places):
        idle, full = place.power
        here = vms["place"] == p
        for host in np.unique(vms["host"][here]):
            mine = here & (vms["host"] == host)
            total += (full - idle) * float(busy[mine].sum()) / float(vms["cores"][mine].sum())
        total += idle * now * len(place.hosts)
    return total


def _cloud(s: OffloadingState, study: OffloadingStudy, now: float) -> float:
    """Per machine idle + (max - idle) * (busy cores / cores); none with quirk cloud-energy-missing."""
    if study.energy is None or "cloud-energy-missing" in study.quirks:
        return 0.0
    vms, busy = _busy(s, int(CLOUD), now)
    idle, full = study.energy.cloud_idle, study.energy.cloud_max
    return float(idle * now * len(vms) + (full - idle) * (busy / np.maximum(vms["cores"], 1)).sum())
