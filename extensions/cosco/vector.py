"""Many environments of one scenario at once, as one compiled batch."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Dict, MultiDiscrete
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from cosim.bus.runtime import Runtime
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.records import Flags, Floats, Ints
from cosim.contract.seeds import stream
from cosim.envs.session import asking
from cosim.envs.spaces import ANSWERS, MOST, Observation, observation_space, observe, sizes, whole
from cosim.extensions.cosco.adapter.adapter import IntervalAdapter
from cosim.extensions.cosco.batch import END, LOOK, STEP, Seen, Unchanging, advance
from cosim.extensions.cosco.continuum import ContinuumWorlds
from cosim.extensions.cosco.interval.layout import PAIR, WAITING, IntervalState
from cosim.extensions.cosco.interval.memory import address_of
from cosim.extensions.cosco.state import interval_reach, interval_state
from cosim.results.session import build_adapters
from cosim.scenario.plan.catalogue import signals_of
from cosim.scenario.plan.plan import Plan

_ROUNDS = "use vectorization_mode='sync', which runs one environment after the other"


class ContinuumVectorEnv(VectorEnv[Observation, NDArray[np.int64], NDArray[Any]]):
    """`num_envs` environments `cosim/Continuum-v1` of one scenario, as one compiled batch.

    Its only adapter is `interval` or `continuum`. Observations, rewards and ends are to the bit those of single
    environments with the same seeds, see `cosim.envs.central.ContinuumEnv`, whose `tasks`, `watts` and `overrides`
    these are. Copy k gets the seed `seed + k`, or its own of a list. An environment that has ended begins anew under a
    seed that it draws: at the next step, of whose action it takes no notice (`autoreset_mode` NEXT_STEP), or at once
    (SAME_STEP), when its last observation is in the infos `final_obs` and `final_info`. With `observation_mode="same"`
    every step writes to the same arrays, which saves the time to copy them: keep nothing of them beyond a step, and
    change nothing in them.

    Raises `ScenarioError` for scenarios with other adapters, whose runs only a run knows, and `ValueError` for one
    that asks for no decision.
    """

    def __init__(
        self, scenario: str | Path, num_envs: int = 1, tasks: int = 64, watts: float = 100.0,
        overrides: Sequence[str] = (), observation_mode: Literal["copy", "same"] = "copy",
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:  # fmt: skip
        if num_envs < 1:
            raise ValueError(f"{num_envs} environments; expected one or more")
        if observation_mode not in ("copy", "same"):
            raise ValueError(f"there is no observation_mode '{observation_mode}'; known: copy, same")
        if autoreset_mode not in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
            raise ValueError(f"autoreset_mode is NEXT_STEP or SAME_STEP, not {autoreset_mode}")
        self.metadata = {"render_modes": [], "autoreset_mode": autoreset_mode}
        sizes(tasks, watts)
        self._plan = asking(scenario, "interval", 1, overrides)
        self._worlds = _worlds(self._plan)(self._plan, num_envs, tasks)
        self._watts, self._copied, hosts = watts, observation_mode == "copy", self._worlds.hosts
        if not self._worlds.questions:
            raise ValueError(f"{scenario} asks for no decision per interval")
        self.num_envs = num_envs
        self.single_observation_space = observation_space(hosts, tasks)
        self.single_action_space = MultiDiscrete(np.full(tasks, ANSWERS + hosts))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        empty = {name: np.repeat(array[None], num_envs, axis=0) for name, array in observe(None, hosts, tasks).items()}
        self._seen = Seen(**empty, power=np.zeros((num_envs, hosts)))
        self._counts = np.zeros(num_envs, np.int64)
        self._asked = np.zeros(num_envs, np.int64)  # questions so far; 0: never begun
        self._over = np.zeros(num_envs, np.bool_)
        self._chance = [seeding.np_random()[0] for _ in range(num_envs)]

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin all runs, or those of `options["reset_mask"]` (num_envs,) only."""
        if seed is None or isinstance(seed, int):
            seeds = [None if seed is None else seed + k for k in range(self.num_envs)]
        else:
            seeds = list(seed)
        if len(seeds) != self.num_envs:
            raise ValueError(f"{len(seeds)} seeds for {self.num_envs} environments")
        mask = np.asarray((options or {}).get("reset_mask", np.ones(self.num_envs, np.bool_)), np.bool_)
        if mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError(f"reset_mask needs one True or more of {self.num_envs}")
        what = np.where(self._asked > 0, LOOK, END)
        self._begin(mask, seeds)
        what[mask] = LOOK
        what[self._over] = END
        self._worlds.advance(what, np.zeros((self.num_envs, 1), np.int64), self._counts, self._seen)
        return self._answer(copied=self._copied), self._info()

    def step(self, actions: Ints) -> tuple[Observation, Floats, Flags, Flags, dict[str, Any]]:
        """Decide in every environment: (num_envs, tasks) answers. Raises `ValueError` for what is no answer."""
        if not self._asked.all():
            raise ResetNeeded("call reset before step")
        space = cast(MultiDiscrete, self.single_action_space)
        chosen = np.ascontiguousarray(whole(actions, (self.num_envs, len(space.nvec)), int(space.nvec[0])))
        anew = self._over.copy()
        self._begin(anew, [None] * self.num_envs)
        self._asked[~anew] += 1
        self._over = self._asked > self._worlds.questions
        what = np.where(anew, LOOK, np.where(self._over, END, STEP))
        self._worlds.advance(what, chosen, self._counts, self._seen)
        power = self._seen.power.sum(axis=1) / self._worlds.metered
        rewards = -(power / self._watts) - self._counts / self._worlds.hosts
        rewards[anew | self._over] = 0.0
        over, info = self._over.copy(), self._info()
        if self.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP and over.any():
            last = self._answer(copied=True)
            self._begin(over, [None] * self.num_envs)
            self._worlds.advance(np.full(self.num_envs, LOOK), chosen, self._counts, self._seen)
            final, info = info, self._info()
            for k in np.flatnonzero(over).tolist():
                of_one = {name: final[name][k] for name in ("time", "left_out")}
                ended = {"final_obs": {name: array[k] for name, array in last.items()}, "final_info": of_one}
                info = self._add_info(info, ended, k)
        return self._answer(copied=self._copied), rewards, np.zeros(self.num_envs, np.bool_), over, info

    def _begin(self, which: Flags, seeds: Sequence[int | None]) -> None:
        """These environments begin a run under their seeds, or under those that they draw."""
        chosen = [int(k) for k in np.flatnonzero(which)]
        if not chosen:
            return
        wanted = []
        for k in chosen:
            seed = seeds[k]
            if seed is not None:
                self._chance[k] = seeding.np_random(seed)[0]
            wanted.append(int(self._chance[k].integers(1, 2**31)) if seed is None else seed)
        self._worlds.begin(chosen, wanted)
        self._asked[chosen], self._over[chosen] = 1, False

    def _answer(self, *, copied: bool) -> Observation:
        given = self.single_observation_space
        found = {name: getattr(self._seen, name) for name in cast(Dict, given)}
        return {name: array.copy() for name, array in found.items()} if copied else found

    def _info(self) -> dict[str, Any]:
        room = self._seen.tasks.shape[1]
        begun = self._asked > 0
        time = (self._asked - 1) * self._worlds.length
        return {
            "time": np.where(self._over, self._plan.duration, time), "_time": begun,
            "left_out": np.maximum(self._counts - room, 0), "_left_out": begun.copy(),
        }  # fmt: skip


