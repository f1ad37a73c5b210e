"""Schedulers: who runs a task, decided when the task is made and its device has coverage.

A scheduler is a function of three arguments that answers with the number of a host:

    def choose(request, reach, hosts):
        '''The idle host with the fastest path, else the cloud.'''
        best = -1
        for i in range(len(hosts)):
            if hosts[i]["up"] and hosts[i]["assigned"] == 0 and reach[i] < float("inf"):
                if best < 0 or reach[i] < reach[best]:
                    best = i
        return best

- `request` (`cosim.schedulers.builtin.Request`): the task and its device: time, device, serving,
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
it ends the run with its own traceback. Name it in a scenario as `module:function`, or give it a name
through the entry-point group `cosim.schedulers`. The built-in ones are compiled into the engine and
cost no call.

For its answers to be repeatable, a scheduler takes its random numbers from `request.chance`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any

GROUP = "cosim.schedulers"

Choose = Callable[[Any, Any, Any], int]  # (Request, Reach, Hosts) -> host; see above

# In the order of cosim.schedulers.builtin.ORDER.
BUILTIN: dict[str, str] = {
    "nearest": "the host at the serving cell, else the one with the fastest path",
    "least-loaded": "the host in reach with the fewest tasks per cores x clock",
    "cloud": "the cloud host with the fastest path",
    "local": "the device itself",
    "random": "any host in reach, all equally likely",
    "round-robin": "the hosts in reach one after another",
    "hybrid": "the nearest host while its backlog is below a threshold, else the cloud",
}


class SchedulerError(Exception):
    """There is no such scheduler, or it cannot be imported; says what there is."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A scheduler: compiled into the engine (`number` >= 0), or a function of the user's."""

    name: str
    number: int  # position among the built-in ones, -1
    function: Choose | None  # None for the built-in ones


@cache
def _outside() -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group=GROUP)}


def scheduler_names() -> tuple[str, ...]:
    """Every scheduler that has a name: the built-in ones, then the installed ones."""
    return (*BUILTIN, *sorted(set(_outside()) - set(BUILTIN)))


def list_schedulers() -> list[tuple[str, str]]:
    """(name, one line) of every scheduler that has a name."""
    listed = list(BUILTIN.items())
    for name in scheduler_names()[len(BUILTIN) :]:
        try:
            text = (scheduler(name).function.__doc__ or "").strip()
        except SchedulerError as error:
            text = str(error)
        listed.append((name, text.splitlines()[0] if text else ""))
    return listed


def scheduler(name: str) -> Scheduler:
    """The scheduler `name`: a built-in or installed one, or `module:function`.

    Raises `SchedulerError` when there is none or when it cannot be imported.
    """
    if name in BUILTIN:
        return Scheduler(name, list(BUILTIN).index(name), None)
    target = _outside().get(name, name)
    module, colon, attribute = target.partition(":")
    if not colon:
        raise SchedulerError(
            f"there is no scheduler '{name}'; known: {', '.join(scheduler_names())}; "
            "or name a function of your own as module:function"
        )
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise SchedulerError(f"scheduler '{name}' cannot be imported: {error}") from error
    if not callable(function):
        raise SchedulerError(f"scheduler '{name}': {target} is a {type(function).__name__}, not a function")
    return Scheduler(name, -1, function)
