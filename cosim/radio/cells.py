"""The device-by-cell part of the link model, compiled: received power, association, interference.

State lives in arrays of the caller with one row per slot; `rows` (n,) names the rows of the present
devices. Nothing here depends on the order of `rows` except the order of floating-point sums in
`uplink_interference`: hand rows over in ascending order for bit-equal results.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cosim.radio import pathloss
from cosim.radio._compiled import compiled
from cosim.radio.shadowing import cell_key, draw_key, memory, wander

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Keys = NDArray[np.uint64]

CLOSE_IN, UMI = 0, 1  # path loss laws of `receive`
_PER_DECIBEL = math.log(10.0) / 10.0
_ROOT_HALF = math.sqrt(0.5)
_STATE_DRAWS = 1 << 23  # cell numbers from here on draw the line-of-sight state
_LOS_SIGMA, _NLOS_SIGMA = pathloss.UMI_SHADOWING
_LOS_PATH, _NLOS_PATH = pathloss.UMI_DECORRELATION
_STATE_PATH = pathloss.UMI_LOS_DECORRELATION

_umi_los = compiled(pathloss.umi_los)


@compiled
def _umi_nlos(ground: float, cell_height: float, device_height: float, frequency: float, los: float) -> float:
    flat = max(ground, 10.0)
    distance = math.sqrt(flat * flat + (cell_height - device_height) ** 2)
    blocked = 35.3 * math.log10(distance) + 22.4 + 21.3 * math.log10(frequency * 1e-9) - 0.3 * (device_height - 1.5)
    return max(los, blocked)


_umi_chance = compiled(pathloss.umi_los_probability)


@compiled
def receive(
    rows: Ints,
    position: Floats,
    gain: Floats,
    moved: Floats,
    key: Keys,
    draw: Keys,
    cells: Floats,
    emitted: Floats,
    frequency: Floats,
    law: int,
    exponent: float,
    sigma: float,
    decorrelation: float,
    reach: float,
    shadow: Floats,
    sight: Floats,
    power: Floats,
) -> None:
    """Bring `power[row, cell]` (mW over the whole band, at the device) up to date for `rows` (n,).

    Devices: antenna `position` (n, 3) m, `gain` (n,) dB, `moved` (n,) m since the last call for that
    row (0: nothing is done, inf: a new device, -1: the cells moved but it did not), `key` (n,) and
    `draw` (n,) number of this draw. Cells: antenna positions (m, 3) m, `emitted` (m,) dBm with
    antenna gain, `frequency` (m,) Hz. `law` CLOSE_IN uses `exponent`, `sigma` (dB) and
    `decorrelation` (m); UMI uses TR 38.901's values and heights above z = 0. Pairs farther apart
    than `reach` m get no power. `shadow` and `sight` (rows, m) hold unit Gaussians, NaN before the
    first draw; `sight` is used by UMI only and may have a single row otherwise.
    """
    slope = 5.0 * exponent / math.log(10.0)  # dB per e-fold of the squared distance
    reference = np.empty(len(cells))
    for c in range(len(cells)):
        reference[c] = 20.0 * math.log10(4.0 * math.pi * frequency[c] / pathloss.LIGHT)
    for i in range(len(rows)):
        if moved[i] == 0.0:
            continue
        row, step = rows[i], max(moved[i], 0.0)
        drawing = draw_key(key[i], draw[i])
        kept = memory(step, decorrelation if law == CLOSE_IN else _LOS_PATH)
        kept_nlos, kept_sight = memory(step, _NLOS_PATH), memory(step, _STATE_PATH)
        fresh, fresh_nlos = math.sqrt(1.0 - kept * kept), math.sqrt(1.0 - kept_nlos * kept_nlos)
        fresh_sight = math.sqrt(1.0 - kept_sight * kept_sight)
        x, y, z = position[i, 0], position[i, 1], position[i, 2]
        for c in range(len(cells)):
            dx, dy, dz = x - cells[c, 0], y - cells[c, 1], z - cells[c, 2]
            flat = dx * dx + dy * dy
            square = flat + dz * dz
            if square > reach * reach:
                shadow[row, c] = np.nan
                power[row, c] = 0.0
                continue
            name = cell_key(drawing, c)
            if law == UMI:
                ground = math.sqrt(flat)
                seen = wander(sight[row, c], kept_sight, fresh_sight, cell_key(drawing, c + _STATE_DRAWS))
                sight[row, c] = seen
                loss = _umi_los(ground, cells[c, 2], z, frequency[c])
                if 0.5 * math.erfc(-seen * _ROOT_HALF) < _umi_chance(ground):
                    drawn = wander(shadow[row, c], kept, fresh, name)
                    loss += _LOS_SIGMA * drawn
                else:
                    drawn = wander(shadow[row, c], kept_nlos, fresh_nlos, name)
                    loss = _umi_nlos(ground, cells[c, 2], z, frequency[c], loss) + _NLOS_SIGMA * drawn
            else:
                loss = reference[c] + slope * math.log(max(square, 1.0))
                drawn = 0.0
                if sigma > 0.0:
                    drawn = wander(shadow[row, c], kept, fresh, name)
                    loss += sigma * drawn
            shadow[row, c] = drawn
            power[row, c] = math.exp(_PER_DECIBEL * (emitted[c] + gain[i] - loss))


@compiled
def associate(
    rows: Ints,
    power: Floats,
    usable: Floats,
    time: float,
    margin: float,
    patience: float,
    serving: Ints,
    previous: Ints,
    target: Ints,
    since: Floats,
    handovers: Ints,
    strongest: Ints,
) -> None:
    """Choose the serving cell of each device in `rows` (n,); the arrays from `serving` on are state.

    The criterion is the A3 event of 3GPP TS 38.331 5.5.4.4: a device leaves its cell when another is
    stronger by `margin` (a power ratio) for `patience` s (time to trigger). A device without a
    usable cell takes the strongest at once. `power` (rows, m) mW; `usable` (m,) is the power in mW
    below which a cell does not serve, inf for a failed one.
    State (rows,): `serving` cell or -1; `previous` cell that served last; `target` of the running
    trigger or -1, `since` when; `handovers` so far: changes from one cell to another, an outage in
    between included; `strongest` cell, whether usable or not, -1 for none.
    """
    for i in range(len(rows)):
        row = rows[i]
        loudest, best = -1, -1
        loudest_power, best_power = 0.0, 0.0
        for c in range(power.shape[1]):
            level = power[row, c]
            if level > loudest_power and usable[c] < np.inf:
                loudest, loudest_power = c, level
            if level > best_power and level >= usable[c]:
                best, best_power = c, level
        strongest[row] = loudest
        now = serving[row]
        if best < 0:
            serving[row], target[row] = -1, -1
            continue
        if now < 0 or power[row, now] < usable[now]:
            now, target[row] = best, -1
        elif best != now and best_power > power[row, now] * margin:
            if target[row] != best:
                target[row], since[row] = best, time
            if time - since[row] >= patience - 1e-9:
                now, target[row] = best, -1
        else:
            target[row] = -1
        if previous[row] >= 0 and previous[row] != now:
            handovers[row] += 1
        serving[row], previous[row] = now, now


@compiled
def downlink_interference(rows: Ints, cell: Ints, power: Floats, carrier: Ints, load: Floats) -> Floats:
    """Power in mW (n,) that other cells on the carrier of `cell` (n,) put on each device of `rows`.

    `carrier` (m,) numbers the carriers, `load` (m,) is the part of the time that each cell sends.
    """
    total = np.zeros(len(rows))
    for i in range(len(rows)):
        own = cell[i]
        if own < 0:
            continue
        for c in range(power.shape[1]):
            if c != own and carrier[c] == carrier[own]:
                total[i] += power[rows[i], c] * load[c]
    return total


@compiled
def uplink_interference(
    rows: Ints, cell: Ints, power: Floats, carrier: Ints, sent: Floats, transmit: Floats, share: Floats
) -> Floats:
    """Power in mW (m,) that reaches each cell from devices which other cells on its carrier serve.

    The path is reciprocal: a device that sends `sent` (n,) dBm is heard with the power that it
    hears, scaled by sent over the cell's own power `transmit` (m,) dBm, antenna gain not included.
    `share` (n,) is the part of the time that it sends; there is no power control.
    """
    total = np.zeros(power.shape[1])
    quieter = np.exp(-_PER_DECIBEL * transmit)
    for i in range(len(rows)):
        own = cell[i]
        if own < 0 or share[i] <= 0.0:
            continue
        weight = share[i] * math.exp(_PER_DECIBEL * sent[i])
        for c in range(power.shape[1]):
            if c != own and carrier[c] == carrier[own]:
                total[c] += weight * power[rows[i], c] * quieter[c]
    return total