class IntervalWorlds:
    """Worlds of the adapter `interval`. All that will come under a seed is drawn as it begins."""

    def __init__(self, plan: Plan, count: int, tasks: int) -> None:
        self._model, (one,) = _started(plan), plan.adapters
        self._name, self.length, self.questions = one.name, self._model.simulation.length, plan.ticks // one.period
        given = self._model.simulation.world
        start: IntervalState = given._replace(**{
            name: getattr(given, name).copy() for name in ("rules", "hosts", "slots", "row")
        })  # fmt: skip
        self._start, self.hosts = start, len(start.hosts)
        self.metered = self.hosts
        self._rules = np.repeat(start.rules, count)
        self._hosts = np.repeat(start.hosts[None], count, axis=0)
        self._slots = np.repeat(start.slots[None], count, axis=0)
        self._pairs = np.zeros((count, len(start.pairs)), PAIR)
        self._row = np.zeros((count, len(start.row)))
        self._words = [  # numpy copies records field by field, and words at once
            (mine.view(np.int64).reshape(count, -1), array.view(np.int64).reshape(-1))
            for mine, array in ((self._rules, start.rules), (self._hosts, start.hosts), (self._slots, start.slots))
        ]
        self._given: list[Floats] = [start.given] * count
        self._queue = [start.queue] * count
        state = interval_state(self._model.simulation, self._model.simulation.state())
        way = np.minimum(interval_reach(self._model.simulation), MOST)
        bits = np.arange(self.questions + 2, dtype=np.float64).view(np.uint64)
        self._fixed = Unchanging(observe(state, self.hosts, 0)["hosts"], way, bits)
        self._events = _outages(plan, self._model, one.period, self.questions)
        self._following = np.zeros(count, np.int64)

    def begin(self, chosen: Sequence[int], seeds: Sequence[int]) -> None:
        """Begin a run in these worlds, under these seeds."""
        drawn = self._model.containers([stream(seed, self._name) for seed in seeds], self.questions)
        for k, given in zip(chosen, drawn, strict=True):
            self._place(k, given)

    def advance(self, what: Ints, actions: Ints, counts: Ints, seen: Seen) -> None:
        """Do `what` (N,) with each world."""
        done = advance(address_of(self._rules), what, actions, self._events, self._following, self._fixed, counts, seen)
        if done < len(what):  # cannot be: the ring has room for all that come
            raise RuntimeError(f"environment {done} has no room for those that wait")

    def _place(self, k: int, given: Floats) -> None:
        """World k as at the beginning, with these containers to come."""
        self._given[k] = given
        if self._queue[k] is self._start.queue or len(self._queue[k]) < len(given) + len(self._start.slots):
            self._queue[k] = np.zeros(2 * len(given) + len(self._start.slots) + 64, WAITING)
        for mine, start in self._words:
            mine[k] = start
        rules = self._rules[k : k + 1]
        for name, array in (
            ("hosts", self._hosts[k]), ("slots", self._slots[k]), ("pairs", self._pairs[k]), ("row", self._row[k]),
            ("given", given), ("queue", self._queue[k]),
        ):  # fmt: skip
            rules[name] = address_of(array)
        rules["given_count"], rules["queue_room"] = len(given), len(self._queue[k])
        rules["ended_room"] = 0  # ended tasks are not listed
        self._following[k] = 0


