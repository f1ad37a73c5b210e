"""Wi-Fi on the bus: positions and traffic in, straight links and those of stations out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.wifi.check import problems
from cosim.adapters.wifi.config import WifiConfig
from cosim.adapters.wifi.jammers import WifiJammers
from cosim.adapters.wifi.scenery import Interfaces
from cosim.adapters.wifi.stations import WifiStations
from cosim.contract.adapter import Context, InMemory, Inputs, Summary
from cosim.contract.errors import refuse
from cosim.contract.faults import Faults
from cosim.contract.frame import Array, Frame
from cosim.physics.radio.wifi_pairs import Finder, Pairs


class WifiAdapter(InMemory[WifiConfig]):
    """Finds the links between all interfaces once per step."""

    def start(self, context: Context) -> None:
        """Read the interfaces from the scene. Raises `ScenarioError` for what `check` finds."""
        refuse(problems(self._config, context))
        self._interfaces = Interfaces(context.scene, self._config)
        self._stations = WifiStations(self._interfaces, self._config.hysteresis)
        self._jammers = WifiJammers(context, self._config, self._interfaces)
        self._faults = Faults(context.scene.capacity)
        self._finder = Finder()
        self._generation = np.zeros(context.scene.capacity, np.int64)
        self._steps = self._links = self._station_steps = self._served = 0
        self._rate = 0.0  # bit/s, sum over links and steps

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        """All links at `time`."""
        self._faults.take(inputs.events)
        self._jammers.take(inputs.events)
        self._jammers.drain(inputs.all("battery"))
        there = self._locate(inputs) & ~self._faults.failed[self._interfaces.slots]
        place = self._interfaces.place.copy()
        place[:, 2] += self._interfaces.height
        antennas, jammers, traffic = self._interfaces.antennas, self._jammers, inputs.all("traffic")
        if len(jammers):
            jammers.move(time, place, self._faults.failed, self._sending(traffic))
            antennas = jammers.disturb(antennas)
        pairs = self._degraded(jammers.left(self._finder.find(place, there, antennas)))
        link, cell = self._stations.frames(time, pairs, there, self._faults, traffic, jammers.floor)
        self._steps += 1
        self._links += len(pairs.rate)
        self._rate += float(pairs.rate.sum())
        self._station_steps += len(link)
        self._served += int((link["cell"] >= 0).sum())
        frames = [self._peers(time, pairs), link, cell]
        if self._config.log:
            frames += [jammers.truth(time, link, place), Frame("jammer", time, jammers.slots, jammers.columns())]
        return frames

    def finish(self) -> Summary:
        """Links, coverage and handovers over all steps."""
        return {
            "interfaces": len(self._interfaces),
            "links": self._links / max(self._steps, 1),
            "mean_rate": self._rate / self._links if self._links else None,
            "station_steps": self._station_steps,
            "coverage": self._served / self._station_steps if self._station_steps else None,
            "handovers": int(self._stations.handovers.sum()),
            **({"jammers": self._jammers.summary()} if len(self._jammers) else {}),
        }

    def _sending(self, traffic: Sequence[Frame]) -> NDArray[np.bool_]:
        """The interfaces (n,) with a transfer under way, for jammers that wait for one."""
        sending = np.zeros(len(self._interfaces), bool)
        for frame in traffic:
            number = self._interfaces.number[frame.slot]
            sending[number[(number >= 0) & ((frame["uploads"] > 0) | (frame["downloads"] > 0))]] = True
        return sending

    def _locate(self, inputs: Inputs) -> NDArray[np.bool_]:
        """Take in all positions; return which interfaces (n,) are present."""
        there = self._interfaces.fixed.copy()
        for frame in inputs.all("mobility"):
            self._jammers.follow(frame)
            number = self._interfaces.number[frame.slot]
            known = number >= 0
            for axis, name in enumerate("xyz"):
                self._interfaces.place[number[known], axis] = frame[name][known]
            there[number[known]] = True
            if frame.table is not None:
                first, generation = frame.table.first, frame.table.generation
                slots = slice(first, first + len(generation))
                other = first + np.flatnonzero(self._generation[slots] != generation)
                self._generation[slots] = generation
                changed = self._interfaces.number[other]
                self._stations.forget(changed[changed >= 0])
        return there

    def _degraded(self, pairs: Pairs) -> Pairs:
        """The links after the scenario's events; those of rate 0 are links still, that carry nothing."""
        slots = self._interfaces.slots
        if not self._faults.degrades:
            return pairs
        delay, loss, rate = pairs.delay.copy(), pairs.loss.copy(), pairs.rate.copy()
        self._faults.apply(slots[pairs.sender], slots[pairs.receiver], (rate,), delay, loss)
        return replace(pairs, rate=rate, delay=delay, loss=loss)

    def _peers(self, time: float, pairs: Pairs) -> Frame:
        slots = self._interfaces.slots
        columns: dict[str, Array] = {
            "peer": slots[pairs.receiver],
            "rate": pairs.rate,
            "delay": pairs.delay,
            "jitter": pairs.jitter,
            "loss": pairs.loss,
            "rssi": pairs.rssi,
        }
        return Frame("peer_link", time, slots[pairs.sender], columns)
