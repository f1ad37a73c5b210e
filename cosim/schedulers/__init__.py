"""Schedulers: who runs a task, for all models.

There are three kinds, all named in the same places (`adapters.continuum.scheduler`,
`adapters.offloading.policy`, `adapters.interval.policy`, `adapters.radio.response.do`) and all listed by
`cosim schedulers`:

- compiled into one model: the cheapest, and part of that model (`BUILTIN`, `OF_MODELS`);
- policies: written once against documented state, for every model that asks for one of the decisions
  that they can take. `cosim.schedulers.state` is the interface, `cosim.schedulers.policies` are those
  that come with the product, and `MODELS` says what each model asks for;
- functions of three arguments, for the continuum alone, described below.

Name one of your own as `module:name`, or give it a name through the entry-point group
`cosim.schedulers`.

A scheduler is a function of three arguments that answers with the number of a host:

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
- the answer: a number 0..len(hosts)-1, `LOCAL` (-2) for the device itself, `NONE` (-1) for nobody:
  then a device without coverage waits for coverage and is asked about again, and the task of a
  device with coverage fails.

The function may be plain Python or compiled by numba. It is called once per decision, in the order
of simulated time, with the state as it is at that time; the engine stops for it, so an exception in
it ends the run with its own traceback.

For its answers to be repeatable, a scheduler takes its random numbers from `request.chance`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cosim.schedulers.state import Policy

from cosim.contract.errors import told
from cosim.contract.functions import function
from cosim.extensions.metanet.catalogue import CATALOGUE

GROUP = "cosim.schedulers"

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
    "mail-mmsg": (
        "cosim.extensions.mail_mmsg.decide:MailMmsg", frozenset(("task",)),
        "hosts ranked by weights that were learned in a platform learned from a log",
    ),
    "game": ("cosim.schedulers.policies:Game", frozenset(("task",)), "each device's share for the cloud by a game"),
    "search": (
        "cosim.schedulers.search:Search", frozenset(("interval",)),
        "the best of thousands of candidates, tried one interval ahead",
    ),
    "rollout": (
        "cosim.extensions.metanet.rollout:Rollout", frozenset(("interval",)),
        "the best decision of MetaNet's seven policies, tried one interval ahead",
    ),
    **{name: (where, frozenset(("interval",)), text) for name, (where, text) in CATALOGUE.items()},
}  # fmt: skip

# The decisions that each model can ask a policy for.
MODELS: dict[str, frozenset[str]] = {
    "continuum": frozenset(("task", "interval")),  # interval: for policies that take no other
    "offloading": frozenset(("task",)),  # not its vehicular application, which has three ways instead of hosts
    "interval": frozenset(("interval",)),
    "radio": frozenset(("response",)),  # to the alarms of a detector
}

NEED_BRANCH = ("search", "rollout")  # policies that try candidates on the model
BRANCHING = ("interval",)  # the models that let them

# Policies that are made of files: name -> (where, decisions, key of the files, models that read them, one line). The
# model's configuration has the files under the key, and tells the policy by `observe` what is measured.
OF_FILES: dict[str, tuple[str, frozenset[str], str, tuple[str, ...], str]] = {
    "mlsysops": (
        "cosim.schedulers.mlsysops:ClusterAgent", frozenset(("task",)), "mlsysops", ("continuum",),
        "policy files of the MLSysOps framework, named in `mlsysops.policies`",
    ),
}  # fmt: skip

# Compiled into one of the other models: name -> (model, one line).
OF_MODELS: dict[str, tuple[str, str]] = {
    "shuffle": ("interval", "new containers anywhere, others move anywhere with chance 1/2"),
    "first-fit": ("interval", "the first host with room"),
    "best-fit": ("interval", "the fullest host with room"),
    "next-fit": ("offloading", "the next machine with room after the last one"),
    "random-fit": ("offloading", "a random machine with room"),
    "worst-fit": ("offloading", "the emptiest machine"),
    "network-based": ("offloading", "the cloud while the WAN is fast (app2, app4)"),
    "utilization-based": ("offloading", "the cloud while the edge is busy (app2, app4)"),
    "fuzzy-based": ("offloading", "fuzzy rules for place and tier (app4)"),
    "fuzzy-competitor": ("offloading", "fuzzy rules of the comparison (app4)"),
    "only-edge": ("offloading", "the edge (app3, app6)"),
    "only-mobile": ("offloading", "the device (app3, app6)"),
    "predictive": ("offloading", "in inverse proportion to failures and times (app5)"),
    "mab": ("offloading", "ALTO's bandit over three ways (app5)"),
    "game-theory": ("offloading", "a game between vehicles over three ways (app5)"),
    "ai-based": ("offloading", "networks that predict success and time of three ways (app5)"),
    "other-cell": ("radio", "a device with an alarm leaves for another cell"),
    "other-carrier": ("radio", "a device with an alarm leaves for a cell on another carrier"),
    "spare-cell": ("radio", "an alarm wakes cells that are silent otherwise"),
    "relay-drone": ("radio", "an alarm wakes cells on drones, which take off"),
    "disconnect": ("radio", "a device with an alarm leaves the air"),
}
# Names that are compiled into several models.
_ALSO: dict[str, tuple[str, ...]] = {
    "least-loaded": ("interval",), "random": ("interval", "offloading"), "round-robin": ("interval",),
    "hybrid": ("offloading",), "first-fit": ("offloading",), "best-fit": ("offloading",),
}  # fmt: skip


class SchedulerError(Exception):
    """There is no such scheduler, or it cannot be imported, made or compared; says what there is."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A scheduler for the continuum, or a policy for any model that asks for its decisions."""

    name: str
    number: int  # position among those compiled into the continuum, -1
    function: Choose | None  # for the continuum alone, None: a compiled one or a policy
    make: Callable[[], Policy] | None = None  # a policy, made anew for each run
    decisions: frozenset[str] = frozenset(("task",))
    files: str = ""  # key of the configuration that names the files it is made of, "" for none

    def policy(self, model: str) -> Policy:
        """A policy for a run of `model`.

        Raises `SchedulerError` when it is none, decides nothing that the model asks, or cannot be made.
        """
        self._of_no_files()
        if self.make is None:
            marks = " or ".join(f'"{one}"' for one in sorted(MODELS[model]))
            raise SchedulerError(
                f"scheduler '{self.name}' is made for the continuum; {model} needs a policy, which says "
                f"@decides({marks}) of cosim.schedulers.state"
            )
        if not self.decisions & MODELS[model]:
            takes = ", ".join(sorted(self.decisions))
            raise SchedulerError(
                f"policy '{self.name}' decides per {takes}; {model} asks per {', '.join(sorted(MODELS[model]))}"
            )
        try:
            found = self.make()
        except Exception as error:  # a class of the user's may fail in any way
            raise SchedulerError(f"policy '{self.name}' cannot be made: {told(error)}") from error
        if not callable(found):
            raise SchedulerError(f"policy '{self.name}' cannot be called; its class needs a method __call__(state)")
        return found

    def for_continuum(self) -> int | Choose:
        """What `Engine` takes: a number, or a function, made anew for a policy. Raises `SchedulerError`."""
        self._of_no_files()
        if self.make is None:
            return self.number if self.function is None else self.function
        from cosim.schedulers.models import PerTask

        if "task" not in self.decisions:
            raise SchedulerError(f"policy '{self.name}' decides per interval; the caller has to step the engine")
        return PerTask(self.policy("continuum"))

    def _of_no_files(self) -> None:
        if self.files:
            raise SchedulerError(f"scheduler '{self.name}' is made of the files under '{self.files}' of a scenario")


