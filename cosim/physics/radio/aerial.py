"""Links between base stations and devices in the air: 3GPP TR 36.777 annex B, from 1.5 m to 300 m of height.

Below the height from which a law for aerial vehicles holds, the laws of TR 38.901 for devices on the
ground apply, as in the report's tables; so one law covers a drone from the ground up. Heights are in m
above the ground; lower and higher ones count as 1.5 m and 300 m. Where TR 38.901 draws the height of
the environment for devices above 13 m (UMa), it is taken as 1 m, its value below that height.
The functions take floats; `receive` applies them to devices and cells.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import entry, part
from cosim.contract.records import Flags, Floats
from cosim.physics.radio import pathloss
from cosim.physics.radio.cells import STATE_DRAWS, PairRows, Receivers, Transmitters
from cosim.physics.radio.shadowing import cell_key, draw_key, memory, wander

Ints = NDArray[np.int32]
Keys = NDArray[np.uint64]

RMA_AV, UMA_AV, UMI_AV = 2, 3, 4  # laws, beside those of `cosim.physics.radio.cells`
LOWEST, HIGHEST = 1.5, 300.0  # m
_FIRST = (10.0, 22.5, 22.5)  # m, above which the laws for the air hold (RMa, UMa, UMi)
_SURE = (40.0, 100.0, 300.0)  # m, above which there is always line of sight; UMi: never
_PATHS = ((37.0, 120.0), (37.0, 50.0), pathloss.UMI_DECORRELATION)  # m, TR 38.901 table 7.5-6
_STATE_PATHS = (60.0, 50.0, 50.0)  # m, TR 38.901 table 7.6.3.1-2
_ROOF, _STREET = 5.0, 20.0  # m, mean height of buildings and width of streets of RMa, TR 38.901 table 7.4.1-1
_PER_DECIBEL = math.log(10.0) / 10.0
_ROOT_HALF = math.sqrt(0.5)

_umi_los, _umi_nlos = part(pathloss.umi_los), part(pathloss.umi_nlos)
_umi_chance = part(pathloss.umi_los_probability)


@part
def _height(height: float) -> float:
    return min(max(height, LOWEST), HIGHEST)


@part
def _at_one(frequency: float) -> float:
    """20 log10(40 pi f / 3) with f in GHz: free space at 1 m."""
    return 20.0 * math.log10(40.0 * math.pi * frequency * 1e-9 / 3.0)


@part
def los_loss(law: int, ground: float, cell_height: float, device_height: float, frequency: float) -> float:
    """Path loss in dB with line of sight: TR 36.777 table B-2, below its heights TR 38.901 table 7.4.1-1.

    `ground` is the horizontal distance in m, `frequency` in Hz; on the ground at least 10 m are used.
    """
    height = _height(device_height)
    if height <= _FIRST[law - RMA_AV]:
        if law == UMI_AV:
            return float(_umi_los(ground, cell_height, height, frequency))
        return _ground_los(law, max(ground, 10.0), cell_height, height, frequency)
    distance = math.log10(max(math.hypot(ground, cell_height - device_height), 1.0))
    if law == RMA_AV:
        return max(23.9 - 1.8 * math.log10(height), 20.0) * distance + _at_one(frequency)
    if law == UMA_AV:
        return 28.0 + 22.0 * distance + 20.0 * math.log10(frequency * 1e-9)
    slope = 22.25 - 0.5 * math.log10(height)
    return max(20.0 * distance + _at_one(frequency), 30.9 + slope * distance + 20.0 * math.log10(frequency * 1e-9))


@part
def nlos_loss(law: int, ground: float, cell_height: float, device_height: float, frequency: float) -> float:
    """Path loss in dB without line of sight, never below that with it. As `los_loss`."""
    height = _height(device_height)
    seen = los_loss(law, ground, cell_height, device_height, frequency)
    if height <= _FIRST[law - RMA_AV]:
        if law == UMI_AV:
            return float(_umi_nlos(ground, cell_height, height, frequency))
        return max(seen, _ground_nlos(law, max(ground, 10.0), cell_height, height, frequency))
    distance = math.log10(max(math.hypot(ground, cell_height - device_height), 1.0))
    if law == RMA_AV:
        return max(seen, -12.0 + (35.0 - 5.3 * math.log10(height)) * distance + _at_one(frequency))
    if law == UMA_AV:
        return max(seen, -17.5 + (46.0 - 7.0 * math.log10(height)) * distance + _at_one(frequency))
    slope = 43.2 - 7.6 * math.log10(height)
    return max(seen, 32.4 + slope * distance + 20.0 * math.log10(frequency * 1e-9))


@part
def _breakpoint(cell_height: float, height: float, frequency: float) -> float:
    """Where the second slope of RMa begins, in m on the ground."""
    return 2.0 * math.pi * cell_height * height * frequency / pathloss.LIGHT


@part
def _ground_los(law: int, ground: float, cell_height: float, height: float, frequency: float) -> float:
    """RMa and UMa on the ground, with line of sight; the second slope begins at the breakpoint, a ground distance.

    The second slope of RMa is PL1(d_BP) + 40 log10(d_3D / d_BP), as TR 38.901 table 7.4.1-1 writes it.
    """
    lift = cell_height - height
    distance = math.hypot(ground, lift)
    if law == UMA_AV:
        reach = 4.0 * max(cell_height - 1.0, 0.1) * max(height - 1.0, 0.1) * frequency / pathloss.LIGHT
        common = 28.0 + 20.0 * math.log10(frequency * 1e-9)
        far = common + 40.0 * math.log10(distance) - 9.0 * math.log10(reach * reach + lift * lift)
        return far if ground > reach else common + 22.0 * math.log10(distance)
    reach = _breakpoint(cell_height, height, frequency)
    near = distance if ground <= reach else reach
    roofs = math.pow(_ROOF, 1.72)
    loss = _at_one(frequency) + 20.0 * math.log10(near) + min(0.03 * roofs, 10.0) * math.log10(near)
    loss += -min(0.044 * roofs, 14.77) + 0.002 * math.log10(_ROOF) * near
    return loss + 40.0 * math.log10(distance / near)


@part
def _ground_nlos(law: int, ground: float, cell_height: float, height: float, frequency: float) -> float:
    """RMa and UMa on the ground, without line of sight, before the comparison with line of sight."""
    distance = math.log10(math.hypot(ground, cell_height - height))
    common = 20.0 * math.log10(frequency * 1e-9)
    if law == UMA_AV:
        return 13.54 + 39.08 * distance + common - 0.6 * (height - 1.5)
    mast = math.log10(cell_height)
    loss = 161.04 - 7.1 * math.log10(_STREET) + 7.5 * math.log10(_ROOF)
    loss -= (24.37 - 3.7 * (_ROOF / cell_height) ** 2) * mast
    loss += (43.42 - 3.1 * mast) * (distance - 3.0) + common
    return loss - (3.2 * math.log10(11.75 * height) ** 2 - 4.97)


@part
def los_probability(law: int, ground: float, device_height: float) -> float:
    """Chance of line of sight: TR 36.777 table B-1, below its heights TR 38.901 table 7.4.2-1."""
    height = _height(device_height)
    if height > _SURE[law - RMA_AV]:
        return 1.0
    if height > _FIRST[law - RMA_AV]:
        grows = math.log10(height)
        if law == RMA_AV:
            near, fades = max(1350.8 * grows - 1602.0, 18.0), max(15021.0 * grows - 16053.0, 1000.0)
        elif law == UMA_AV:
            near, fades = max(460.0 * grows - 700.0, 18.0), 4300.0 * grows - 3800.0
        else:
            near, fades = max(294.05 * grows - 432.94, 18.0), 233.98 * grows - 0.95
        part_of = min(near / max(ground, 1e-9), 1.0)
        return part_of + math.exp(-ground / fades) * (1.0 - part_of)
    if law == RMA_AV:
        return math.exp(-max(ground - 10.0, 0.0) / 1000.0)
    if law == UMI_AV:
        return float(_umi_chance(ground))
    near = min(18.0 / max(ground, 1e-9), 1.0)
    chance = near + math.exp(-ground / 63.0) * (1.0 - near)
    if height > 13.0 and ground > 18.0:
        above = ((height - 13.0) / 10.0) ** 1.5
        chance *= 1.0 + above * 1.25 * (ground / 100.0) ** 3 * math.exp(-ground / 150.0)
    return min(chance, 1.0)


@part
def shadowing(law: int, ground: float, cell_height: float, device_height: float, frequency: float, seen: bool) -> float:
    """Standard deviation of the shadowing in dB: TR 36.777 table B-3, below its heights TR 38.901 table 7.4.1-1."""
    height = _height(device_height)
    if height > _FIRST[law - RMA_AV]:
        if law == RMA_AV:
            return 4.2 * math.exp(-0.0046 * height) if seen else 6.0
        if law == UMA_AV:
            return 4.64 * math.exp(-0.0066 * height) if seen else 6.0
        return max(5.0 * math.exp(-0.01 * height), 2.0) if seen else 8.0
    if law == UMI_AV:
        return pathloss.UMI_SHADOWING[0] if seen else pathloss.UMI_SHADOWING[1]
    if law == UMA_AV:
        return 4.0 if seen else 6.0
    if not seen:
        return 8.0
    return 6.0 if ground > _breakpoint(cell_height, height, frequency) else 4.0


@entry()
def receive(at: Receivers, of: Transmitters, law: int, reach: float, pairs: PairRows, either: bool) -> None:
    """Bring `pairs` up to date by a law of this module; arguments as for `cosim.physics.radio.cells.receive`.

    `either`: the end in the air may be the one at `of.places`, as of a jammer that flies; a link is the same both ways.
    """
    paths = _PATHS[law - RMA_AV]
    state_path = _STATE_PATHS[law - RMA_AV]
    for i in range(len(at.rows)):
        if at.moved[i] == 0.0:
            continue
        row, step = at.rows[i], max(at.moved[i], 0.0)
        kept_los, kept_nlos, kept_sight = memory(step, paths[0]), memory(step, paths[1]), memory(step, state_path)
        fresh_los, fresh_nlos = math.sqrt(1.0 - kept_los * kept_los), math.sqrt(1.0 - kept_nlos * kept_nlos)
        fresh_sight = math.sqrt(1.0 - kept_sight * kept_sight)
        drawing = draw_key(at.key[i], at.draw[i])
        for c in range(len(of.places)):
            up, down = at.antenna[i, 2], max(of.places[c, 2], LOWEST)
            if either and down > max(up, _FIRST[law - RMA_AV]):
                up, down = down, max(up, LOWEST)
            ground = math.hypot(at.antenna[i, 0] - of.places[c, 0], at.antenna[i, 1] - of.places[c, 1])
            if math.hypot(ground, up - down) > reach:
                pairs.shadow[row, c], pairs.power[row, c] = np.nan, 0.0
                continue
            pairs.sight[row, c] = wander(
                pairs.sight[row, c], kept_sight, fresh_sight, cell_key(drawing, c + STATE_DRAWS)
            )
            seen = 0.5 * math.erfc(-pairs.sight[row, c] * _ROOT_HALF) < los_probability(law, ground, up)
            if seen:
                drawn = wander(pairs.shadow[row, c], kept_los, fresh_los, cell_key(drawing, c))
                loss = los_loss(law, ground, down, up, of.carrier[c])
            else:
                drawn = wander(pairs.shadow[row, c], kept_nlos, fresh_nlos, cell_key(drawing, c))
                loss = nlos_loss(law, ground, down, up, of.carrier[c])
            pairs.shadow[row, c] = drawn
            loss += shadowing(law, ground, down, up, of.carrier[c], seen) * drawn
            pairs.power[row, c] = math.exp(_PER_DECIBEL * (of.emitted[c] + at.gain[i] - loss))


@entry()
def in_sight(rows: Ints, cell: Ints, sight: Floats, ground: Floats, height: Floats, law: int) -> Flags:
    """Which devices `rows` (n,) see their `cell` (n,), -1 for none, as `receive` keeps it.

    `sight` (slots, m) are its unit Gaussians; `ground` and `height` (n,) m are horizontal distance and height.
    """
    seen = np.zeros(len(rows), np.bool_)
    for i in range(len(rows)):
        if cell[i] >= 0:
            chance = los_probability(law, ground[i], height[i])
            seen[i] = 0.5 * math.erfc(-sight[rows[i], cell[i]] * _ROOT_HALF) < chance
    return seen
