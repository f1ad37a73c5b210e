"""The Wi-Fi that ns-3 simulates: its parameters, and the backend that imposes it in real time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from cosim.adapters.ns3.build import engine
from cosim.contract.errors import Problem, ProtocolError, ScenarioError
from cosim.testbed.emulation.engine import EngineBackend
from cosim.testbed.emulation.protocol import mac_bytes

STANDARDS = ("a", "n", "ac", "ax")
FREQUENCY = {2.4: 2.437e9, 5.0: 5.18e9}  # Hz, of the path loss
WIDTHS = {"a": (20,), "n": (20, 40), "ac": (20, 40, 80, 160), "ax": (20, 40, 80, 160)}  # MHz


@dataclass(frozen=True, slots=True)
class RadioParameters:
    """Parameters of all stations. The path loss is the close-in model: free space over the first metre, then the
    exponent (Sun et al., IEEE TVT 65(5), 2016); `fading` adds Nakagami-m, without which loss goes from none to all
    within some metres. Raises `ScenarioError` with every parameter that cannot be.
    """

    standard: str = "n"  # IEEE 802.11: a, n, ac or ax
    band: float = 5.0  # GHz: 2.4 or 5
    width: int = 20  # MHz
    exponent: float = 2.7  # of the distance; 2 is free space
    reference: float = 0.0  # dB over the first metre; 0: free space (46.7 dB at 5.18 GHz)
    power: float = 20.0  # dBm
    noise: float = 7.0  # dB, noise figure
    fading: float = 0.0  # Nakagami m; 0: none
    rate: str = "ideal"  # rate adaptation: ideal, minstrel, or a constant mode of ns-3 such as HtMcs3
    threshold: float = 2.0  # dB of SNR that a preamble needs
    sensitivity: float = -101.0  # dBm that a preamble needs; ns-3's default -82 is a hard edge at a third of the range
    queue: int = 100  # frames per access category
    lifetime: float = 0.5  # s that a frame may wait for the air
    access: tuple[str, ...] = ()  # MACs of the access points; none: ad hoc
    seed: int = 1  # from 1
    nice: int = -10  # priority of the engine, where permitted

    def __post_init__(self) -> None:
        wrong = [
            Problem(f"{name} = {getattr(self, name)} cannot be", f"ns3.{name}", hint=hint)
            for name, fine, hint in (
                ("standard", self.standard in STANDARDS, f"known: {', '.join(STANDARDS)}"),
                ("band", self.band in (2.4, 5.0) and not (self.band == 2.4 and self.standard in ("a", "ac")),
                 "2.4 or 5 GHz; a and ac are at 5 only"),
                ("width", self.width in WIDTHS.get(self.standard, (self.width,)), "MHz that the standard knows"),
                ("exponent", 1.0 <= self.exponent <= 8.0, "between 1 and 8"),
                ("reference", 0.0 <= self.reference < 200.0, "dB"),
                ("power", -50.0 <= self.power <= 60.0, "dBm"),
                ("noise", 0.0 <= self.noise <= 60.0, "dB"),
                ("fading", self.fading == 0.0 or 0.5 <= self.fading <= 100.0, "m is 0.5 or more; 0: no fading"),
                ("threshold", math.isfinite(self.threshold), "dB"),
                ("sensitivity", math.isfinite(self.sensitivity), "dBm"),
                ("queue", 2 <= self.queue <= 100_000, "frames"),
                ("lifetime", 0.001 <= self.lifetime <= 60.0, "s"),
                ("access", all(map(_is_mac, self.access)), "MACs like 02:00:00:00:00:01"),
                ("seed", 1 <= self.seed < 2**32, "from 1"),
                ("nice", -20 <= self.nice <= 19, "between -20 and 19"),
                ("rate", self.rate.isalnum(), "ideal, minstrel or the name of a mode"),
            )
            if not fine
        ]  # fmt: skip
        if wrong:
            raise ScenarioError(wrong)

    def received(self, distance: float) -> float:
        """dBm that arrive over `distance` m, without fading; below 1 m as at 1 m."""
        first = self.reference or 20 * math.log10(4 * math.pi * FREQUENCY[self.band] / 299_792_458)
        return self.power - first - 10 * self.exponent * math.log10(max(distance, 1.0))

    def command(self, program: Path) -> list[str]:
        """How to start the engine; a name of ours is an option of the engine."""
        words = [f"--{name}={getattr(self, name)}" for name in self.__slots__ if name != "access"]
        return [str(program), *words, *([f"--access={','.join(self.access)}"] if self.access else [])]


def live(radio: RadioParameters, folder: Path | None = None) -> EngineBackend:
    """A `Backend` whose frames travel through ns-3 in real time; link states are the radio's own, not those given.

    `folder` is the ns3 wheel's, where it is not installed. SetupError when the engine cannot be built or started.
    """
    return EngineBackend(radio.command(engine(folder)))


def _is_mac(text: str) -> bool:
    try:
        return len(mac_bytes(text)) == 6
    except ProtocolError:
        return False
