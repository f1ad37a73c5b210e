"""The radio on the bus: positions and traffic in, links and cells out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from adapters.radio.check import problems
from adapters.radio.config import RadioConfig
from adapters.radio.scenery import Devices, Stations, exponent, sigma
from adapters.radio.state import State, Traffic
from adapters.radio.summary import Totals
from cosim.contract.adapter import Context, Inputs, Summary
from cosim.contract.errors import refuse
from cosim.contract.faults import Faults
from cosim.contract.frame import Array, Frame
from cosim.radio import cells, nr, power, sharing

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


class RadioAdapter:
    """Holds the state of every device-cell pair and turns it into links, once per step."""

    def __init__(self, config: RadioConfig) -> None:
        self._config = config

    def start(self, context: Context) -> None:
        """Read cells and devices from the scene. Raises `ScenarioError` for what `check` finds."""
        refuse(problems(self._config, context))
        self._stations = Stations(context, self._config)
        self._devices = Devices(context)
        gain = self._devices.gain[self._devices.is_device]
        self._reach = self._stations.reach(self._config, float(gain.max(initial=0.0)))
        self._cell_of = np.full(context.scene.capacity, -1, np.int32)
        self._cell_of[self._stations.slots] = np.arange(len(self._stations))
        self._faults = Faults(context.scene.capacity)
        seed = np.random.SeedSequence(context.seed).generate_state(1, np.uint64)[0]
        self._state = State(context.scene.capacity, len(self._stations), seed, sights=self._config.model == "umi")
        self._traffic = Traffic(context.scene.capacity, len(self._stations))
        self._totals = Totals(self._stations.ids)

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        """The links of all present devices and the load of all cells at `time`."""
        self._faults.take(inputs.events)
        rows, cells_moved = self._locate(inputs)
        state = self._state
        new = state.enter(rows, self._devices.position[rows], cells_moved)
        self._traffic.read(inputs.all("traffic"), rows, new, state.serving[rows], state.alone[rows])
        self._receive(rows)
        changes = self._associate(rows, time)
        link = self._links(rows)
        frames = [Frame("link", time, rows, link), self._load(rows, time)]
        self._totals.add(link, changes, frames[1].columns)
        return frames

    def finish(self) -> Summary:
        """Handovers, coverage and mean link quality over all device steps, and the load per cell."""
        return {"model": self._config.model, "range": self._reach, **self._totals.summary()}

    def close(self) -> None:
        """There is nothing to release."""

    def _locate(self, inputs: Inputs) -> tuple[Ints, bool]:
        """The slots (n,) of the present devices in ascending order, and whether a cell moved."""
        present = self._devices.fixed.copy()
        moved = False
        for frame in inputs.all("mobility"):
            slot = frame.slot
            for axis, name in enumerate(("x", "y", "z")):
                self._devices.position[slot, axis] = frame[name]
            present[slot] = True
            if frame.table is not None:
                first, generation = frame.table.first, frame.table.generation
                self._state.generation[first : first + len(generation)] = generation
            mine = self._cell_of[slot]
            if (mine >= 0).any():
                position = self._devices.position[slot[mine >= 0]]
                moved |= not np.array_equal(self._stations.base[mine[mine >= 0]], position)
                self._stations.base[mine[mine >= 0]] = position
        present &= self._devices.is_device
        return np.flatnonzero(present).astype(np.int32), moved

    def _receive(self, rows: Ints) -> None:
        """Bring the received power of all pairs up to date."""
        state, stations, config = self._state, self._stations, self._config
        antenna = self._devices.position[rows]
        antenna[:, 2] += self._devices.height[rows]
        cells.receive(
            rows, antenna, self._devices.gain[rows], state.moved, state.key[rows], state.draw[rows],
            stations.antennas, stations.emitted, stations.carrier_hz,
            cells.UMI if config.model == "umi" else cells.CLOSE_IN, exponent(config), sigma(config),
            config.decorrelation, self._reach, state.shadow, state.sight, state.power,
        )  # fmt: skip

    def _associate(self, rows: Ints, time: float) -> int:
        """Choose the serving cells; the number of handovers that this took."""
        state = self._state
        before = int(state.handovers[rows].sum())
        usable = np.where(self._faults.failed[self._stations.slots], np.inf, self._stations.least)
        failed = self._faults.failed[rows]
        state.serving[rows[failed]] = -1
        margin = 10.0 ** (self._config.hysteresis / 10.0)
        cells.associate(
            rows[~failed], state.power, usable, time, margin, self._config.time_to_trigger,
            state.serving, state.previous, state.target, state.since, state.handovers, state.strongest,
        )  # fmt: skip
        return int(state.handovers[rows].sum()) - before

    def _ratios(self, rows: Ints, cell: Ints) -> tuple[Floats, Floats, Floats]:
        """Signal (mW), downlink and uplink SINR (dB) of each device (n,) with `cell` (n,), which is -1 for none."""
        state, stations, config = self._state, self._stations, self._config
        signal = np.where(cell >= 0, state.power[rows, cell], 0.0)
        floor = power.milliwatts(power.noise(stations.bandwidth[cell], self._devices.noise_figure[rows]))
        sent = self._devices.power[rows]
        heard = signal * power.milliwatts(sent - stations.transmit[cell])
        at_device, at_cell = np.zeros(len(rows)), np.zeros(len(stations))
        if config.interference:
            load = np.minimum(config.background + self._traffic.down, 1.0)
            load[self._faults.failed[stations.slots]] = 0.0
            at_device = cells.downlink_interference(rows, cell, state.power, stations.carrier, load)
            airtime = np.where(state.serving[rows] >= 0, self._traffic.airtime, 0.0)
            at_cell = cells.uplink_interference(
                rows, state.serving[rows], state.power, stations.carrier, sent, stations.transmit, airtime
            )
        return signal, power.sinr(signal, at_device, floor), power.sinr(heard, at_cell[cell], stations.noise[cell])

    def _links(self, rows: Ints) -> Mapping[str, Array]:
        """The columns of the `link` signal; remembers the rates of devices that had the cell for themselves."""
        state, stations, config, traffic = self._state, self._stations, self._config, self._traffic
        shown = np.where(state.serving[rows] >= 0, state.serving[rows], state.strongest[rows])
        signal, down_sinr, up_sinr = self._ratios(rows, shown)
        lost = (state.serving[rows] >= 0) & (down_sinr < config.minimum_sinr)
        state.serving[rows[lost]] = -1
        cell = state.serving[rows]
        served = cell >= 0
        down_phy, down_loss = self._rate(down_sinr, cell, config.downlink_share, nr.OVERHEAD_DOWNLINK)
        up_phy, up_loss = self._rate(up_sinr, cell, 1.0 - config.downlink_share, nr.OVERHEAD_UPLINK)
        state.alone[rows] = np.column_stack([up_phy, down_phy])
        count = len(stations)
        up: Floats = up_phy * sharing.shares(cell, traffic.uploads, count)
        down: Floats = down_phy * sharing.shares(cell, traffic.downloads, count)
        traffic.grant(cell, up, down)
        queue = np.maximum(self._queue(traffic.up, cell, up_phy), self._queue(traffic.down, cell, down_phy))
        antenna = self._devices.position[rows]
        antenna[:, 2] += self._devices.height[rows]
        away = antenna - stations.antennas[cell]
        distance = np.sqrt(np.einsum("ij,ij->i", away, away))
        delay = config.access_delay + queue + sharing.propagation_delay(distance)
        delay[~served] = 0.0
        loss = np.where(served, np.maximum(down_loss, up_loss), 1.0)
        slot = np.where(served, stations.slots[cell], -1).astype(np.int32)
        self._faults.apply(rows, slot, (up, down), delay, loss)
        return {
            "cell": slot,
            "rsrp": power.rsrp(power.decibels(signal), stations.blocks[shown]),
            "snr": down_sinr,
            "uplink_rate": up,
            "downlink_rate": down,
            "delay": delay,
            "loss": loss,
            "handovers": state.handovers[rows],
        }

    def _rate(self, sinr: Floats, cell: Ints, share: float, overhead: float) -> tuple[Floats, Floats]:
        """Rate in bit/s (n,) with the cell for oneself, and the loss after retransmissions; rate 0 without a cell."""
        config, stations = self._config, self._stations
        mcs = nr.mcs(nr.cqi(sinr, config.implementation))
        errors = nr.bler(sinr, mcs, config.implementation, config.bler_slope)
        gross = nr.rate(mcs, stations.blocks[cell], share, overhead, config.layers, stations.spacing)
        net = gross * (1.0 - errors) * (1.0 - config.background)
        return np.where(cell >= 0, net, 0.0), nr.residual_loss(errors)

    def _queue(self, utilisation: Floats, cell: Ints, phy: Floats) -> Floats:
        """Queueing delay in s (n,) in one direction at the `utilisation` (m,) of the cells."""
        load = utilisation[cell] * (1.0 - self._config.background) + self._config.background
        service = np.divide(self._config.packet * 8.0, phy, out=np.full(len(phy), np.inf), where=phy > 0)
        service = np.minimum(service, self._config.queue_limit)
        return sharing.queueing_delay(load, service, self._config.queue_limit)

    def _load(self, rows: Ints, time: float) -> Frame:
        """The frame of the `cell` signal."""
        cell = self._state.serving[rows]
        config, traffic, count = self._config, self._traffic, len(self._stations)
        active = (traffic.uploads > 0) | (traffic.downloads > 0)
        used = config.downlink_share * traffic.down + (1.0 - config.downlink_share) * traffic.up
        columns: dict[str, Array] = {
            "attached": sharing.per_cell(cell, np.ones(len(rows)), count).astype(np.int32),
            "active": sharing.per_cell(cell, active, count).astype(np.int32),
            "utilisation": np.minimum(config.background + (1.0 - config.background) * used, 1.0),
            "rate": traffic.granted,
        }
        return Frame("cell", time, self._stations.slots, columns)
