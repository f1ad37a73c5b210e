"""SUMO behind four calls, second form: TraCI, a SUMO process behind a socket.

Values come by subscription: one getter is a round trip of 25 us on either side.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import traci
import traci.constants as tc

from cosim.adapters.sumo import install
from cosim.adapters.sumo.backend import Columns, Moves, SumoBackend, explain
from cosim.contract.errors import RunError

PATIENCE = 30  # s to wait for SUMO's socket
STOP = 10.0  # s to wait for SUMO's process to end
ASKED = (tc.VAR_POSITION3D, tc.VAR_SPEED, tc.VAR_ANGLE)
CHANGES = (
    tc.VAR_DEPARTED_VEHICLES_IDS,
    tc.VAR_ARRIVED_VEHICLES_IDS,
    tc.VAR_TELEPORT_STARTING_VEHICLES_IDS,
    tc.VAR_TELEPORT_ENDING_VEHICLES_IDS,
)
RETRY = 0.05  # s between two attempts to connect
FAILURES = (traci.TraCIException, traci.FatalTraCIError, OSError)


class TraciBackend(SumoBackend):
    """A SUMO of our own (with or without a window), or one that listens at `server`."""

    def __init__(self, log_file: Path, *, gui: bool = False, server: str = "") -> None:
        self._log_file = log_file
        self._program = "sumo-gui" if gui else "sumo"
        self._server = server
        self._process: subprocess.Popen[bytes] | None = None
        self._sumo: Any = None  # traci's connection

    def start(self, arguments: Sequence[str]) -> None:
        host, _, port = self._server.rpartition(":")
        try:
            if self._server:
                self._sumo = _connect(int(port), host)
            else:
                self._launch(arguments)
            self._sumo.simulation.subscribe(CHANGES)
        except FAILURES as error:
            self.close()
            where = f"no SUMO answers at {self._server}" if self._server else f"{self._program} cannot start"
            raise RunError(explain(where, error, self._log_file)) from error

    def _launch(self, arguments: Sequence[str]) -> None:
        port = traci.getFreeSocketPort()
        # a window waits for its start button otherwise
        window = ["--start", "true", "--quit-on-end", "true"] if self._program == "sumo-gui" else []
        console = self._log_file.with_suffix(".console")
        with console.open("wb") as out:
            self._process = subprocess.Popen(
                [str(install.binary(self._program)), *arguments, *window, "--remote-port", str(port)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=install.environment(),
            )  # fmt: skip
        try:
            self._sumo = _connect(port, "127.0.0.1", self._process)
        except FAILURES as error:
            said = console.read_text(errors="replace").strip()
            raise OSError(said or str(error)) from error

    def advance(self, until: float) -> Moves:
        try:
            self._sumo.simulationStep(until)
            running = self.statistic("stats.vehicles.running")
        except FAILURES as error:
            raise RunError(explain(f"SUMO stopped before its time {until:g} s", error, self._log_file)) from error
        changes = self._sumo.simulation.getSubscriptionResults()
        departed, arrived, starting, landed = (changes[variable] for variable in CHANGES)
        return Moves(departed, arrived, landed, bool(landed or starting), running)

    def watch(self, vehicle: str) -> None:
        self._sumo.vehicle.subscribe(vehicle, ASKED)

    def unwatch(self, vehicle: str) -> None:
        self._sumo.vehicle.unsubscribe(vehicle)

    def read(self, vehicles: Iterable[str], into: Columns) -> None:
        x, y, z, speed, heading = into
        results = self._sumo.vehicle.getAllSubscriptionResults()
        for i, vehicle in enumerate(vehicles):
            values = results[vehicle]
            x[i], y[i], z[i] = values[tc.VAR_POSITION3D]
            speed[i] = values[tc.VAR_SPEED]
            heading[i] = values[tc.VAR_ANGLE]

    def close(self) -> None:
        """Disconnect from SUMO; a process that we started should end then, and is killed if it does not."""
        connection, self._sumo = self._sumo, None
        if connection is not None:
            with contextlib.suppress(*FAILURES):  # SUMO may have gone already
                connection.close(False)
        process, self._process = self._process, None
        if process is not None:
            try:
                process.wait(STOP)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _connect(port: int, host: str, process: subprocess.Popen[bytes] | None = None) -> Any:  # noqa: ANN401 - untyped
    with contextlib.redirect_stdout(io.StringIO()):  # it announces every attempt
        return traci.connect(port, int(PATIENCE / RETRY), host, process, RETRY)
