"""LoRa links from positions, and who is silent.

Rates are those of Semtech's AN1200.22: SF x BW / 2^SF x coding rate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cosim.contract.adapter import Context, Inputs, Summary
from cosim.contract.errors import refuse
from cosim.contract.frame import Array, Frame
from lora.airtime import CODING, HEAD, NEEDED, airtime, airtime_of, noise
from lora.check import problems
from lora.config import LoraConfig
from lora.keys import Jam, Lora, Storm


class LoraAdapter:
    """Every device at the gateway that hears it best."""

    def __init__(self, config: LoraConfig) -> None:
        self._config = config

    def start(self, context: Context) -> None:
        refuse(problems(self._config, context))
        radios = [(slot, node, Lora.of(node)) for slot, node in enumerate(context.scene.nodes)]
        known = [(slot, node.position, lora) for slot, node, lora in radios if lora is not None]
        self._gateways = [one for one in known if one[2].role == "gateway"]
        self._devices = [one for one in known if one[2].role == "device"]
        self._place = {slot: np.array(position or (0.0, 0.0, 0.0)) for slot, position, _ in known}
        self._jammed: dict[int, float] = {}  # gateway -> dBm
        self._rain = 0.0  # dB
        self._radio = {slot: lora for slot, _, lora in self._devices}
        self._sent: dict[int, float] = {}  # B so far, by device
        self._silent: dict[int, float] = {}  # device -> until when, s
        self._airtime = 0.0
        self._served = self._steps = 0

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        for event in inputs.events:
            if (storm := Storm.of(event)) is not None:
                self._rain = storm.loss if event.do == "storm" else 0.0
            for slot in (part.first + k for part in event.nodes for k in range(part.count)):
                if event.do == "unjam":
                    self._jammed.pop(slot, None)
                elif (jam := Jam.of(event)) is not None:
                    self._jammed[slot] = jam.level
        for frame in inputs.all("mobility"):
            for row, slot in enumerate(frame.slot.tolist()):
                if slot in self._place:
                    self._place[slot] = np.array([frame[axis][row] for axis in "xyz"])
        self._listen(time, inputs)
        rows = [self._link(slot, lora, time < self._silent.get(slot, 0.0)) for slot, _, lora in self._devices]
        self._steps += len(rows)
        self._served += sum(row[0] >= 0 for row in rows)
        table = np.array(rows, np.float64).reshape(-1, 10)
        names = (
            "cell", "rsrp", "snr", "uplink_rate", "downlink_rate", "delay", "loss", "handovers", "distance", "pathloss",
        )  # fmt: skip
        columns: dict[str, Array] = {
            name: table[:, k].astype(np.int32 if name in ("cell", "handovers") else np.float64)
            for k, name in enumerate(names)
        }
        slots = np.array([slot for slot, _, _ in self._devices], np.int32)
        return [Frame("link", time, slots, columns)]

    def finish(self) -> Summary:
        return {
            "devices": len(self._devices), "coverage": self._served / max(self._steps, 1), "airtime": self._airtime,
        }  # fmt: skip

    def close(self) -> None:
        """Nothing to release."""

    def _listen(self, time: float, inputs: Inputs) -> None:
        """Take what devices have sent since the last step, simulated and real: they are silent for a while after."""
        sent: dict[int, float] = {}
        for frame in inputs.all("traffic"):
            for slot, total in zip(frame.slot.tolist(), frame["sent"].tolist(), strict=True):
                if slot in self._radio:
                    sent[slot] = total - self._sent.get(slot, 0.0)
                    self._sent[slot] = total
        gateways = {slot for slot, _, _ in self._gateways}
        for frame in inputs.all("link_traffic"):
            for slot, peer, size in zip(
                frame.slot.tolist(), frame["peer"].tolist(), frame["bytes"].tolist(), strict=True
            ):
                if slot in self._radio and peer in gateways:
                    sent[slot] = sent.get(slot, 0.0) + size
        for slot, size in sent.items():
            used = airtime_of(size, self._radio[slot].spreading, self._radio[slot].bandwidth)
            self._airtime += used
            if used:
                begun = max(time, self._silent.get(slot, 0.0))
                self._silent[slot] = begun + used / self._config.duty_cycle - used

    def _link(self, device: int, lora: Lora, silent: bool) -> tuple[float, ...]:
        """The columns of `link`: cell, rsrp, snr, ..., distance, path loss: to the gateway that hears best."""
        best = (-1, -np.inf, -np.inf, np.nan, np.nan)
        for gateway, _, _ in self._gateways:
            distance = max(1.0, float(np.linalg.norm(self._place[device] - self._place[gateway])))
            loss = 20 * np.log10(lora.carrier) - 147.55 + 10 * self._config.exponent * np.log10(distance) + self._rain
            received = lora.power - loss
            floor = 10 ** (noise(lora.bandwidth) / 10)
            floor += 10 ** (self._jammed.get(gateway, -np.inf) / 10)
            best = max(
                best, (gateway, received, received - 10 * np.log10(floor), distance, loss), key=lambda one: one[2]
            )
        if silent or best[2] < NEEDED[lora.spreading]:
            return (-1.0, *best[1:3], 0.0, 0.0, 0.0, 1.0, 0.0, *best[3:])
        rate = lora.spreading * lora.bandwidth / 2**lora.spreading * 4 / (4 + CODING)
        delay = airtime(HEAD, lora.spreading, lora.bandwidth)  # of what is not payload
        return (float(best[0]), *best[1:3], rate, rate, delay, 0.0, 0.0, *best[3:])
