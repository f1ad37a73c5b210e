"""Jammers of Wi-Fi: noise at receivers, a busy medium at senders, and the truth about both."""

from __future__ import annotations

import numpy as np

from cosim.adapters.wifi.config import WifiConfig
from cosim.adapters.wifi.scenery import Interfaces
from cosim.contract.adapter import Context
from cosim.contract.frame import Array, Frame
from cosim.contract.records import Flags, Floats
from cosim.physics.radio import jamming, power
from cosim.physics.radio.jammer_set import JammerSet, on_wifi
from cosim.physics.radio.pathloss import close_in
from cosim.physics.radio.wifi_pairs import Antennas, Pairs

_PRIMARY = 20e6  # Hz, the channel width that the threshold of energy detection is stated for


class WifiJammers(JammerSet):
    """The J jammers whose bands meet channels of the n interfaces, in the order of the file."""

    def __init__(self, context: Context, config: WifiConfig, interfaces: Interfaces) -> None:
        super().__init__(context, on_wifi(context.scene))
        self._config, self._interfaces = config, interfaces
        self._share = np.array(
            [
                [
                    jamming.overlap(
                        f - 0.5 * w, f + 0.5 * w, b.carrier - 0.5 * b.bandwidth, b.carrier + 0.5 * b.bandwidth
                    )
                    / b.bandwidth
                    for f, w in zip(interfaces.carrier, interfaces.bandwidth, strict=True)
                ]
                for b in self.blocks
            ]
        ).reshape(len(self), len(interfaces))  # (J, n) of the jammer's power that falls on the interface's channel
        self._limit = config.energy_detection + 10.0 * np.log10(interfaces.bandwidth / _PRIMARY)  # (n,) dBm
        self.jam = np.zeros(len(interfaces))  # (n,) mW of all jammers on the channel, at the last step
        self.floor = interfaces.antennas.floor  # (n,) dBm, noise and jammers

    def move(self, time: float, antenna: Floats, failed: Flags, sending: Flags) -> None:
        """What the interfaces at `antenna` (n, 3) m hear at `time`; `sending` (n,) have a transfer under way."""
        self.emit(time, failed, np.asarray(((self._share > 0.0) & sending).any(axis=1)))
        own = self._interfaces.antennas
        jam = np.zeros(len(self._interfaces))
        for j, place in enumerate(self.antennas):
            if self.now[j] > jamming.OFF:
                distance = np.maximum(np.linalg.norm(antenna - place, axis=1), 1.0)
                lost = close_in(distance, self.blocks[j].carrier, self._config.exponent)
                jam += self._share[j] * power.milliwatts(self.now[j] + self.gain[j] + own.gain - lost)
        self.jam = jam
        self.floor = np.where(jam > 0.0, power.decibels(power.milliwatts(own.floor) + jam), own.floor)

    def disturb(self, antennas: Antennas) -> Antennas:
        """`antennas` with what jammers add to the noise of each."""
        return antennas._replace(floor=self.floor) if self.jam.any() else antennas

    def left(self, pairs: Pairs) -> Pairs:
        """The links on which the sender can send and receives the acknowledgement.

        A sender that senses as much energy as the threshold or more keeps silent. An acknowledgement is sent whatever
        the state of the medium, and must reach the sender over the jammers there.
        """
        if not self.jam.any():
            return pairs
        own, i, j = self._interfaces.antennas, pairs.sender, pairs.receiver
        blocked = power.decibels(self.jam) >= self._limit
        back = pairs.rssi + own.emitted[j] - own.emitted[i] + own.gain[i] - own.gain[j]  # dBm, at the sender
        reported = (back - self.floor[i] >= own.least[own.curve[j]]) | (self.jam[i] <= 0.0)
        kept = ~blocked[i] & reported
        return Pairs(*(getattr(pairs, name)[kept] for name in Pairs.__dataclass_fields__))

    def truth(self, time: float, link: Frame, antenna: Floats) -> Frame:
        """The frame of `jamming`: what is lost between the stations in `link` and their access points.

        Without one it is the access point that would be strongest.
        """
        which, own = self._interfaces, self._interfaces.antennas
        me, points = which.number[link.slot], np.flatnonzero(which.access)
        columns: dict[str, Array] = {}
        point, lost = np.full(len(me), -1), np.zeros(len(me))
        if len(points):
            away = np.linalg.norm(antenna[me][:, None, :] - antenna[points][None, :, :], axis=2)
            loss = own.reference[points] + 10.0 * own.exponent * np.log10(np.maximum(away, 1.0))
            level = own.emitted[points] + own.gain[me][:, None] - loss  # (s, a) dBm
            level[own.network[me][:, None] != own.network[points]] = -np.inf
            best = np.argmax(level, axis=1)
            served = link["cell"] >= 0
            best[served] = np.searchsorted(points, which.number[link["cell"][served]])
            row = np.arange(len(me))
            lost = loss[row, best]
            point = np.where(level[row, best] > -np.inf, points[best], -1)
        there = point >= 0
        for name, sender, receiver in (("down", point, me), ("up", me, point)):
            noise = power.milliwatts(own.floor[receiver])
            jam = np.where(there, self.jam[receiver], 0.0)
            signal = power.milliwatts(np.where(there, own.emitted[sender] + own.gain[receiver] - lost, 0.0))
            columns[f"jn_{name}"] = power.decibels(jam / noise)
            columns[f"js_{name}"] = power.decibels(jam / signal)
            columns[f"loss_{name}"] = power.decibels(1.0 + jam / noise)
        columns["loss"] = np.maximum(columns["loss_down"], columns["loss_up"])
        return Frame("jamming", time, link.slot, columns)
