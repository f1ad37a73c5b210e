"""What each model asks a policy, and its state as `cosim.schedulers.state.State`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosim.contract.records import Floats, Ints, Records
from cosim.engine.continuum.draw import STEP, mix
from cosim.engine.continuum.stepping import Decisions, Readings, look, read
from cosim.engine.continuum.stepping import View as StepView
from cosim.schedulers.state import (
    BRANCHED,
    CLOUD,
    EDGE,
    GRAPH,
    HOST,
    KEEP,
    STAGE,
    TASK,
    WHOLE,
    Branching,
    Ended,
    Policy,
    State,
    answers,
)

if TYPE_CHECKING:
    from cosim.engine.continuum.branch import Brancher
    from cosim.engine.continuum.engine import Engine

_MEGA = 1e6


class _Learning:
    """A policy, and what it is informed of."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._numbers: dict[int, int] = {}  # slot of a host -> its number
        self._graphs: set[int] = set()  # workloads whose stages end by themselves

    @property
    def learns(self) -> bool:
        """Whether the policy wants to know how tasks ended."""
        return hasattr(self.policy, "learn")

    def number(self, hosts: Any) -> None:  # noqa: ANN401 - the engine's records or columns
        """Take the numbers of hosts from the first of these."""
        if not self._numbers:
            self._numbers = {int(slot): number for number, slot in enumerate(hosts["slot"])}

    def learn(self, ended: dict[str, NDArray[Any]]) -> None:
        """Report ended tasks to the policy: rows of `Engine.drain`, or of real tasks, which have no stages."""
        numbers = np.array([self._numbers.get(int(slot), KEEP) for slot in ended["host"]], np.int64)
        completed = np.isfinite(ended["computed"]) & (ended["status"] == 0)
        rows: Ended = {
            "host": numbers, "work": ended["work"], "seconds": ended["ended"] - ended["created"],
            "completed": completed, "device": ended["device"], "deadline": ended["deadline"],
            "part": self._parts(ended), "task": ended.get("serial", np.full(len(numbers), -1)),
        }  # fmt: skip
        self.policy.learn(rows)  # type: ignore[attr-defined]

    def _parts(self, ended: dict[str, NDArray[Any]]) -> Ints:
        """(E,) what ended; a graph ends with its last stage, or after it."""
        if "stage" not in ended:
            return np.full(len(ended["host"]), WHOLE)
        staged = ended["stage"] >= 0
        self._graphs.update(ended["workload"][staged].tolist())
        graphs = np.isin(ended["workload"], list(self._graphs))
        return np.where(staged, STAGE, np.where(graphs, GRAPH, WHOLE))


class PerTask(_Learning):
    """A policy as the continuum asks for it: `choose(request, reach, hosts)` for one task at a time."""

    def __call__(self, request: Any, reach: Floats, hosts: Records) -> int:  # noqa: ANN401 - Request
        """The number of a host, LOCAL or KEEP."""
        self.number(hosts)
        tasks: Records = np.zeros(1, TASK)
        tasks[0] = (
            request.turn, request.device, request.workload, KEEP, 0.0, request.input, request.output, request.work,
            0.0, request.memory, request.deadline, 0.0, request.own_speed, request.own_tasks, request.chance,
        )  # fmt: skip
        rows = continuum_hosts(hosts)
        rows["up"] *= np.isfinite(reach)
        return int(answers(self.policy, State(request.time, 0.0, rows, tasks, reach[None, :].copy()))[0])


class PerState(_Learning):
    """A policy as the continuum asks for it with all that is there: waiting tasks, placed ones, hosts, and `branch`.

    The engine asks for it when a task is made, or, if it `waits`, when its caller says so. `interval` (s) is the
    time between two decisions then, else the time that powers and utilisations are means of, at least.
    """

    whole = True

    def __init__(self, policy: Policy, interval: float, *, waits: bool) -> None:
        super().__init__(policy)
        self._interval, self.waits = interval, waits
        self._since: tuple[Readings, Readings] | None = None  # the meters when a mean began and may begin next
        self._known: Records | None = None
        self._brancher: Brancher | None = None

    def __call__(self, engine: Engine) -> Decisions:
        """Its decisions about the present state."""
        now = read(engine.state)
        since, following = self._since or (now, now)
        view = look(engine.state, since, {})
        if self.waits:
            self._since = now, now
        elif self._since is None or now.time - following.time >= self._interval:
            self._since = following, now
        if self._known is None or self._brancher is None:
            from cosim.engine.continuum.branch import Brancher

            self._known, self._brancher = fixed_columns(engine), Brancher(engine, arrivals=False)
            self.number(view.hosts)
        state = step_state(view, self._interval, self._known)
        self._brancher.hold()
        most = max(1, int(DECISION / (self._brancher.copied / COPIED + EVENTS * (1 + len(state.tasks)))))
        state = state._replace(branch=_ahead(self._brancher, state), most=most)
        found = _carried(state, answers(self.policy, state))
        chosen = found != KEEP
        return Decisions(state.tasks["task"][chosen].astype(np.int64), found[chosen])


