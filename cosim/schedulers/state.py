"""The policy interface: a policy's input, its answer, and the decisions that it can take.

    from cosim.schedulers.state import decides

    @decides("task", "interval")
    def fastest(state):
        '''The host with the fastest path.'''
        return state.reach.argmin(axis=1)

A policy is a callable of one `State` that returns a host for each of its tasks, (T,) integers:
the number of a host, `LOCAL` for the task's own device, or `KEEP`: a task stays where it is, and one
that has no host goes on waiting. It names the decisions that it can take:

- "task": a destination for one task, asked when the task is made; T is 1.
- "interval": destinations for all tasks at the beginning of an interval. Tasks with a host may be
  moved; each model marks which (`movable`).
- "response": what devices and cells of a radio do about alarms; state and answer are those of
  `cosim.schedulers.alarms`.

A class is made anew for each run, so what a policy remembers is its own. In runs of the continuum a method
`begin(context)` gets the adapter's `Context` before the first decision, and what `summary()` returns after the
last one stands in the adapter's summary under the policy's name. If a policy has a method
`learn(ended)`, it is called with the tasks that ended: columns host (its number, -1: none or the device),
work (cycles), seconds (from creation to the end), completed, device (its slot), deadline (s after creation),
part (`WHOLE` a task, `STAGE` a stage of a graph, `GRAPH` all its stages together) and task (its number as in
`State.tasks`, -1: not known), all (E,). To be repeatable, it takes random numbers from `tasks["chance"]`.

A policy with `of_waiting = True` decides per interval about waiting tasks alone, by what tasks ask and how they
travel: it moves none, and powers and loads of hosts mean nothing to it. So tasks of real nodes can have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosim.contract.records import Floats, Ints, Records

Decision = Literal["task", "interval", "response"]
DECISIONS: tuple[str, ...] = get_args(Decision)
KEEP, LOCAL = -1, -2
WHOLE, STAGE, GRAPH = range(3)  # what ended
EDGE, CLOUD = 1.0, 2.0  # tiers
REFERENCE = 100e3  # B, the transfer that `reach` is about


def table(*names: str) -> np.dtype[np.void]:
    """All columns are float64, so that `matrix` is a view."""
    return np.dtype([(name, "f8") for name in names])


HOST = table(
    "tier",  # 1 edge, 2 cloud
    "cores",
    "speed",  # cycles/s of all cores together
    "tasks",  # sent there and not yet computed, those on their way included
    "demand",  # cycles/s that they ask for
    "utilisation",  # mean of the last interval where there is one, else the share of the cores that is asked for
    "memory",  # B free, inf: unlimited
    "power",  # W, mean of the last interval, NaN: not known
    "idle_power",  # W without load, NaN: not known
    "full_power",  # W at full load, NaN: not known
    "price",  # per hour of the host, NaN: not known
    "up",  # 1, or 0 for one that has failed or cannot run the task
)
TASK = table(
    "task",  # number in order of creation
    "device",  # slot of its device, -1: not known
    "workload",
    "host",  # number of its host, -1: it waits for one
    "movable",  # 1, or 0 for one that must stay
    "input",  # B to send, or to copy when it moves
    "output",  # B
    "work",  # cycles left
    "demand",  # cycles/s that it asks for
    "memory",  # B
    "deadline",  # s from now, inf: none
    "age",  # s since creation
    "own_speed",  # cycles/s of its device's own cores, 0: none
    "own_tasks",  # on its device's own cores
    "chance",  # uniform in [0, 1), the task's own
)


class Branching(Protocol):
    """What becomes of a model's present under each of K candidates: how a policy tries decisions before it takes one.

    A candidate is an answer (T,) of a policy: a host for each task, KEEP, or LOCAL where there are devices. All begin
    at the present, which does not change, and run `horizon` intervals further. The figures are records (K,) with at
    least the columns of `BRANCHED`. What is to come is not known to them. `interval`: containers come between two
    intervals only; after the first one the built-in policy `then` decides, about containers that are drawn by `seed`,
    and `each` keeps the intervals apart (K, horizon), see its `Interval.branch`. `continuum`: nothing comes, links and
    radio stay as they are, and the horizon is longer where tasks are, see `cosim.schedulers.models`.
    """

    def __call__(
        self, candidates: ArrayLike, horizon: int = 1, *, then: str | None = None, seed: int | None = None,
        each: bool = False,
    ) -> Records:  # fmt: skip
        """The figures of candidates (K, T). Raises `ValueError` for hosts that there are not, and what it cannot."""


BRANCHED = table(
    "energy",  # J of the hosts within the horizon
    "present",  # s that tasks are in the system within it, in all
    "ahead",  # J that its tasks will take after it
    "left",  # s that they will still be there
    "waiting",  # tasks that wait for a host at its end, whose time and work are in none of the others
)


class State(NamedTuple):
    """What a policy sees: copies, nothing that the model reads."""

    time: float  # s
    interval: float  # s until the policy is asked again; 0: for the next task
    hosts: Records  # (H,) HOST
    tasks: Records  # (T,) TASK
    reach: Floats  # (T, H) s that a reference transfer (100 kB) takes from the task's data to the host, inf: no way
    branch: Branching | None = None  # None: it cannot
    most: int | None = None  # candidates that it can try in some 30 ms on one core, by its size; None: thousands

    def seconds(self) -> Floats:
        """(T, H) s that each task would take on each host as things are: transfer, then an equal part of the cores.

        A rough guess for policies that compare hosts; inf for hosts that are down or cannot be reached.
        """
        hosts, tasks = self.hosts, self.tasks
        transfer = self.reach * np.maximum(tasks["input"] / REFERENCE, 1.0)[:, None]
        others = hosts["tasks"][None, :] - (tasks["host"][:, None] == np.arange(len(hosts)))
        core = hosts["speed"] / hosts["cores"]
        share = core * np.minimum(1.0, hosts["cores"] / (np.maximum(others, 0.0) + 1.0))
        time = transfer + tasks["work"][:, None] / share
        return np.where(hosts["up"] != 0.0, time, np.inf)


class Policy(Protocol):
    """A callable of a state that knows which decisions it can take."""

    decisions: frozenset[str]

    def __call__(self, state: State, /) -> ArrayLike:
        """(T,) destinations."""


Made = TypeVar("Made", bound=Callable[..., Any])


def decides(*decisions: Decision) -> Callable[[Made], Made]:
    """Mark a function or class as a policy that can take `decisions`. Raises `ValueError` for unknown ones."""
    unknown = sorted(set(decisions) - set(DECISIONS))
    if unknown or not decisions:
        raise ValueError(f"a policy decides {' or '.join(DECISIONS)}, not {', '.join(unknown) or 'nothing'}")

    def mark(made: Made) -> Made:
        made.decisions = frozenset(decisions)  # type: ignore[attr-defined]
        return made

    return mark


def matrix(records: Records) -> Floats:
    """(N, columns) float64 of HOST or TASK records, the same memory."""
    names = records.dtype.names or ()
    return np.ascontiguousarray(records).view(np.float64).reshape(len(records), len(names))


def answers(policy: Policy, state: State) -> Ints:
    """The policy's destinations, checked. Raises `ValueError` for answers that cannot be."""
    found = np.asarray(policy(state))
    if found.shape == (0,) == (len(state.tasks),):  # as of an empty list, whose type numpy makes up
        return np.empty(0, np.int64)
    name = _named(policy)
    if found.shape != (len(state.tasks),) or found.dtype.kind not in "iu":
        raise ValueError(
            f"policy {name} answered {found.dtype} of shape {found.shape} about {len(state.tasks)} tasks; expected "
            "one integer each: a host's number, -1 to keep it, -2 for its device"
        )
    wrong = found[(found < LOCAL) | (found >= len(state.hosts))]
    if len(wrong):
        raise ValueError(
            f"policy {name} answered host {wrong[0]}; expected 0..{len(state.hosts) - 1}, -1 to keep a task where it "
            "is or -2 for its device"
        )
    return found.astype(np.int64)


def _named(policy: Policy) -> str:
    """What a policy is called, and where it is written."""
    kind = type(policy)
    code = getattr(policy, "__code__", None) or getattr(kind.__call__, "__code__", None)
    name = getattr(policy, "__name__", kind.__name__)
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


Ended = Mapping[str, NDArray[Any]]
