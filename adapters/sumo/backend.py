"""SUMO behind four calls, first form: libsumo, inside this process.

The other form is `traci_backend.TraciBackend`; both give the same numbers.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from cosim.contract.errors import RunError

log = logging.getLogger(__name__)

# x, y, z (m), speed (m/s), heading (deg): float64, one item per vehicle
Columns: TypeAlias = "Sequence[memoryview[float]]"


@dataclass(frozen=True, slots=True)
class Moves:
    """What changed in SUMO's last step."""

    departed: Sequence[str]
    arrived: Sequence[str]
    landed: Sequence[str]  # put back on the road after a teleport
    jumped: bool  # a teleport began or ended
    running: int  # inserted and not arrived, those in a teleport included


class SumoBackend(ABC):
    """A SUMO simulation, with what is asked in the same words over libsumo and over TraCI.

    Every method may raise `RunError` with SUMO's own words.
    """

    _sumo: Any  # the libsumo module, or a TraCI connection

    @abstractmethod
    def start(self, arguments: Sequence[str]) -> None:
        """Load the simulation, without a step."""

    def time(self) -> float:
        """SUMO's time (s): that of the step which comes next."""
        return float(self._sumo.simulation.getTime())

    def step_length(self) -> float:
        """SUMO's step length (s)."""
        return float(self._sumo.simulation.getDeltaT())

    @abstractmethod
    def advance(self, until: float) -> Moves:
        """Simulate all steps before `until` (s)."""

    def visible(self) -> Sequence[str]:
        """All vehicles that are on the road or parked beside it, in SUMO's order."""
        found: Sequence[str] = self._sumo.vehicle.getIDList()
        return found

    def watch(self, vehicle: str) -> None:  # noqa: B027 - only subscriptions have to be made ready
        """Get ready to `read` a vehicle in this step and the following ones."""

    def unwatch(self, vehicle: str) -> None:  # noqa: B027
        """Undo `watch` of a vehicle that is still there."""

    @abstractmethod
    def read(self, vehicles: Iterable[str], into: Columns) -> None:
        """Write the state of watched vehicles into the columns, in the order given."""

    def place(self, vehicle: str) -> tuple[float, float]:
        """Position (m) of one vehicle, watched or not."""
        x, y = self._sumo.vehicle.getPosition(vehicle)
        return x, y

    def vehicle_class(self, vehicle: str) -> str:
        """SUMO's class of a vehicle, for example passenger."""
        return str(self._sumo.vehicle.getVehicleClass(vehicle))

    def project(self, longitude: float, latitude: float) -> tuple[float, float] | None:
        """WGS84 (deg) to the network's metres, None for a network without projection, which gives them back."""
        x, y = self._sumo.simulation.convertGeo(longitude, latitude, True)
        return None if (x, y) == (longitude, latitude) else (x, y)

    def elevated(self) -> bool:
        """Whether the network has heights: a junction lies at another one than zero."""
        junction = self._sumo.junction
        points = (junction.getPosition(name, True) for name in junction.getIDList())
        return any(len(point) > 2 and point[2] != 0.0 for point in points)

    def statistic(self, key: str) -> int:
        """One of SUMO's `stats.*` counters."""
        return int(float(self._sumo.simulation.getParameter("", key) or 0))

    def version(self) -> str:
        """For example SUMO 1.28.0."""
        return str(self._sumo.getVersion()[1])

    @abstractmethod
    def close(self) -> None:
        """End the simulation. May be called twice."""


class LibsumoBackend(SumoBackend):
    """libsumo: no socket, but one simulation per process, and the interpreter lock is held meanwhile.

    Nothing is subscribed: getters cost less when there is no socket.
    """

    def __init__(self, log_file: Path) -> None:
        self._log_file = log_file
        self._sumo: Any = None  # the module, while a simulation of ours is loaded
        self._readers: tuple[
            Callable[[str], tuple[float, float, float]], Callable[[str], float], Callable[[str], float]
        ]

    def start(self, arguments: Sequence[str]) -> None:
        if "pyarrow" in sys.modules:
            log.warning("pyarrow is loaded in libsumo's process; both bring a libarrow and may crash each other")
        with contextlib.redirect_stdout(io.StringIO()) as said:
            import libsumo
        if said.getvalue():
            log.debug("libsumo: %s", said.getvalue().strip())
        if libsumo.simulation.isLoaded():
            raise RunError(
                "a SUMO simulation already runs in this process, and libsumo would silently replace it; "
                "run each sumo adapter in a process of its own (isolated: true) or set 'interface: traci'"
            )
        try:
            libsumo.start(["sumo", *arguments])
        except (libsumo.TraCIException, libsumo.FatalTraCIError) as error:
            if libsumo.simulation.isLoaded():  # a failed start leaves half a simulation behind
                libsumo.close()
            raise RunError(self._explain("SUMO cannot start", error)) from error
        self._sumo = libsumo
        self._readers = _readers(libsumo)

    def _explain(self, what: str, error: BaseException) -> str:
        return explain(what, error, self._log_file)

    def advance(self, until: float) -> Moves:
        simulation = self._sumo.simulation
        try:
            self._sumo.simulationStep(until)
        except (self._sumo.TraCIException, self._sumo.FatalTraCIError) as error:
            raise RunError(self._explain(f"SUMO stopped at its time {self.time():g} s", error)) from error
        landed = simulation.getEndingTeleportIDList()
        return Moves(
            simulation.getDepartedIDList(),
            simulation.getArrivedIDList(),
            landed,
            bool(landed) or simulation.getStartingTeleportNumber() > 0,
            self.statistic("stats.vehicles.running"),
        )

    def read(self, vehicles: Iterable[str], into: Columns) -> None:
        x, y, z, speed, heading = into
        position_of, speed_of, angle_of = self._readers
        # one vehicle at a time, so that SUMO's data about it is still in the processor's cache
        for i, vehicle in enumerate(vehicles):
            x[i], y[i], z[i] = position_of(vehicle)
            speed[i] = speed_of(vehicle)
            heading[i] = angle_of(vehicle)

    def close(self) -> None:
        if self._sumo is not None:
            self._sumo.close()
            self._sumo = None


def _readers(libsumo: Any) -> tuple[Any, Any, Any]:  # noqa: ANN401 - a compiled module without types
    """The three getters, without the Python function that the package wraps around each.

    The wrapper costs a quarter of a call (measured: 0.71 us with it, 0.53 us without); a release that
    arranges its module in another way is read through it.
    """
    native = getattr(libsumo, "_libsumo", None)
    names = ("getPosition3D", "getSpeed", "getAngle")
    found = [getattr(native, f"vehicle_{name}", None) or getattr(libsumo.vehicle, name) for name in names]
    return found[0], found[1], found[2]


def explain(what: str, error: BaseException, log_file: Path, lines: int = 8) -> str:
    """`what`, the error's text and the last lines of SUMO's log, which have more detail."""
    text = " ".join(str(error).split()) or type(error).__name__
    try:
        tail = log_file.read_text(errors="replace").splitlines()
    except OSError:
        tail = []
    ended = next((i for i, line in enumerate(tail) if line.startswith("Simulation ended")), len(tail))
    tail = [line for line in tail[:ended] if line.strip()][-lines:]  # statistics follow after the end
    if not tail:
        return f"{what}: {text}"
    return f"{what}: {text}\nlast lines of SUMO's log ({log_file}):\n" + "\n".join(f"  {line}" for line in tail)
