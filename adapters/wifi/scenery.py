"""What the scene holds for Wi-Fi: interfaces of nodes and of members of fleets, as arrays."""

from __future__ import annotations

import numpy as np

from cosim.adapters.wifi.config import WifiConfig
from cosim.contract.entities import Node, Scene
from cosim.contract.node_keys import Wifi
from cosim.physics.radio import power, wifi
from cosim.physics.radio.pathloss import LIGHT
from cosim.physics.radio.wifi_pairs import Antennas


class Interfaces:
    """The n interfaces of the scene in the order of slots."""

    def __init__(self, scene: Scene, config: WifiConfig) -> None:
        found: list[tuple[int, Node, Wifi]] = []
        for slot, node in enumerate(scene.nodes):
            if node.wifi is not None:
                found.append((slot, node, node.wifi))
        for fleet in scene.fleets:
            wireless = fleet.template.wifi
            if wireless is not None:
                found += [(fleet.first + k, fleet.template, wireless) for k in range(fleet.capacity)]
        blocks = [block for _, _, block in found]
        self.nodes = [node for _, node, _ in found]
        self.slots = np.array([slot for slot, _, _ in found], np.int32)  # (n,)
        self.number = np.full(scene.capacity, -1, np.int64)  # (capacity,) of the interface of a slot
        self.number[self.slots] = np.arange(len(self.slots))
        self.place = np.zeros((len(found), 3))  # m, latest known place of the node
        self.fixed = self.slots < len(scene.nodes)  # (n,) present without anybody moving them
        for k, (_, node, _) in enumerate(found):
            if node.position is not None and self.fixed[k]:
                self.place[k] = node.position
        self.height = np.array([block.height for block in blocks])  # (n,) m
        self.access = np.array([block.mode == "access-point" for block in blocks])  # (n,)
        self.station = np.array([block.mode == "station" for block in blocks])  # (n,)
        self.carrier = np.array([block.carrier for block in blocks])  # (n,) Hz
        self.bandwidth = np.array([block.bandwidth for block in blocks])  # (n,) Hz
        self.antennas = _antennas(blocks, config)

    def __len__(self) -> int:
        return len(self.slots)


def _antennas(blocks: list[Wifi], config: WifiConfig) -> Antennas:
    names = {name: k for k, name in enumerate(dict.fromkeys(block.network for block in blocks))}
    widths = sorted({block.bandwidth for block in blocks})
    curves = [wifi.curve(width, config.packet, config.fading, config.retries) for width in widths]
    number = np.array([widths.index(block.bandwidth) for block in blocks], np.int64)
    emitted = np.array([block.power + block.gain for block in blocks])
    gain = np.array([block.gain for block in blocks])
    carrier = np.array([block.carrier for block in blocks])
    bandwidth = np.array([block.bandwidth for block in blocks])
    floor = power.noise(bandwidth, np.array([block.noise_figure for block in blocks]))
    least = np.array([curve.least for curve in curves])
    # the farthest that the most sensitive receiver hears; the search itself looks at each pair's level
    budget = emitted + float(np.max(gain - floor, initial=-np.inf))
    reach = np.array(
        [
            wifi.reach(curves[c], f, config.exponent, b)
            for c, f, b in zip(number.tolist(), carrier.tolist(), budget.tolist(), strict=True)
        ]
    )
    return Antennas(
        network=np.array([names[block.network] for block in blocks], np.int64),
        emitted=emitted,
        gain=gain,
        floor=floor,
        reference=20.0 * np.log10(4.0 * np.pi * carrier / LIGHT),
        exponent=config.exponent,
        reach=reach * (1.0 + 1e-9),
        curve=number,
        curves=np.stack([curve.table() for curve in curves]),
        least=least,
    )
