"""Schedulers: where a task runs, for all models.

There are three kinds, all named in the same places (`adapters.continuum.scheduler`,
`adapters.interval.policy`, `adapters.radio.response.do`, those of extensions) and all listed by
`cosim schedulers`:

- compiled into one model: the cheapest, and part of that model (`BUILTIN`, `ScheduledModel.compiled`);
- policies: written once against documented state, for every model that asks for one of the decisions that
  they can take. `cosim.schedulers.state` is the interface, `cosim.schedulers.policies` are those that
  come with the product, and `known_models` lists what each model asks for;
- functions of three arguments, for the continuum alone, described below.

Name one of your own as `module:name`, or give it a name through the entry-point group
`cosim.schedulers`.

A scheduler is a function of three arguments that returns the number of a host:

    def choose(request, reach, hosts):
        '''The idle host with the fastest path, else the cloud.'''
        best = -1
        for i in range(len(hosts)):
            if hosts[i]["up"] and hosts[i]["assigned"] == 0 and reach[i] < float("inf"):
                if best < 0 or reach[i] < reach[best]:
                    best = i
        return best

- `request` (`cosim.engine.continuum.schedulers.Request`): the task and its device: time, device, serving,
  workload, input (B), output (B), work (cycles), deadline (s), own_speed, own_tasks, chance, turn,
  threshold, stage, operations (FLOP on an accelerator), memory and storage (B at its host). Of a
  stage whose data is at a host, `serving` is that host.
- `reach`: (hosts,) s that a reference transfer (100 kB) takes from the serving node to each host,
  inf when there is no way now.
- `hosts`: (hosts,) records with slot, tier (1 edge, 2 cloud), cores, clock, speed (cycles/s of all
  cores), slots (0: unlimited), assigned (tasks sent there and not yet computed, those on their way
  included), running (tasks on the host), up, frequency (cycles/s of a core now), memory and storage
  (B free, inf: unlimited), units and free_units (of the accelerator that the task needs), state (0 on,
  1 asleep, 2 waking, 3 booting, 4 off). It is the engine's own state: look, do not write.
- the answer: a number 0..len(hosts)-1, `LOCAL` (-2) for the device itself, `NONE` (-1) for no host: then
  a task whose device has no coverage waits for it and is asked about again, and one whose device has
  coverage fails.

The function may be plain Python or compiled by numba. It is called once per decision, in the order of
simulated time, with the state at that time. The engine stops for it, so an exception in it ends the run
with its own traceback.

To be repeatable, a scheduler takes its random numbers from `request.chance`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cosim.contract.adapter import Context
    from cosim.schedulers.state import Policy

from cosim.contract.errors import SetupError, error_line
from cosim.contract.functions import function, without_extension
from cosim.contract.plugins import installed, load

Choose = Callable[[Any, Any, Any], int]  # (Request, Reach, Hosts) -> host; see above

# Compiled into the continuum, in the order of cosim.engine.continuum.schedulers.ORDER.
BUILTIN: dict[str, str] = {
    "nearest": "the host at the serving cell, else the one with the fastest path",
    "least-loaded": "the host in reach with the fewest tasks per cores x clock",
    "cloud": "the cloud host with the fastest path",
    "local": "the device itself",
    "random": "any host in reach, all equally likely",
    "round-robin": "the hosts in reach one after another",
    "hybrid": "the nearest host while its backlog is below a threshold, else the cloud",
}


# Policies for every model: name -> (where, decisions, one line).
POLICIES: dict[str, tuple[str, frozenset[str], str]] = {
    "edf": (
        "cosim.schedulers.policies:edf", frozenset(("task", "interval")),
        "earliest deadline first, each on the host that finishes it first",
    ),
    "priority": (
        "cosim.schedulers.policies:priority", frozenset(("task", "interval")),
        "workloads in the order of the file; those without deadline take the idlest hosts",
    ),
    "fuzzy": ("cosim.schedulers.policies:fuzzy", frozenset(("task",)), "nearest, other edge or cloud by fuzzy rules"),
    "bandit": (
        "cosim.schedulers.policies:Bandit", frozenset(("task",)), "least confidence bound of seconds per cycle, learned"
    ),
    "game": ("cosim.schedulers.policies:Game", frozenset(("task",)), "each device's share for the cloud by a game"),
    "search": (
        "cosim.schedulers.search:Search", frozenset(("interval",)),
        "the best of thousands of candidates, tried one interval ahead",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ScheduledModel:
    """A model that asks schedulers: for which decisions, and which ones are compiled into it."""

    decisions: frozenset[str]
    compiled: Mapping[str, str] = field(default_factory=dict)  # name -> one line
    branches: bool = False  # whether policies can try candidates on it
    limit: str = ""  # what holds for all policies that it takes
    apart: str = ""  # why it asks no policy, where it asks for something else; `decisions` is empty then


_MODELS: dict[str, ScheduledModel] = {
    "continuum": ScheduledModel(frozenset(("task", "interval")), BUILTIN, branches=True),
    "radio": ScheduledModel(frozenset(("response",)), {  # to the alarms of a detector
        "other-cell": "a device with an alarm leaves for another cell",
        "other-carrier": "a device with an alarm leaves for a cell on another carrier",
        "spare-cell": "an alarm wakes cells that are silent otherwise",
        "relay-drone": "an alarm wakes cells on drones, which take off",
        "disconnect": "a device with an alarm leaves the air",
    }),
}  # fmt: skip


@cache
def known_models() -> Mapping[str, ScheduledModel]:
    """The models that ask schedulers, by name: those of the core and those that extensions bring."""
    found = dict(_MODELS)
    for name in installed("models"):
        try:
            found[name] = load("models", name)
        except SetupError:
            continue  # what is not there asks for nothing
    return found


def of_files(name: str) -> bool:
    """Whether a policy for the continuum, per task, is made of files: an entry point of the group `cosim.agents`.

    That is a module with `problems(block, context)`, `make(block, context)` and `components(block, scene, root)`, the
    names that it places, of what the adapter has under its name, and a `PolicyMonitor(scene)` of what it reports to the
    policy by `observe`.
    """
    return name not in BUILTIN and name in installed("agents")


class SchedulerError(Exception):
    """There is no such scheduler, or it cannot be imported, made or compared; the message states what there is."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A scheduler for the continuum, or a policy for any model that asks for its decisions."""

    name: str
    number: int  # position among those compiled into the continuum, -1
    function: Choose | None  # for the continuum alone, None: a compiled one or a policy
    make: Callable[[], Policy] | None = None  # a policy, made anew for each run
    decisions: frozenset[str] = frozenset(("task",))
    files: bool = False  # it is made of files, see `of_files`
    of_waiting: bool = False  # it decides per interval, about waiting tasks alone

    def policy(self, model: str) -> Policy:
        """A policy for a run of `model`.

        Raises `SchedulerError` when it is none, decides nothing that the model asks, or cannot be made.
        """
        self._of_no_files()
        if self.make is None:
            marks = " or ".join(f'"{one}"' for one in sorted(known_models()[model].decisions))
            raise SchedulerError(
                f"scheduler '{self.name}' is made for the continuum; {model} needs a policy, which says "
                f"@decides({marks}) of cosim.schedulers.state"
            )
        asked = known_models()[model].decisions
        if not self.decisions & asked:
            takes = ", ".join(sorted(self.decisions))
            raise SchedulerError(
                f"policy '{self.name}' decides per {takes}; {model} asks per {', '.join(sorted(asked))}"
            )
        try:
            found = self.make()
        except Exception as error:  # a class of the user's may fail in any way
            raise SchedulerError(f"policy '{self.name}' cannot be made: {error_line(error)}") from error
        if not callable(found):
            raise SchedulerError(f"policy '{self.name}' cannot be called; its class needs a method __call__(state)")
        return found

    def for_continuum(
        self, interval: float = 1.0, *, waits: bool = False, context: Context | None = None
    ) -> int | Callable[..., Any]:
        """What `Engine` takes: a number, or a function, made anew for a policy. Raises `SchedulerError`.

        A policy that decides per interval gets the whole state, see `cosim.schedulers.models.PerState`; one that
        decides per task as well does where it `waits` for the caller, who then lets it decide every `interval` s.
        """
        self._of_no_files()
        if self.make is None:
            return self.number if self.function is None else self.function
        from cosim.schedulers.models import PerState, PerTask

        policy = self.policy("continuum")
        if context is not None and hasattr(policy, "begin"):
            policy.begin(context)
        if "interval" in self.decisions and (waits or "task" not in self.decisions):
            return PerState(policy, interval, waits=waits)
        return PerTask(policy)

    def _of_no_files(self) -> None:
        if self.files:
            raise SchedulerError(f"scheduler '{self.name}' is made of the files under '{self.name}' of a scenario")


