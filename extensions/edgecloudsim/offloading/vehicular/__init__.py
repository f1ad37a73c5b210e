"""The vehicular model: vehicles on a circular road, three ways for a task, queueing links that are measured.

`cosim.extensions.edgecloudsim.offloading.Simulation` runs it for studies of model `app5`; what it asks of a model
is here. The parts: `road` and `links` are the world, `observed` is what the policies in `choices`
see of it, `learned` and `learn` the networks of one of them, `kernel` the life of a task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.extensions.edgecloudsim.offloading.layout import OffloadingState
from cosim.extensions.edgecloudsim.offloading.study import OffloadingStudy
from cosim.extensions.edgecloudsim.offloading.vehicular.kernel import act
from cosim.extensions.edgecloudsim.offloading.vehicular.observed import NAMES, OPTIONS
from cosim.extensions.edgecloudsim.offloading.vehicular.road import Road
from cosim.extensions.edgecloudsim.offloading.vehicular.state import prepare

__all__ = ["Choose", "VehicularRequest", "act", "ask", "places", "positions", "prepare"]


class VehicularRequest(NamedTuple):
    """A task that waits for the caller's choice of its way. Sizes in kB, length in MI."""

    now: float  # s
    device: int
    place: int  # the access point that serves the vehicle
    application: int
    upload: float
    download: float
    length: float
    features: NDArray[np.float64]  # (OPTIONS, FEATURES) features of each option, from `observed`


# Answers 0 for an edge machine, 1 for the cloud over the road side, 2 for the cloud over the cellular network.
Choose = Callable[[VehicularRequest], int]


def ask(state: OffloadingState, choose: Choose) -> int:
    """The caller's choice for the task at which the kernel has stopped."""
    meta = state.meta[0]
    task = state["tasks"][meta["asked"]]
    request = VehicularRequest(
        float(meta["now"]), int(task["device"]), int(task["place"]), int(task["app"]),
        float(task["upload"]), float(task["download"]), float(task["length"]), state["features"].copy(),
    )  # fmt: skip
    answer = choose(request)
    if not isinstance(answer, int | np.integer) or not 0 <= answer < OPTIONS:
        names = ", ".join(f"{k} ({name})" for k, name in enumerate(NAMES))
        raise ValueError(f"the policy answered {answer!r} for a task of device {request.device}; expected {names}")
    return int(answer)


def places(state: OffloadingState, study: OffloadingStudy) -> NDArray[np.int64]:
    """(devices,) the access point that serves each vehicle now."""
    return _whereabouts(state, study)[0]


def positions(state: OffloadingState, study: OffloadingStudy) -> NDArray[np.float64]:
    """(devices, 2) m: along the road, as the places' x, and their y of zero."""
    along = _whereabouts(state, study)[1]
    return np.stack([along, np.zeros_like(along)], axis=1)


def _whereabouts(state: OffloadingState, study: OffloadingStudy) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    devices = state["devices"]
    return Road(study.places).position(devices["place"], devices["next_move"], float(state.meta["now"][0]))