@dataclass(frozen=True, slots=True)
class Listing:
    """A line of `cosim schedulers`."""

    name: str
    decisions: tuple[str, ...]
    models: tuple[str, ...]  # that take it
    summary: str


@cache
def _outside() -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group=GROUP)}


def installed_names() -> tuple[str, ...]:
    """Schedulers that installed packages name by the entry-point group."""
    return tuple(sorted(set(_outside()) - set(BUILTIN) - set(POLICIES) - set(OF_FILES)))


def target_of(name: str) -> str:
    """`module:name` of the function or class that a name stands for; `name` itself where it stands for none."""
    return POLICIES[name][0] if name in POLICIES else _outside().get(name, name)


def scheduler_names(decision: str | None = None) -> tuple[str, ...]:
    """Every scheduler that has a name and is not a peer model's own; those that take `decision`, if one is given."""
    named = (*BUILTIN, *POLICIES, *installed_names())
    if decision is None:
        return named
    return tuple(
        name
        for name in named
        if decision in (POLICIES[name][1] if name in POLICIES else {"task"} if name in BUILTIN else MODELS["continuum"])
    )


def list_schedulers() -> list[Listing]:
    """Every scheduler with the decisions that it takes and the models that take it."""
    listed = [
        Listing(name, _taken(name, "continuum"), _models(name, "continuum"), text) for name, text in BUILTIN.items()
    ]
    for name, (_, decisions, text) in POLICIES.items():
        models = BRANCHING if name in NEED_BRANCH else _askers(decisions)
        listed.append(Listing(name, tuple(sorted(decisions)), models, text))
    for name, (_, decisions, _, models, text) in OF_FILES.items():
        listed.append(Listing(name, tuple(sorted(decisions)), models, text))
    for name, (model, text) in OF_MODELS.items():
        listed.append(Listing(name, _taken(name, model), _models(name, model), text))
    for name in scheduler_names()[len(BUILTIN) + len(POLICIES) :]:
        try:
            found = scheduler(name)
            made = found.function if found.make is None else found.make
            text = (getattr(made, "__doc__", None) or "").strip()
            models = ("continuum",) if found.make is None else _askers(found.decisions)
            decisions = found.decisions
        except SchedulerError as error:
            text, models, decisions = str(error), (), frozenset()
        listed.append(Listing(name, tuple(sorted(decisions)), models, text.splitlines()[0] if text else ""))
    return listed


def _models(name: str, model: str) -> tuple[str, ...]:
    return tuple(one for one in MODELS if one == model or one in _ALSO.get(name, ()))


def _taken(name: str, model: str) -> tuple[str, ...]:
    """The decisions that a compiled scheduler takes in its models."""
    models = _models(name, model)
    if models == ("radio",):
        return ("response",)
    return (*(("interval",) if "interval" in models else ()), *(("task",) if models != ("interval",) else ()))


def _askers(decisions: frozenset[str]) -> tuple[str, ...]:
    return tuple(model for model, asked in MODELS.items() if asked & decisions)


def scheduler(name: str) -> Scheduler:
    """The scheduler `name`: one that has a name, or `module:name` of a policy or function of your own.

    Raises `SchedulerError` when there is none or when it cannot be imported.
    """
    if name in BUILTIN:
        return Scheduler(name, list(BUILTIN).index(name), None)
    if name in OF_FILES:
        _, taken, files, _, _ = OF_FILES[name]
        return Scheduler(name, -1, None, None, taken, files)
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
    return Scheduler(name, -1, None, make, frozenset(decisions))
