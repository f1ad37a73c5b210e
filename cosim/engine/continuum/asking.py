"""Asks a scheduler about one task outside the engine, as the engine would."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Records
from cosim.engine.continuum import schedulers
from cosim.engine.continuum.jit import entry
from cosim.engine.continuum.layout import HOST
from cosim.engine.continuum.schedulers import Request


@entry
def choose(number: int, request: Request, reach: NDArray[np.float64], hosts: Records) -> int:
    """The answer of the compiled scheduler `number`, see `cosim.engine.continuum.schedulers.choose`."""
    return schedulers.choose(number, request, reach, hosts)


def records(
    slots: NDArray[np.int64], tier: NDArray[np.int64], cores: NDArray[np.int64], clock: NDArray[np.float64]
) -> Records:
    """(hosts,) records of idle hosts that are up and have unlimited memory."""
    made: Records = np.zeros(len(slots), HOST)
    made["slot"], made["tier"], made["cores"], made["clock"], made["frequency"] = slots, tier, cores, clock, clock
    made["speed"] = cores * clock
    made["memory"] = made["storage"] = np.inf
    made["up"] = 1
    return made