@dataclass(frozen=True, slots=True)
class Listing:
    """A line of `cosim schedulers`."""

    name: str
    decisions: tuple[str, ...]
    answers: Mapping[str, str]  # model -> "yes", "yes: " with a limit, or "no: " with the reason
    summary: str

    @property
    def models(self) -> tuple[str, ...]:
        """The models that take it."""
        return tuple(model for model, answer in self.answers.items() if answer.startswith("yes"))


def installed_names() -> tuple[str, ...]:
    """Schedulers that extensions and installed packages name by the entry-point group."""
    return tuple(name for name in installed("schedulers") if name not in {*BUILTIN, *POLICIES, *installed("agents")})


def target_of(name: str) -> str:
    """`module:name` of what a name stands for, of files a module; `name` itself where it stands for none."""
    return POLICIES[name][0] if name in POLICIES else {**installed("agents"), **installed("schedulers")}.get(name, name)


def scheduler_names(decision: str | None = None) -> tuple[str, ...]:
    """Every scheduler that has a name and is not a peer model's own; those that take `decision`, if one is given."""
    named = (*BUILTIN, *POLICIES, *installed_names())
    return named if decision is None else tuple(name for name in named if takes(name, decision))


def takes(name: str, decision: str) -> bool:
    """Whether the scheduler of that name takes a decision; those that cannot be imported may take any."""
    if name in BUILTIN or name in POLICIES:
        return decision in (POLICIES[name][1] if name in POLICIES else {"task"})
    if name not in installed("schedulers"):
        return False
    try:
        return decision in scheduler(name).decisions
    except SchedulerError:
        return True


