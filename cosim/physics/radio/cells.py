"""The device-by-cell part of the link model, compiled: received power, association, interference.

State lives in arrays of the caller with one row per slot; `rows` (n,) names the rows of the present
devices. Nothing here depends on the order of `rows` except the order of floating-point sums in
`uplink_interference`: hand rows over in ascending order for bit-equal results.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import entry, part
from cosim.physics.radio import pathloss
from cosim.physics.radio.fast import exp, ln
from cosim.physics.radio.shadowing import cell_key, draw_key, memory, mix, normal, wander

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Keys = NDArray[np.uint64]

CLOSE_IN, UMI = 0, 1  # path loss laws of `receive`
_PER_DECIBEL = math.log(10.0) / 10.0
_ROOT_HALF = math.sqrt(0.5)
ACCURACY = 2.0  # dB of the levels of cells of one carrier against each other, TS 38.133 table 10.1.2.1.2-1
_REPORT_DRAWS = 1 << 25  # cell numbers from here on draw errors of reports
STATE_DRAWS = 1 << 23  # cell numbers from here on draw the line-of-sight state
_LOS_SIGMA, _NLOS_SIGMA = pathloss.UMI_SHADOWING
_LOS_PATH, _NLOS_PATH = pathloss.UMI_DECORRELATION
_STATE_PATH = pathloss.UMI_LOS_DECORRELATION

_umi_los = part(pathloss.umi_los)
_umi_chance = part(pathloss.umi_los_probability)


@part
def _umi_nlos(ground: float, cell_height: float, device_height: float, frequency: float, los: float) -> float:
    flat = max(ground, 10.0)
    distance = math.sqrt(flat * flat + (cell_height - device_height) ** 2)
    blocked = 35.3 * math.log10(distance) + 22.4 + 21.3 * math.log10(frequency * 1e-9) - 0.3 * (device_height - 1.5)
    return max(los, blocked)


@part
def _close_in(
    square: Floats,
    near: float,
    level: Floats,
    slope: float,
    sigma: float,
    kept: float,
    fresh: float,
    drawing: np.uint64,
    draws: Floats,
    shadow: Floats,
    power: Floats,
) -> None:
    """Shadowing and power (m,) of one device. Levels, slope and sigma in nepers of power; `draws` (m,) is scratch."""
    if sigma > 0.0:
        for c in range(len(square)):
            if square[c] <= near:
                draws[c] = normal(cell_key(drawing, c))
    # no calls and no branches: this loop becomes vector instructions
    for c in range(len(square)):
        old = shadow[c]
        drawn = draws[c] if old != old else kept * old + fresh * draws[c]
        received = exp(level[c] - slope * ln(max(square[c], 1.0)) - sigma * drawn)
        far = square[c] > near
        shadow[c] = np.nan if far else drawn
        power[c] = 0.0 if far else received


@part
def _urban(
    square: Floats,
    near: float,
    level: Floats,
    place: Floats,
    cells: Floats,
    frequency: Floats,
    step: float,
    drawing: np.uint64,
    shadow: Floats,
    sight: Floats,
    power: Floats,
) -> None:
    """Line of sight, shadowing and power (m,) of one device at `place` (3,)."""
    kept_los, kept_nlos, kept_sight = memory(step, _LOS_PATH), memory(step, _NLOS_PATH), memory(step, _STATE_PATH)
    fresh_los, fresh_nlos = math.sqrt(1.0 - kept_los * kept_los), math.sqrt(1.0 - kept_nlos * kept_nlos)
    fresh_sight = math.sqrt(1.0 - kept_sight * kept_sight)
    for c in range(len(square)):
        if square[c] > near:
            shadow[c], power[c] = np.nan, 0.0
            continue
        ground = math.sqrt((place[0] - cells[c, 0]) ** 2 + (place[1] - cells[c, 1]) ** 2)
        seen = wander(sight[c], kept_sight, fresh_sight, cell_key(drawing, c + STATE_DRAWS))
        sight[c] = seen
        loss = _umi_los(ground, cells[c, 2], place[2], frequency[c])
        if 0.5 * math.erfc(-seen * _ROOT_HALF) < _umi_chance(ground):
            drawn = wander(shadow[c], kept_los, fresh_los, cell_key(drawing, c))
            loss += _LOS_SIGMA * drawn
        else:
            drawn = wander(shadow[c], kept_nlos, fresh_nlos, cell_key(drawing, c))
            loss = _umi_nlos(ground, cells[c, 2], place[2], frequency[c], loss) + _NLOS_SIGMA * drawn
        shadow[c] = drawn
        power[c] = math.exp(level[c] - _PER_DECIBEL * loss)


@entry()
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
    near = reach * reach
    level = np.empty(len(cells))
    for c in range(len(cells)):
        reference = 20.0 * math.log10(4.0 * math.pi * frequency[c] / pathloss.LIGHT) if law == CLOSE_IN else 0.0
        level[c] = _PER_DECIBEL * (emitted[c] - reference)
    east, north, up = cells[:, 0].copy(), cells[:, 1].copy(), cells[:, 2].copy()
    square, draws, budget = np.empty(len(cells)), np.zeros(len(cells)), np.empty(len(cells))
    for i in range(len(rows)):
        if moved[i] == 0.0:
            continue
        row, step = rows[i], max(moved[i], 0.0)
        x, y, z = position[i, 0], position[i, 1], position[i, 2]
        for c in range(len(cells)):
            dx, dy, dz = x - east[c], y - north[c], z - up[c]
            square[c] = dx * dx + dy * dy + dz * dz
            budget[c] = level[c] + _PER_DECIBEL * gain[i]
        drawing = draw_key(key[i], draw[i])
        if law == UMI:
            _urban(
                square, near, budget, position[i], cells, frequency, step, drawing,
                shadow[row], sight[row], power[row],
            )  # fmt: skip
        else:
            kept = memory(step, decorrelation)
            _close_in(
                square, near, budget, 0.5 * exponent, _PER_DECIBEL * sigma, kept, math.sqrt(1.0 - kept * kept),
                drawing, draws, shadow[row], power[row],
            )  # fmt: skip


@entry()
def receive_one(
    rows: Ints,
    position: Floats,
    gain: Floats,
    moved: Floats,
    key: Keys,
    draw: Keys,
    place: Floats,
    emitted: float,
    frequency: float,
    exponent: float,
    sigma: float,
    decorrelation: float,
    shadow: Floats,
    power: Floats,
) -> None:
    """What `receive` does with the law CLOSE_IN for a single transmitter at `place` (3,) m in reach of all, sooner.

    `shadow` and `power` are (slots, 1). The power is that of `receive` to 1e-13: it is rounded elsewhere.
    """
    reference = 20.0 * math.log10(4.0 * math.pi * frequency / pathloss.LIGHT)
    level = _PER_DECIBEL * (emitted - reference)
    slope, spread = 0.5 * exponent, _PER_DECIBEL * sigma
    for i in range(len(rows)):
        if moved[i] == 0.0:
            continue
        row, step = rows[i], max(moved[i], 0.0)
        dx, dy, dz = position[i, 0] - place[0], position[i, 1] - place[1], position[i, 2] - place[2]
        square = dx * dx + dy * dy + dz * dz
        budget = level + _PER_DECIBEL * gain[i]
        kept = memory(step, decorrelation)
        drawn = normal(cell_key(draw_key(key[i], draw[i]), 0)) if sigma > 0.0 else 0.0
        old = shadow[row, 0]
        if old == old:
            drawn = kept * old + math.sqrt(1.0 - kept * kept) * drawn
        shadow[row, 0] = drawn
        power[row, 0] = exp(budget - slope * ln(max(square, 1.0)) - spread * drawn)


@entry()
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
        loudest, loudest_power = -1, 0.0
        for c in range(power.shape[1]):
            if power[row, c] > loudest_power and usable[c] < np.inf:
                loudest, loudest_power = c, power[row, c]
        best, best_power = loudest, loudest_power
        if loudest >= 0 and loudest_power < usable[loudest]:  # a weaker one may do: thresholds differ
            best, best_power = -1, 0.0
            for c in range(power.shape[1]):
                if power[row, c] > best_power and power[row, c] >= usable[c]:
                    best, best_power = c, power[row, c]
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


@part
def _dot(a: Floats, b: Floats) -> float:
    """Sum of products, in four sums that do not wait for each other."""
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    whole = len(a) // 4 * 4
    for k in range(0, whole, 4):
        first += a[k] * b[k]
        second += a[k + 1] * b[k + 1]
        third += a[k + 2] * b[k + 2]
        fourth += a[k + 3] * b[k + 3]
    for k in range(whole, len(a)):
        first += a[k] * b[k]
    return (first + second) + (third + fourth)


@part
def _add(total: Floats, weight: float, part_of: Floats, power: Floats) -> None:
    for k in range(len(total)):
        total[k] += weight * part_of[k] * power[k]


@entry()
def downlink_interference(rows: Ints, cell: Ints, power: Floats, carrier: Ints, load: Floats) -> Floats:
    """Power in mW (n,) that other cells on the carrier of `cell` (n,) put on each device of `rows`.

    `carrier` (m,) numbers the carriers, `load` (m,) is the part of the time that each cell sends.
    """
    heard = np.where(carrier.reshape(-1, 1) == carrier, load, 0.0)  # (m, m) by own cell and other
    for c in range(len(load)):
        heard[c, c] = 0.0
    total = np.zeros(len(rows))
    for i in range(len(rows)):
        if cell[i] >= 0:
            total[i] = _dot(heard[cell[i]], power[rows[i]])
    return total


@entry()
def uplink_interference(
    rows: Ints, cell: Ints, power: Floats, carrier: Ints, sent: Floats, transmit: Floats, share: Floats
) -> Floats:
    """Power in mW (m,) that reaches each cell from devices which other cells on its carrier serve.

    The path is reciprocal: a device that sends `sent` (n,) dBm is heard with the power that it
    hears, scaled by sent over the cell's own power `transmit` (m,) dBm, antenna gain not included.
    `share` (n,) is the part of the time that it sends; there is no power control.
    """
    heard = np.where(carrier.reshape(-1, 1) == carrier, np.exp(-_PER_DECIBEL * transmit), 0.0)
    for c in range(len(transmit)):
        heard[c, c] = 0.0
    total = np.zeros(len(transmit))
    for i in range(len(rows)):
        if cell[i] >= 0 and share[i] > 0.0:
            _add(total, share[i] * math.exp(_PER_DECIBEL * sent[i]), heard[cell[i]], power[rows[i]])
    return total


@part
def _reported(level: float, key: np.uint64, cell: int) -> float:
    """The power in mW that a device reports of a `cell` that it hears with `level` mW.

    Steps of 1 dB (TS 38.133 table 10.1.6.1-1), off by up to `ACCURACY`, of each pair always by the same.
    """
    off = ACCURACY * (np.float64(mix(cell_key(key, cell + _REPORT_DRAWS)) >> np.uint64(11)) * 2.0**-52 - 1.0)
    return exp(_PER_DECIBEL * math.floor(ln(level) / _PER_DECIBEL + off + 0.5))


@entry()
def expected_interference(
    rows: Ints, cell: Ints, power: Floats, carrier: Ints, load: Floats, sent: Floats, transmit: Floats, airtime: Floats,
    key: Keys, down: Floats, up: Floats,
) -> None:  # fmt: skip
    """Add the interference that a network expects, by the levels that devices report, to `down` (n,) and `up` (m,) mW.

    `load` (m,) and `airtime` (n,) are the parts of time in which cells and devices send, as their cells know them;
    `key` (n,) those of the devices; other arguments as of `downlink_interference` and `uplink_interference`.
    """
    for i in range(len(rows)):
        own = cell[i]
        if own < 0:
            continue
        strength = airtime[i] * math.exp(_PER_DECIBEL * sent[i])
        for c in range(len(load)):
            heard = power[rows[i], c]
            if c != own and carrier[c] == carrier[own] and heard > 0.0:
                level = _reported(heard, key[i], c)
                down[i] += load[c] * level
                up[c] += strength * math.exp(-_PER_DECIBEL * transmit[c]) * level
