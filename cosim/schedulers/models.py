"""What each model asks a policy, and its state as `cosim.schedulers.state.State`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosim.contract.records import Records
from cosim.engine.continuum.layout import RUN, UP
from cosim.engine.continuum.stepping import Decisions
from cosim.engine.continuum.stepping import View as StepView
from cosim.engine.interval.simulator import Interval, IntervalView
from cosim.schedulers.state import (
    CLOUD,
    EDGE,
    GRAPH,
    HOST,
    KEEP,
    LOCAL,
    STAGE,
    TASK,
    WHOLE,
    Ended,
    Floats,
    Policy,
    State,
    answers,
)

_MEGA = 1e6
_HUNDRED_KB = 0.1  # MB


class PerTask:
    """A policy as the continuum asks for it: `choose(request, reach, hosts)` for one task at a time."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._numbers: dict[int, int] = {}  # slot of a host -> its number
        self._graphs: set[int] = set()  # workloads whose stages end by themselves

    @property
    def learns(self) -> bool:
        """Whether the policy wants to know how tasks ended."""
        return hasattr(self._policy, "learn")

    def __call__(self, request: Any, reach: Floats, hosts: Records) -> int:  # noqa: ANN401 - Request
        """The number of a host, LOCAL or KEEP."""
        if not self._numbers:
            self._numbers = {int(slot): number for number, slot in enumerate(hosts["slot"])}
        tasks: Records = np.zeros(1, TASK)
        tasks[0] = (
            request.turn, request.device, request.workload, KEEP, 0.0, request.input, request.output, request.work,
            0.0, request.memory, request.deadline, 0.0, request.own_speed, request.own_tasks, request.chance,
        )  # fmt: skip
        rows = _continuum_hosts(hosts)
        rows["up"] *= np.isfinite(reach)
        return int(answers(self._policy, State(request.time, 0.0, rows, tasks, reach[None, :].copy()))[0])

    def learn(self, ended: dict[str, NDArray[Any]]) -> None:
        """Report ended tasks to the policy: rows of `Engine.drain`, or of real tasks, which have no stages."""
        numbers = np.array([self._numbers.get(int(slot), KEEP) for slot in ended["host"]], np.int64)
        completed = np.isfinite(ended["computed"]) & (ended["status"] == 0)
        rows: Ended = {
            "host": numbers, "work": ended["work"], "seconds": ended["ended"] - ended["created"],
            "completed": completed, "device": ended["device"], "deadline": ended["deadline"],
            "part": self._parts(ended),
        }  # fmt: skip
        self._policy.learn(rows)  # type: ignore[attr-defined]

    def _parts(self, ended: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
        """(E,) what ended; a graph ends with its last stage, or after it."""
        if "stage" not in ended:
            return np.full(len(ended["host"]), WHOLE)
        staged = ended["stage"] >= 0
        self._graphs.update(ended["workload"][staged].tolist())
        graphs = np.isin(ended["workload"], list(self._graphs))
        return np.where(staged, STAGE, np.where(graphs, GRAPH, WHOLE))


def _continuum_hosts(hosts: Any, utilisation: Any = None, power: Any = None) -> Records:  # noqa: ANN401
    """HOST rows from the engine's records or columns."""
    rows: Records = np.zeros(len(hosts["slot"]), HOST)
    cores, tasks = hosts["cores"], hosts["assigned"]
    rows["tier"], rows["cores"], rows["tasks"] = hosts["tier"], cores, tasks
    rows["speed"] = cores * hosts["frequency"]
    rows["demand"] = np.minimum(tasks, cores) * hosts["frequency"]
    rows["utilisation"] = np.minimum(tasks / np.maximum(cores, 1), 1.0) if utilisation is None else utilisation
    rows["memory"], rows["up"] = hosts["memory"], hosts["up"]
    rows["power"] = np.nan if power is None else power
    rows["idle_power"] = rows["full_power"] = rows["price"] = np.nan
    return rows


def step_state(view: StepView, interval: float) -> State:
    """What `Engine.step` shows, as a state: pending tasks, then placed ones (movable: under way or running)."""
    pending, placed = view.pending, view.placed
    waiting, there = len(pending["serial"]), len(placed["serial"])
    tasks: Records = np.zeros(waiting + there, TASK)
    first, rest = tasks[:waiting], tasks[waiting:]
    for rows, columns in ((first, pending), (rest, placed)):
        rows["task"], rows["device"], rows["workload"] = columns["serial"], columns["device"], columns["workload"]
        rows["input"], rows["age"] = columns["input"], view.time - columns["created"]
        rows["deadline"] = columns["created"] + columns["deadline"] - view.time
        rows["chance"] = _chances(columns["serial"], view.time)
    first["host"], first["output"], first["work"], first["memory"] = (
        KEEP, pending["output"], pending["work"], pending["memory"]
    )  # fmt: skip
    rest["host"], rest["work"] = placed["host"], placed["left"]
    rest["movable"] = ((placed["phase"] == UP) | (placed["phase"] == RUN)) & (placed["host"] >= 0)
    hosts = _continuum_hosts(view.hosts, view.hosts["utilisation"], view.hosts["power"])
    reach = np.concatenate([view.reach, np.zeros((there, len(hosts)))])  # what a move takes is the network's matter
    return State(view.time, interval, hosts, tasks, reach)


def per_step(policy: Policy, interval: float) -> Callable[[StepView], Decisions]:
    """The decisions of a policy about what `Engine.step` shows, for the next step of `interval` s."""

    def decide(view: StepView) -> Decisions:
        state = step_state(view, interval)
        found = answers(policy, state)
        chosen = (found != KEEP) & (found != state.tasks["host"])
        chosen &= (state.tasks["host"] == KEEP) | (state.tasks["movable"] != 0.0)
        return Decisions(state.tasks["task"][chosen].astype(np.int64), found[chosen])

    return decide


def per_machine(policy: Policy) -> Callable[..., int]:
    """A policy as the offloading model asks for it, machines as hosts: `choose(request, machines)`.

    Not for its vehicular application, which asks for one of three ways.
    """

    def choose(request: Any, machines: Records) -> int:  # noqa: ANN401 - Request
        hosts: Records = np.zeros(len(machines), HOST)
        cloud = machines["tier"] == 1
        need = np.where(cloud, request.need[1], request.need[0])
        hosts["tier"] = np.where(cloud, CLOUD, EDGE)
        hosts["cores"], hosts["speed"] = machines["cores"], machines["cores"] * machines["rate"] * _MEGA
        hosts["tasks"], hosts["utilisation"] = machines["active"], machines["load"] / 100.0
        hosts["demand"] = hosts["speed"] * hosts["utilisation"]
        hosts["memory"] = np.inf
        hosts["power"] = hosts["idle_power"] = hosts["full_power"] = hosts["price"] = np.nan
        hosts["up"] = machines["load"] + machines["reserved"] + need <= 100.0
        delay = np.where(cloud, request.wan_delay, request.wlan_delay)
        per = max(request.upload / 100.0, 1e-9)  # of 100 kB
        reach = np.where(delay > 0.0, delay / per, np.inf)
        tasks: Records = np.zeros(1, TASK)
        tasks[0] = (
            0.0, request.device, request.application, KEEP, 0.0, request.upload * 1e3, request.download * 1e3,
            request.length * _MEGA, 0.0, 0.0, np.inf, 0.0, 0.0, 0.0, request.chance,
        )  # fmt: skip
        return int(answers(policy, State(request.now, 0.0, hosts, tasks, reach[None, :]))[0])

    return choose


def interval_state(model: Interval, view: IntervalView) -> State:
    """What a policy of the interval model sees; containers with a host can all be moved."""
    hosts: Records = np.zeros(len(view.mips), HOST)
    placed = view.host[view.host >= 0]
    middle = 0.5 * (view.latency.min() + view.latency.max())  # the model knows clouds by their latency alone
    hosts["tier"] = np.where(view.latency > middle, CLOUD, EDGE)
    hosts["cores"], hosts["speed"] = 1.0, view.mips * _MEGA
    hosts["tasks"] = np.bincount(placed, minlength=len(hosts))
    hosts["demand"], hosts["utilisation"] = view.demanded * _MEGA, view.utilisation
    hosts["memory"], hosts["power"] = (view.ram - view.ram_used) * _MEGA, view.power
    hosts["idle_power"], hosts["full_power"] = model.world.power[:, 0], model.world.power[:, -1]
    hosts["price"], hosts["up"] = model.world.hosts["price"], view.up
    tasks: Records = np.zeros(len(view.slot), TASK)
    tasks["task"], tasks["device"], tasks["workload"] = view.container, -1.0, view.profile
    tasks["host"], tasks["movable"] = view.host, view.host >= 0
    tasks["input"] = tasks["memory"] = view.size * _MEGA
    tasks["work"], tasks["demand"] = view.remaining * _MEGA, view.demand * _MEGA
    tasks["deadline"], tasks["age"] = view.deadline * model.length, view.age * model.length
    tasks["chance"] = _chances(view.container, view.interval)
    reach = np.tile(interval_reach(model), (len(tasks), 1))
    time = (view.interval - 1) * model.length
    return State(time, model.length, hosts, tasks, reach, model.branch)


def interval_reach(model: Interval) -> Floats:
    """(H,) s that a reference transfer takes to each host, from wherever."""
    hosts = model.world.hosts
    found: Floats = _HUNDRED_KB / hosts["down_link"] + hosts["latency"]
    return found


def per_interval(policy: Policy, model: Interval) -> Callable[[IntervalView], ArrayLike]:
    """A policy as the interval model asks for it: decisions (k, 2) of slot and host."""

    def decide(view: IntervalView) -> ArrayLike:
        found = answers(policy, interval_state(model, view))
        if (found == LOCAL).any():
            raise ValueError("the interval model has no devices; a policy answered -2")
        chosen = (found != KEEP) & (found != view.host)
        return np.stack([view.slot[chosen], found[chosen]], axis=1)

    return decide


def _chances(numbers: NDArray[Any], moment: float) -> Floats:
    """A uniform draw in [0, 1) of each task's own, for this moment: a hash by the finaliser of SplitMix64."""
    step, low = 0x9E3779B97F4A7C15, 2**64 - 1
    found = []
    for number in np.asarray(numbers, np.int64).tolist():
        z = (int(np.float64(moment).view(np.uint64)) + (number + 1) * step) & low
        for _ in range(2):
            z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & low
            z = ((z ^ z >> 27) * 0x94D049BB133111EB) & low
            z = ((z ^ z >> 31) + step) & low
        found.append((z >> 11) * 2.0**-53)
    return np.array(found, np.float64)