def fixed_columns(engine: Engine) -> Records:
    """HOST rows with what does not change: powers without load and at full load, and prices. NaN: none is given."""
    s = engine.state
    of = s.nodes["kind"][s.hosts["slot"]]
    kinds = s.kinds[of]
    rows: Records = np.full(len(kinds), np.nan, HOST)
    metered = kinds["powers"] > 0
    first = kinds["first_power"][metered]
    rows["idle_power"][metered], rows["full_power"][metered] = (
        s.power[first],
        s.power[first + kinds["powers"][metered] - 1],
    )
    each = [engine.system.kinds[k] for k in engine.system.kind[s.hosts["slot"]].tolist()]
    price = np.array([kind.price_own + kind.cores * kind.price_cpu for kind in each])
    rows["price"] = np.where(price > 0.0, 3600.0 * price, np.nan)
    return rows


def _carried(state: State, found: Ints) -> Ints:
    """(..., T) answers as they are carried out: KEEP for tasks that cannot move, or that are there already."""
    host = state.tasks["host"]
    can = (host == KEEP) | ((state.tasks["movable"] != 0.0) & (found >= 0))
    return np.where(can & (found != host), found, KEEP)


# s of a decision, and what a candidate takes: B/s that are copied, s per task there; `benchmarks.branch` measures them
DECISION, COPIED, EVENTS = 0.03, 4e9, 8e-6
_SETTLED = 4.0  # times the longest that a task takes on its best host as things are: most have ended by then


def _ahead(brancher: Brancher, state: State) -> Branching:
    """What becomes of a state of the continuum, see `cosim.schedulers.state.Branching`.

    Time passes until most of what is there has ended: the horizon in intervals, at least `_SETTLED` times as long as
    the longest of the tasks takes on its best host. A task that waits, or has not ended or failed by then, counts as if
    it took that long once more (`left`).
    """
    best = state.seconds().min(axis=1, initial=np.inf)
    longest = float(best[np.isfinite(best)].max(initial=0.0))

    def branch(
        candidates: ArrayLike, horizon: int = 1, *, then: str | None = None, seed: int | None = None, each: bool = False
    ) -> Records:
        if then is not None or seed is not None or each:
            raise ValueError("the continuum branches without arrivals, so without `then`, `seed` and `each`")
        rows = _carried(state, np.array(candidates, np.int64, ndmin=2))
        span = max(horizon * state.interval, _SETTLED * longest)
        found = brancher.tried(state.tasks["task"].astype(np.int64), rows, span)
        count = found["completed"] + found["failed"] + found["in_flight"]
        figures: Records = np.zeros(len(rows), BRANCHED)
        figures["energy"], figures["present"] = found["energy"], count * span - found["spare"]
        figures["left"] = (count - found["completed"]) * span
        return figures

    return branch


def continuum_hosts(hosts: Any, utilisation: Any = None, power: Any = None) -> Records:  # noqa: ANN401
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


def step_state(view: StepView, interval: float, known: Records | None = None) -> State:
    """What the engine shows, as a state: pending tasks, then those at hosts; not those on their devices' own cores.

    `known`: HOST rows with the powers and prices of hosts, NaN where a host has none.
    """
    pending, placed = view.pending, view.placed
    at = placed["host"] >= 0
    waiting = len(pending["serial"])
    tasks: Records = np.zeros(waiting + int(at.sum()), TASK)
    first, rest = tasks[:waiting], tasks[waiting:]
    for rows, columns in ((first, pending), (rest, {name: column[at] for name, column in placed.items()})):
        rows["task"], rows["device"], rows["workload"] = columns["serial"], columns["device"], columns["workload"]
        rows["input"], rows["age"] = columns["input"], view.time - columns["created"]
        rows["deadline"] = columns["created"] + columns["deadline"] - view.time
        rows["chance"] = chances(columns["serial"], view.time)
    for name in ("output", "work", "memory", "own_speed", "own_tasks"):
        first[name] = pending[name]
    first["host"] = KEEP
    rest["host"], rest["work"], rest["movable"] = (placed[name][at] for name in ("host", "left", "movable"))
    hosts = continuum_hosts(view.hosts, view.hosts["utilisation"], view.hosts["power"])
    if known is not None:
        for name in ("idle_power", "full_power", "price"):
            hosts[name] = known[name]
        hosts["power"][np.isnan(known["idle_power"])] = np.nan
    return State(view.time, interval, hosts, tasks, np.concatenate([view.reach, view.moves[at]]))


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


def chances(numbers: NDArray[Any], moment: float) -> Floats:
    """A uniform draw in [0, 1) of each task's own, for this moment: a hash by the finaliser of SplitMix64."""
    z = np.array([moment], np.float64).view(np.uint64) + (np.asarray(numbers, np.int64) + 1).view(np.uint64) * STEP
    for _ in range(2):
        z = mix(z) + STEP
    drawn: Floats = (z >> np.uint64(11)) * np.float64(2.0**-53)
    return drawn
