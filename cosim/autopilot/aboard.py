"""A real ArduPilot inside a virtual drone: a program that the user names, on our physics, in the node's own network.

The program is started with the first welcome of a run and ended with the run. Physics and settings reach it over the
loopback of the node (`json_fdm`, `side`), ground stations over its serial0, TCP 5760, at the node's addresses. Until it
sends its first motor outputs the vehicle stands still. One that ends or falls silent ends this program, which its
launcher starts again; then the vehicle begins at home.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from time import monotonic, sleep
from typing import Any

from cosim.autopilot.ardupilot import ArduPilot, words
from cosim.autopilot.geodesy import Ground
from cosim.autopilot.member import SLICE, AgentOptions, MemberFlight
from cosim.autopilot.remote import SILENCE, MemberStep, News, take
from cosim.autopilot.table import PHYSICS_PORT, TCP_STEP, Address
from cosim.contract.errors import RunError, SetupError
from cosim.physics.vehicles.layout import COPTER

BOOT = 30.0  # s of wall time for its first motor outputs
ENDING = 3.0  # s to end after SIGTERM
ARMING = 60.0  # s to be armed, and then to take off, unless the run gives another time
_TCP = 5760  # of serial0 of instance 0
_AGAIN = 0.005  # s of wall time between two looks at a program that is expected back
_RATE = {"SIM_RATE_HZ": 800}  # below 1.8 times SCHED_LOOP_RATE it never arms
# An X, and the pulses and the thrust that `json_fdm` makes of them
_COPTER = {"FRAME_TYPE": 1, "MOT_PWM_MIN": 1100, "MOT_PWM_MAX": 1900, "MOT_THST_EXPO": 0, **_RATE}


def instance(tcp: int) -> int:
    """ArduPilot's instance whose serial0 is at the port `tcp`; 0: the first. Raises `SetupError` for other ports."""
    number, rest = divmod(tcp - _TCP, TCP_STEP) if tcp else (0, 0)
    if rest or not 0 <= number <= 999:
        raise SetupError(f"COSIM_MAVLINK is {tcp}; ArduPilot's instance N listens at TCP {_TCP} + {TCP_STEP} N")
    return number


def arguments(given: Sequence[str], ours: Path) -> list[str]:
    """Those of the user, with our parameters in the file `ours` after theirs, and a serial0 that waits for no one.

    ArduPilot reads the last `--defaults` alone, whose files are separated by commas.
    """
    parts = [part for word in given for part in (word.split("=", 1) if word.startswith("--defaults=") else [word])]
    files = [str(ours)]
    while "--defaults" in parts[:-1]:
        at = parts.index("--defaults")
        files.insert(-1, parts.pop(at + 1))
        parts.pop(at)
    serial0 = [] if any(word.startswith("--serial0") for word in parts) else ["--serial0", "tcp:0"]
    return [*serial0, "--defaults", ",".join(files), *parts]


class AboardFlight(MemberFlight):
    """The vehicle of one welcome under its ArduPilot.

    Raises `SetupError` for a program that cannot be started, and `RunError` when it ends or is silent.
    """

    def __init__(self, welcome: Mapping[str, Any], orders: AgentOptions, broadcast: list[str]) -> None:
        super().__init__(welcome, broadcast)
        self._name = orders.program[0]
        self._news: list[News] = []
        self._seen = self._there = False  # whether it has flown, and does
        self._settled = False
        try:
            number, s = instance(orders.tcp), self.fleet.state[0]
            home = (float(s["home_x"]), float(s["home_y"]), float(s["home_z"]))
            self._home = math.dist(home, (s["x"], s["y"], s["z"])) < float(self.fleet.frames["radius"][0])
            at, heading = Address("127.0.0.1", PHYSICS_PORT + TCP_STEP * number), float(s["heading"])
            self._pilot = ArduPilot(
                orders.node, 0, self.fleet, self.fleet.frames[:1].copy(), home, at, heading=heading,
                level=float(s["charge"] / self.fleet.frames["capacity"][0]), patience=SILENCE, mavlink=True,
                warn=self._warn,
            )  # fmt: skip
            self._stack.callback(self._pilot.close)
            where = Ground(self.origin)
            self._pilot.obey(where, float(welcome["about"].get("arming", ARMING)))
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="ardupilot-")))
            ours = _COPTER if self.fleet.frames["kind"][0] == COPTER else _RATE
            (folder / "ours.parm").write_text("".join(f"{name} {value}\n" for name, value in ours.items()))
            command = [
                *words(self._name, at.host, number, where.place(*home), heading), "--sysid", str(self.system),
                *arguments(orders.program[1:], folder / "ours.parm"),
            ]  # fmt: skip
            try:
                self._program = Popen(command, cwd=folder, stdin=DEVNULL)
            except OSError as error:
                reason = f"{error.strerror}; is it built for this machine?"
                raise SetupError(f"cannot start {self._name}: {reason}") from None
            self._stack.callback(self._end)
            self._started = monotonic()
        except BaseException:
            self.close()
            raise

    def fly(self, grant: Mapping[str, Any]) -> MemberStep:
        """Use the time that was granted."""
        until, said = self._begin(grant), list[str]()
        if grant["row"]:
            self._pilot.place()
        while self.fleet.now < until - 1e-9:
            to = min(self.fleet.now + SLICE, until)
            self._there = self._fly(to)
            self._expect()
            if self._seen and not self._there:
                raise RunError(f"{self._name} has sent no motor outputs for {SILENCE:g} s")
            self._seen = self._there
            self.fleet.now = to
            self.beacon.listen()
            self.beacon.announce(to, self.fleet.state[0])
        if self._pilot.confirmed and not self._settled:
            self._settled = True
            said.append(f"its ArduPilot has confirmed {self._pilot.confirmed} parameters")
        orders = self._pilot.orders()
        assert orders is not None, "it obeys"
        news, self._news = [*self._news, *orders.news()], []
        return self._step(said, orders.unready or not self._seen, news)

    def resume(self, welcome: Mapping[str, Any]) -> None:
        """Go on from where the run has flown the vehicle meanwhile."""
        take(self.fleet, 0, welcome["row"], welcome["items"])
        self._items, self.fleet.now, self._there = welcome["items"], float(welcome["now"]), False

    def talk(self, wait: float) -> None:
        """Notice whether it runs; tools talk to it."""
        self._expect()
        sleep(wait)

    def _fly(self, to: float) -> bool:
        """Whether it has flown until `to` s."""
        if not self._seen and self._home:
            return self._pilot.seek(self.fleet.now) and self._pilot.fly(to, True)
        end = monotonic() + (SILENCE if self._seen else 0.0)
        while not self._pilot.fly(to, self._there):
            if self._there or monotonic() >= end:
                return False
            sleep(_AGAIN)
        return True

    def _expect(self) -> None:
        """Raise `RunError` when it has ended, or sends nothing."""
        if (code := self._program.poll()) is not None:
            raise RunError(f"{self._name} has ended with exit code {code}; what it has written stands above")
        if not self._seen and monotonic() - self._started > BOOT:
            raise RunError(
                f"{self._name} has sent no motor outputs for {BOOT:g} s; is it an ArduPilot for software in the loop?"
            )

    def _warn(self, text: str) -> None:
        self._news.append((self.fleet.now, "", text))

    def _end(self) -> None:
        self._program.terminate()
        with suppress(TimeoutExpired):
            self._program.wait(ENDING)
        self._program.kill()
        self._program.wait()