def needs_branch(name: str) -> bool:
    """Whether a policy that has a name tries candidates on the model, as its attribute `branches` states."""
    if name not in POLICIES and name not in installed("schedulers"):
        return False
    try:
        return bool(getattr(function(target_of(name)), "branches", False))
    except ValueError:
        return False


def list_schedulers() -> list[Listing]:
    """Every scheduler with the decisions that it takes and what each model answers to its name."""
    models = known_models()
    own = {name: text for one in reversed(list(models.values())) for name, text in one.compiled.items()}
    names = (*BUILTIN, *POLICIES, *installed("agents"), *(name for one in models.values() for name in one.compiled))
    listed = []
    for name in dict.fromkeys((*names, *installed_names())):
        decisions, text = frozenset[str](), POLICIES[name][2] if name in POLICIES else own.get(name, "")
        takers, refusal, branches = tuple(models), "", False  # models that can take it, and why others cannot
        if of_files(name):
            decisions, takers, refusal = frozenset(("task",)), ("continuum",), "only continuum reads its files"
            try:
                text = (load("agents", name).__doc__ or "").partition("\n")[0]
            except SetupError as error:
                takers = ()
                text = refusal = without_extension(target_of(name)) or str(error)
        elif name in BUILTIN or (name in own and name not in POLICIES):
            takers = into = tuple(model for model, one in models.items() if name in one.compiled)
            refusal = "it is a part of another model"
            asked = (frozenset(("task",)) if one == "continuum" else models[one].decisions for one in into)
            decisions = frozenset[str]().union(*asked)
        else:
            try:
                found = scheduler(name)
                made = found.function if found.make is None else found.make
                text = text or ((getattr(made, "__doc__", None) or "").strip() + "\n").splitlines()[0]
                decisions, branches = found.decisions, needs_branch(name)
                if found.make is None:
                    takers, refusal = ("continuum",), "it is a function for the continuum alone"
            except SchedulerError as error:
                takers = ()
                text = refusal = without_extension(target_of(name)) or str(error)
        answers = {
            model: _answer(name, one, model, decisions, "" if model in takers else refusal, branches)
            for model, one in models.items()
        }
        listed.append(Listing(name, tuple(sorted(decisions)), answers, text))
    return listed


def _answer(
    name: str, model: ScheduledModel, called: str, decisions: frozenset[str], refusal: str, branches: bool
) -> str:
    """What a model answers to the name of a scheduler; `refusal`: why this model cannot take it, ""."""
    if name in model.compiled:
        return "yes"
    if model.apart:
        return f"no: {model.apart}"
    if refusal:
        return f"no: {refusal}"
    if not decisions & model.decisions:
        return f"no: it decides per {', '.join(sorted(decisions))}; asked per {', '.join(sorted(model.decisions))}"
    if branches and not model.branches:
        return "no: it tries candidates, and this model cannot branch"
    limits = [model.limit] if model.limit else []
    if called == "continuum" and "task" not in decisions and not scheduler(name).of_waiting:
        limits.append("not with real tasks, whose moves and powers are not measured")
    if of_files(name):
        limits.append("with policy files")
    return f"yes: {'; '.join(limits)}" if limits else "yes"


def scheduler(name: str) -> Scheduler:
    """The scheduler `name`: one that has a name, or `module:name` of a policy or function of your own.

    Raises `SchedulerError` when there is none or when it cannot be imported.
    """
    if name in BUILTIN:
        return Scheduler(name, list(BUILTIN).index(name), None)
    if of_files(name):
        return Scheduler(name, -1, None, files=True)
    target = target_of(name)
    if ":" not in target:
        raise SchedulerError(
            f"there is no scheduler '{name}'; known: {', '.join(scheduler_names())}; "
            "or name a function of your own as module:function"
        )
    try:
        found: Any = function(target)
    except ValueError as error:
        raise SchedulerError(f"scheduler {error}") from error
    decisions = getattr(found, "decisions", None)
    if decisions is None:
        return Scheduler(name, -1, found)
    make: Callable[[], Policy] = found if isinstance(found, type) else lambda: found
    return Scheduler(name, -1, None, make, frozenset(decisions), of_waiting=getattr(found, "of_waiting", False))
