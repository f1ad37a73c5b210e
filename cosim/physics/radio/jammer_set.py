"""The jammers of a scene: which medium each disturbs, where it is, how strong it is now, what it has radiated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from cosim.contract.adapter import Context
from cosim.contract.entities import Event, Scene
from cosim.contract.errors import Problem
from cosim.contract.frame import Array, Frame
from cosim.contract.jammer import Jammer, JammerOn
from cosim.contract.records import Flags, Floats
from cosim.physics.radio import jamming, power


class JammerSet:
    """The J jammers of the scene that `belong` selects, in the order of the file."""

    def __init__(self, context: Context, belong: Callable[[Jammer], bool]) -> None:
        found = [(slot, node, Jammer.of(node)) for slot, node in enumerate(context.scene.nodes)]
        known = [(slot, node, block) for slot, node, block in found if block is not None and belong(block)]
        self.blocks = [block for _, _, block in known]
        self.ids = [node.id for _, node, _ in known]
        self.slots = np.array([slot for slot, _, _ in known], np.int32)  # (J,)
        self.place = np.array([node.position or (0.0, 0.0, 0.0) for _, node, _ in known]).reshape(-1, 3)  # m
        self.on = np.array([block.active for block in self.blocks], bool)
        self.spent = np.zeros(len(self), bool)  # its battery is empty
        self.full = np.array([block.power for block in self.blocks])  # dBm
        self.now = np.full(len(self), jamming.OFF)  # dBm, of the last step
        self.sent = np.zeros(len(self))  # J radiated so far
        self.steps_on = np.zeros(len(self), np.int64)
        self._period, self._end = context.period, context.duration  # s
        self.gain = np.array([block.gain for block in self.blocks])  # dB
        self.height = np.array([block.height for block in self.blocks])  # m
        self._waves = [
            jamming.Waveform(
                jamming.Timing(b.pattern, b.on, b.off, b.period, b.depth, b.levels, b.hold), context.rng(1, slot)
            )
            for slot, b in zip(self.slots.tolist(), self.blocks, strict=True)
        ]

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def antennas(self) -> Floats:
        """Where they send from: (J, 3) m."""
        return np.asarray(self.place + np.column_stack([np.zeros((len(self), 2)), self.height]))

    def take(self, events: Sequence[Event]) -> None:
        """Switch jammers as events request."""
        for event in events:
            if event.do in ("jammer-on", "jammer-off"):
                hit = np.zeros(len(self), bool)
                for where in event.nodes:
                    hit |= (self.slots >= where.first) & (self.slots < where.first + where.count)
                self.on[hit] = event.do == "jammer-on"
                order = JammerOn.of(event)
                if event.do == "jammer-on" and order is not None and order.power is not None:
                    self.full[hit] = order.power

    def drain(self, frames: Sequence[Frame]) -> None:
        """Take in from frames of `battery` whose is empty."""
        for frame in frames:
            self.spent |= np.isin(self.slots, frame.slot[frame["empty"]])

    def follow(self, frame: Frame) -> None:
        """Take in where a frame of `mobility` has them."""
        at = np.full(int(self.slots.max(initial=-1)) + 1, -1)
        at[self.slots] = np.arange(len(self))
        row = np.flatnonzero(frame.slot < len(at))
        row = row[at[frame.slot[row]] >= 0]
        for axis, name in enumerate("xyz"):
            self.place[at[frame.slot[row]], axis] = frame[name][row]

    def emit(self, time: float, failed: Flags, busy: Flags) -> None:
        """Set the power at `time` (s); `failed` (slots,), `busy` (J,): a node wants to send on the jammer's band."""
        for j, wave in enumerate(self._waves):
            level = wave.level(time, traffic=bool(busy[j]))
            on = self.on[j] and not failed[self.slots[j]] and not self.spent[j]
            self.now[j] = self.full[j] + level if on else jamming.OFF
        watts = np.where(self.now > jamming.OFF, 1e-3 * power.milliwatts(self.now), 0.0)
        self.sent += watts * min(self._period, max(self._end - time, 0.0))  # nothing after the end
        self.steps_on += self.now > jamming.OFF

    def columns(self) -> dict[str, Array]:
        """The columns of the signal `jammer`."""
        return {"on": self.now > jamming.OFF, "power": np.maximum(self.now, -200.0)}

    def summary(self) -> dict[str, dict[str, float | int]]:
        """What each has radiated, in J, and for how many steps."""
        return {
            name: {"radiated": float(self.sent[j]), "steps_on": int(self.steps_on[j])}
            for j, name in enumerate(self.ids)
        }


def problems(scene: Scene) -> list[Problem]:
    """Jammers without a place, of a fleet, or with keys that do not fit one another."""
    found = []
    for node in scene.nodes:
        block = Jammer.of(node)
        if block is None:
            continue
        if node.position is None:
            hint = "write at: [0 m, 0 m]"
            found.append(Problem(f"jammer '{node.id}' has no position", f"nodes.{node.id}.at", hint=hint))
        found += [Problem(text, f"nodes.{node.id}.jammer.{key}") for key, text in block.mistakes()]
    for fleet in scene.fleets:
        if Jammer.of(fleet.template) is not None:
            text = f"the members of fleet '{fleet.name}' cannot be jammers"
            found.append(Problem(text, f"nodes.{fleet.name}.jammer", hint="give the block to a node with 'at'"))
    return [*found, *_unheard(scene)]


def _unheard(scene: Scene) -> Iterator[Problem]:
    """Jammers beside all channels: allowed, and most often a slip of the carrier."""
    channels = _of_cells(scene) | _of_wifi(scene)
    meets = _meets(channels)
    for node in scene.nodes:
        block = Jammer.of(node)
        if block is not None and not meets(block):
            text = f"the jammer '{node.id}' disturbs nothing: no cell and no Wi-Fi interface sends on its band"
            carriers = ", ".join(f"{carrier / 1e9:g} GHz" for carrier in sorted({carrier for carrier, _ in channels}))
            yield Problem(text, f"nodes.{node.id}.jammer.carrier", hint=f"they are at {carriers}", fatal=False)


def _of_wifi(scene: Scene) -> set[tuple[float, float]]:
    nodes = (*scene.nodes, *(fleet.template for fleet in scene.fleets))
    return {(node.wifi.carrier, node.wifi.bandwidth) for node in nodes if node.wifi is not None}


def _of_cells(scene: Scene) -> set[tuple[float, float]]:
    return {(node.cell.carrier, node.cell.bandwidth) for node in scene.nodes if node.cell is not None}


def on_wifi(scene: Scene) -> Callable[[Jammer], bool]:
    """A test of whether a jammer's band meets the channel of a Wi-Fi interface of the scene."""
    return _meets(_of_wifi(scene))


def on_cells(scene: Scene) -> Callable[[Jammer], bool]:
    """A test of whether a jammer is the radio's: it meets a cell's channel, or no Wi-Fi channel."""
    cells, wifi = _meets(_of_cells(scene)), on_wifi(scene)
    return lambda block: cells(block) or not wifi(block)


def _meets(channels: set[tuple[float, float]]) -> Callable[[Jammer], bool]:
    def meets(block: Jammer) -> bool:
        return any(abs(block.carrier - f) < 0.5 * (block.bandwidth + width) for f, width in channels)

    return meets
