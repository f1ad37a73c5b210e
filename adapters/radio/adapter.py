"""The radio on the bus: positions and traffic in, links and cells out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.radio.channels import Fading
from cosim.adapters.radio.check import problems
from cosim.adapters.radio.config import RadioConfig
from cosim.adapters.radio.connection import Connections
from cosim.adapters.radio.jammers import JammerPower, Jammers
from cosim.adapters.radio.levels import Levels
from cosim.adapters.radio.log import RadioLog, Use
from cosim.adapters.radio.modem import LinkCapacity, Modem
from cosim.adapters.radio.propagation import receive, sights
from cosim.adapters.radio.reception import LinkReception, Reception, Way
from cosim.adapters.radio.response import responses, restore
from cosim.adapters.radio.scenery import Devices, Stations
from cosim.adapters.radio.state import RadioRows, Traffic
from cosim.adapters.radio.summary import Totals
from cosim.contract.adapter import Context, InMemory, Inputs, Summary
from cosim.contract.errors import refuse
from cosim.contract.faults import Faults
from cosim.contract.frame import Array, Frame
from cosim.contract.records import Floats
from cosim.physics.radio import cells, nr, power, sharing
from cosim.physics.radio.cells import Receivers, Transmitters

Ints = NDArray[np.int32]


class RadioAdapter(InMemory[RadioConfig]):
    """Holds the state of every device-cell pair and turns it into links, once per step."""

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
        self._state = RadioRows(context.scene.capacity, len(self._stations), seed, sights=sights(self._config))
        self._traffic = Traffic(context.scene.capacity, len(self._stations))
        fading = Fading(self._config, self._stations, context.period)
        self._jammers = Jammers(context, self._config, self._stations, fading.blocks.tolist())
        self._reception = Reception(self._config, self._stations, self._devices, self._jammers, fading)
        capacity, period = context.scene.capacity, context.period
        self._down = Modem(self._config, self._stations, capacity, period, up=False)
        self._up = Modem(self._config, self._stations, capacity, period, up=True)
        self._connections = Connections(capacity, len(self._stations), self._config.link_failure)
        self._levels = Levels(self._config, self._stations, self._devices)
        self._totals = Totals(self._stations.ids)
        self._responses = responses(self._config, self._stations, context)
        self._log = RadioLog(self._config, self._stations, self._jammers, self._connections)

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        """The links of all present devices and the load of all cells at `time`."""
        self._faults.take(inputs.events)
        self._jammers.take(inputs.events)
        self._jammers.drain(inputs.all("battery"))
        rows, cells_moved = self._locate(inputs)
        state = self._state
        new = state.enter(rows, self._devices.position[rows], cells_moved)
        for part in (self._connections, self._down, self._up):
            part.forget(rows[new])
        self._responses.take(inputs.all("alarm"), rows, state.serving[rows], new, time)
        self._traffic.read(inputs.all("traffic"), rows, new, state.serving[rows], state.alone[rows])
        self._receive(rows)
        failed = self._faults.failed[self._stations.slots]
        self._responses.decide(rows, self._devices.position[rows], state, self._traffic, failed, time)
        changes = self._associate(rows, time)
        link, logs = self._links(rows, time)
        frames = [Frame("link", time, rows, link), self._load(rows, time), *logs]
        if self._config.neighbours:
            frames.append(self._levels.nearest(time, rows, self._state.power))
        if self._config.response is not None and self._config.response.sends:
            frames.append(self._responses.destinations(time))
        self._totals.add(link, changes, frames[1].columns)
        return frames

    def finish(self) -> Summary:
        """Handovers, coverage and mean link quality over all device steps, and the load per cell."""
        found = {"model": self._config.model, "range": self._reach, **self._totals.summary()}
        return {**found, **self._connections_and_jammers()}

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
        at = Receivers(rows, antenna, self._devices.gain[rows], state.moved, state.key[rows], state.draw[rows])
        of = Transmitters(stations.antennas, stations.emitted, stations.carrier_hz)
        receive(config, at, of, self._reach, state, stations.pattern)

    def _associate(self, rows: Ints, time: float) -> int:
        """Choose the serving cells; the number of handovers that this took."""
        state = self._state
        before = int(state.handovers[rows].sum())
        silent = self._faults.failed[self._stations.slots] | self._responses.asleep(time)
        usable = np.where(silent, np.inf, self._stations.least)
        failed = self._faults.failed[rows] | self._connections.barred(rows, time) | self._responses.leaving(rows, time)
        state.serving[rows[failed]] = -1
        hidden = self._responses.hidden(rows, state, time)
        margin = 10.0 ** (self._config.hysteresis / 10.0)
        served = cells.Serving(
            state.serving, state.previous, state.target, state.since, state.handovers, state.strongest
        )
        cells.associate(rows[~failed], state.power, usable, time, margin, self._config.time_to_trigger, served)
        restore(hidden, state)
        return int(state.handovers[rows].sum()) - before

    def _connections_and_jammers(self) -> dict[str, object]:
        """Entries of the summary on link failures and jammers; none where neither is modelled."""
        found: dict[str, object] = {}
        if self._config.log or self._config.link_failure is not None:
            found["radio_link_failures"] = int(self._connections.failures.sum())
            found["accesses"] = int(self._connections.attached.sum())
        if self._config.response is not None:
            found["responses"] = self._responses.taken
        if len(self._jammers):
            found["jammers"] = self._jammers.summary()
        return found

    def _heard(self, rows: Ints, shown: Ints, time: float) -> JammerPower | None:
        """What is heard of the jammers at `time`; None without any. Devices at `shown` (n,) that want to send count."""
        if not len(self._jammers):
            return None
        traffic, state = self._traffic, self._state
        active = ((traffic.uploads > 0) | (traffic.downloads > 0)) & (shown >= 0)
        busy = np.zeros(len(self._stations), bool)
        busy[shown[active]] = True
        self._jammers.move(time, self._devices.position, self._faults.failed, busy)
        antenna = self._devices.position[rows]
        antenna[:, 2] += self._devices.height[rows]
        return self._jammers.heard(rows, antenna, self._devices.gain[rows], state.moved, state.generation)

    def _links(self, rows: Ints, time: float) -> tuple[Mapping[str, Array], Sequence[Frame]]:
        """The columns of `link`, and the logs; remembers the rates of devices that had the cell for themselves."""
        state, stations, config, traffic = self._state, self._stations, self._config, self._traffic
        shown = np.where(state.serving[rows] >= 0, state.serving[rows], state.strongest[rows])
        failed = self._faults.failed[stations.slots] | self._responses.asleep(time)
        received = self._reception.receive(rows, shown, state, traffic, failed, self._heard(rows, shown, time))
        down_sinr, up_sinr = received.down.sinr, received.up.sinr
        watched = down_sinr
        if len(self._jammers):
            watched = received.down.clean - np.maximum(received.down.control, received.ssb_loss)
        lost = self._connections.lost(rows, state.serving[rows], watched, config.minimum_sinr, time)
        state.serving[rows[lost]] = -1
        cell = state.serving[rows]
        served = cell >= 0
        self._connections.settle(rows, cell)
        carried_down, carried_up = self._down.carry(rows, cell, down_sinr), self._up.carry(rows, cell, up_sinr)
        carried_down, carried_up = self._without_control(received, carried_down, carried_up)
        down_phy, up_phy = carried_down.rate, carried_up.rate
        state.alone[rows] = np.column_stack([up_phy, down_phy])
        count = len(stations)
        up_share, down_share = (sharing.shares(cell, n, count) for n in (traffic.uploads, traffic.downloads))
        up: Floats = up_phy * up_share
        down: Floats = down_phy * down_share
        if config.scheduler == "proportional-fair":
            up, up_share = self._fair(received.up, received.gain, cell, traffic.uploads, up, up_share)
            down, down_share = self._fair(received.down, received.gain, cell, traffic.downloads, down, down_share)
        traffic.grant(cell, up, down)
        queues = self._queue(traffic.up, cell, up_phy), self._queue(traffic.down, cell, down_phy)
        queue = np.maximum(*queues)
        antenna = self._devices.position[rows]
        antenna[:, 2] += self._devices.height[rows]
        away = antenna - stations.antennas[shown]
        distance = np.sqrt(np.einsum("ij,ij->i", away, away))
        delay = config.access_delay + queue + sharing.propagation_delay(distance)
        delay[~served] = 0.0
        loss = np.where(served, np.maximum(carried_down.loss, carried_up.loss), 1.0)
        slot = np.where(served, stations.slots[cell], -1).astype(np.int32)
        self._faults.apply(rows, slot, (up, down), delay, loss)
        link: Mapping[str, Array] = {
            "cell": slot,
            "rsrp": power.rsrp(power.decibels(received.down.signal), stations.blocks[shown]),
            "snr": down_sinr,
            "uplink_rate": up,
            "downlink_rate": down,
            "delay": delay,
            "loss": loss,
            "handovers": state.handovers[rows],
            **self._levels.shown(rows, shown, away, distance, state.power),
        }
        if not config.log:
            return link, ()
        share = config.downlink_share
        return link, self._log.frames(
            time, rows, key=state.key[rows], shown=shown, cell=cell, received=received, loss=loss,
            down=Use(carried_down, down, down_share, traffic.downloads > 0, queues[1], share),
            up=Use(carried_up, up, up_share, traffic.uploads > 0, queues[0], 1.0 - share),
            busy=config.background + (1.0 - config.background) * np.maximum(traffic.down, traffic.up),
        )  # fmt: skip

    def _fair(
        self, way: Way, gain: Floats, cell: Ints, transfers: NDArray[np.int64], rate: Floats, share: Floats
    ) -> tuple[Floats, Floats]:
        """Rates (n,) and shares (n,) of the channel when a cell gives its blocks by proportional fairness.

        `rate` and `share` are those of equal airtime. What a block is worth to a device is Shannon's bound of its
        SINR there as far as a receiver reaches it; what jammers send counts as spread over the channel.
        """
        some = np.flatnonzero((cell >= 0) & (transfers > 0))
        rate, share = rate.copy(), share.copy()
        sinr = gain[some] * (way.signal / (way.disturbed + way.jam))[some, None]
        worth = np.minimum(self._config.implementation * np.log2(1.0 + sinr), nr.CQI_EFFICIENCY[-1])
        parts, more = sharing.proportional_fair(cell[some], worth, len(self._stations))
        rate[some] *= more
        share[some] = parts.sum(axis=1) / np.maximum((gain[some] > 0.0).sum(axis=1), 1)
        return rate, share

    def _without_control(
        self, received: LinkReception, down: LinkCapacity, up: LinkCapacity
    ) -> tuple[LinkCapacity, LinkCapacity]:
        """What is left where jammers aim at control channels: grants and acknowledgements that are not received.

        Both are taken to be as robust as the lowest MCS. Data that a jammer hits as well has it in its SINR.
        """
        if not self._jammers.aims_at_control:
            return down, up
        lowest = np.zeros(len(down.rate), np.int64)
        config = self._config
        ways = (received.down, received.up)

        def received_at(sinr: Floats) -> Floats:
            return 1.0 - nr.bler(sinr, lowest, config.implementation, config.bler_slope)

        # against those without jammers: one that is silent costs nothing
        granted, heard = (
            received_at(way.clean - way.control) / np.maximum(received_at(way.clean), 1e-300) for way in ways
        )

        def left(carried: LinkCapacity, part: Floats) -> LinkCapacity:
            return replace(carried, rate=carried.rate * part, loss=carried.loss + (1.0 - carried.loss) * (1.0 - part))

        return left(down, granted * heard), left(up, granted)

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
