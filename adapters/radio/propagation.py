"""From places to received powers, by the law that the file names."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.radio.config import RadioConfig
from cosim.contract.records import Flags, Floats
from cosim.physics.radio import aerial, cells, fading, sector
from cosim.physics.radio.cells import CloseIn, PairRows, Receivers, Transmitters

Ints = NDArray[np.int32]

LAWS = {
    "ci": cells.CLOSE_IN, "free-space": cells.CLOSE_IN, "umi": cells.UMI,
    "rma-av": aerial.RMA_AV, "uma-av": aerial.UMA_AV, "umi-av": aerial.UMI_AV,
}  # fmt: skip
_PER_METRE = 0.01  # `height_loss` is for 100 m


class PairState(Protocol):
    """Shadowing and line of sight as unit Gaussians, and power in mW; (rows, cells) each."""

    shadow: Floats
    sight: Floats
    power: Floats


def exponent(config: RadioConfig) -> float:
    """The path loss exponent of the close-in law; 2 makes it the free-space law."""
    return config.exponent if config.model == "ci" else 2.0


def sigma(config: RadioConfig) -> float:
    """The standard deviation of the close-in law's shadowing in dB; there is none in free space."""
    return config.shadowing if config.model == "ci" else 0.0


def _close_in(config: RadioConfig) -> CloseIn:
    return CloseIn(exponent(config), sigma(config), config.decorrelation)


def sights(config: RadioConfig) -> bool:
    """Whether the law knows a state of line of sight."""
    return LAWS[config.model] != cells.CLOSE_IN


def receive(
    config: RadioConfig, at: Receivers, of: Transmitters, reach: float, pairs: PairState, pattern: Floats | None = None,
    *, either: bool = False,
) -> None:  # fmt: skip
    """Bring `pairs` up to date for what the devices `at` receive `of` transmitters within `reach` m.

    `either` as of `cosim.physics.radio.aerial.receive`.
    `pattern` (m, 6) of the cells' antennas as `cosim.physics.radio.sector.attenuate` has it, None: alike all around.
    """
    law = LAWS[config.model]
    if law >= aerial.RMA_AV:
        aerial.receive(at, of, law, reach, PairRows(pairs.shadow, pairs.sight, pairs.power), either)
    else:
        cells.receive(at, of, law, _close_in(config), reach, PairRows(pairs.shadow, pairs.sight, pairs.power))
    if pattern is None and config.height_loss == 0.0:
        return
    pattern = np.zeros((len(of.places), 6)) if pattern is None else pattern
    sector.attenuate(at.rows, at.antenna, at.moved, of.places, pattern, config.height_loss * _PER_METRE, pairs.power)


def receive_one(
    config: RadioConfig, at: Receivers, place: Floats, emitted: float, carrier: float, reach: float, pairs: PairState
) -> None:
    """`receive` of a single transmitter at `place` (3,) m that has all devices within `reach` m.

    Without fading it is `receive` to the bit.
    """
    if LAWS[config.model] != cells.CLOSE_IN or config.height_loss != 0.0 or config.fading == "none":
        of = Transmitters(place[None, :], np.array([emitted]), np.array([carrier]))
        receive(config, at, of, reach, pairs, either=True)
        return
    rows = PairRows(pairs.shadow, pairs.sight, pairs.power)
    cells.receive_one(at, place, emitted, carrier, _close_in(config), rows)


def in_sight(config: RadioConfig, rows: Ints, cell: Ints, sight: Floats, ground: Floats, height: Floats) -> Flags:
    """Which of `rows` (n,) see their `cell` (n,); `ground` and `height` (n,) m of their antennas."""
    law = LAWS[config.model]
    if law >= aerial.RMA_AV:
        return aerial.in_sight(rows, cell, sight, ground, height, law)
    return fading.in_sight(rows, cell, sight, ground)