def _worlds(plan: Plan) -> type[IntervalWorlds] | type[ContinuumWorlds]:
    """What the plan's only adapter runs in. Raises `ScenarioError` when it cannot run in batches."""
    use = plan.adapters[0].use
    others = [one.name for one in plan.adapters if one.use not in _MODELS or one.isolated or one.connect]
    if others or len(plan.adapters) != 1:
        raise ScenarioError(
            Problem(
                f"environments run in a batch with one adapter alone, {' or '.join(_MODELS)}, in this process; here is "
                f"{', '.join(others)}", path="adapters", hint=_ROUNDS,
            )
        )  # fmt: skip
    return _MODELS[use]


def _started(plan: Plan) -> IntervalAdapter:
    """The plan's only adapter, started."""
    adapters = build_adapters(plan)
    with tempfile.TemporaryDirectory(prefix="cosim-env-") as scratch:
        Runtime(plan, adapters, signals_of(plan), scratch=Path(scratch)).start()
    return cast(IntervalAdapter, adapters[plan.adapters[0].name])


def _outages(plan: Plan, model: IntervalAdapter, period: int, intervals: int) -> Ints:
    """(E, 3) in the order in which they happen: intervals that have passed, host, 1 when it is back."""
    rows: list[tuple[int, int, int]] = []
    times = np.array([plan.time(k * period) for k in range(intervals + 1)])
    for event in sorted(plan.events, key=lambda event: event.at):
        if event.do in ("fail", "recover"):
            passed = int(np.searchsorted(times, event.at))
            rows += [(passed, host, int(event.do == "recover")) for host in model.struck(event)]
    return np.array(rows, np.int64).reshape(-1, 3)


_MODELS: dict[str, type[IntervalWorlds] | type[ContinuumWorlds]] = {
    "interval": IntervalWorlds,
    "continuum": ContinuumWorlds,
}
