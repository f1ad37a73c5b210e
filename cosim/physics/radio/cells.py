"""The device-by-cell part of the link model, compiled: received power, association, interference.

State lives in arrays of the caller with one row per slot; `rows` (n,) names the rows of the present
devices. Nothing here depends on the order of `rows` except the order of floating-point sums in
`uplink_interference`: hand rows over in ascending order for bit-equal results.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import entry, part
from cosim.contract.records import Floats
from cosim.physics.radio import pathloss
from cosim.physics.radio.fast import exp, ln
from cosim.physics.radio.shadowing import cell_key, draw_key, memory, mix, normal, wander

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


class Receivers(NamedTuple):
    """Devices that listen; (n,) each."""

    rows: Ints
    antenna: Floats  # (n, 3) m
    gain: Floats  # dBi
    moved: Floats  # m since the last call; 0: nothing is done, inf: a new device, -1: the cells moved but it did not
    key: Keys
    draw: Keys  # number of this draw


class Transmitters(NamedTuple):
    """What they listen to; (m,) each."""

    places: Floats  # (m, 3) m
    emitted: Floats  # dBm with antenna gain
    carrier: Floats  # Hz


class CloseIn(NamedTuple):
    """The numbers of the close-in law."""

    exponent: float
    sigma: float  # dB
    decorrelation: float  # m


class PairRows(NamedTuple):
    """Of each device and cell, (rows, m): unit Gaussians, NaN before the first draw, and the received power."""

    shadow: Floats
    sight: Floats  # line of sight; one row is enough for a law that does not know it
    power: Floats  # mW over the whole band, at the device


class Sending(NamedTuple):
    """What cells send on, as others know it; (m,) each."""

    carrier: Ints  # its number
    load: Floats  # part of the time
    transmit: Floats  # dBm


class Serving(NamedTuple):
    """Who serves each device; (rows,) each."""

    serving: Ints  # cell, -1: none
    previous: Ints  # cell that served last
    target: Ints  # cell of the running trigger, -1: none
    since: Floats  # s, when that began
    handovers: Ints  # so far: changes from one cell to another, an outage in between included
    strongest: Ints  # cell, whether usable or not, -1: none


@part
def _close_in(
    square: Floats, near: float, level: Floats, law: CloseIn, step: float, drawing: np.uint64, draws: Floats,
    pairs: PairRows, row: int,
) -> None:  # fmt: skip
    """Shadowing and power of the device in a row, `step` m on. `level` (m,) in nepers of power; `draws` is scratch."""
    slope, sigma, kept = 0.5 * law.exponent, _PER_DECIBEL * law.sigma, memory(step, law.decorrelation)
    fresh = math.sqrt(1.0 - kept * kept)
    shadow, power = pairs.shadow[row], pairs.power[row]
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
    square: Floats, near: float, level: Floats, place: Floats, of: Transmitters, step: float, drawing: np.uint64,
    pairs: PairRows, row: int,
) -> None:  # fmt: skip
    """Line of sight, shadowing and power of the device in a row, at `place` (3,) m."""
    cells, shadow, sight, power = of.places, pairs.shadow[row], pairs.sight[row], pairs.power[row]
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
        loss = _umi_los(ground, cells[c, 2], place[2], of.carrier[c])
        if 0.5 * math.erfc(-seen * _ROOT_HALF) < _umi_chance(ground):
            drawn = wander(shadow[c], kept_los, fresh_los, cell_key(drawing, c))
            loss += _LOS_SIGMA * drawn
        else:
            drawn = wander(shadow[c], kept_nlos, fresh_nlos, cell_key(drawing, c))
            loss = _umi_nlos(ground, cells[c, 2], place[2], of.carrier[c], loss) + _NLOS_SIGMA * drawn
        shadow[c] = drawn
        power[c] = math.exp(level[c] - _PER_DECIBEL * loss)


@entry()
def receive(at: Receivers, of: Transmitters, law: int, close_in: CloseIn, reach: float, pairs: PairRows) -> None:
    """Bring the rows of `pairs` up to date for the devices `at`.

    `law` CLOSE_IN uses `close_in`; UMI uses TR 38.901's values and heights above z = 0. Pairs farther apart
    than `reach` m get no power.
    """
    near = reach * reach
    level = np.empty(len(of.places))
    for c in range(len(of.places)):
        reference = 20.0 * math.log10(4.0 * math.pi * of.carrier[c] / pathloss.LIGHT) if law == CLOSE_IN else 0.0
        level[c] = _PER_DECIBEL * (of.emitted[c] - reference)
    east, north, up = of.places[:, 0].copy(), of.places[:, 1].copy(), of.places[:, 2].copy()
    square, draws, budget = np.empty(len(of.places)), np.zeros(len(of.places)), np.empty(len(of.places))
    for i in range(len(at.rows)):
        if at.moved[i] == 0.0:
            continue
        row, step = at.rows[i], max(at.moved[i], 0.0)
        x, y, z = at.antenna[i, 0], at.antenna[i, 1], at.antenna[i, 2]
        for c in range(len(of.places)):
            dx, dy, dz = x - east[c], y - north[c], z - up[c]
            square[c] = dx * dx + dy * dy + dz * dz
            budget[c] = level[c] + _PER_DECIBEL * at.gain[i]
        drawing = draw_key(at.key[i], at.draw[i])
        if law == UMI:
            _urban(square, near, budget, at.antenna[i], of, step, drawing, pairs, row)
        else:
            _close_in(square, near, budget, close_in, step, drawing, draws, pairs, row)


@entry()
def receive_one(at: Receivers, place: Floats, emitted: float, frequency: float, law: CloseIn, pairs: PairRows) -> None:
    """What `receive` does with the law CLOSE_IN for a single transmitter at `place` (3,) m in reach of all, sooner.

    The power is that of `receive` to 1e-13: it is rounded elsewhere.
    """
    reference = 20.0 * math.log10(4.0 * math.pi * frequency / pathloss.LIGHT)
    level = _PER_DECIBEL * (emitted - reference)
    slope, spread = 0.5 * law.exponent, _PER_DECIBEL * law.sigma
    for i in range(len(at.rows)):
        if at.moved[i] == 0.0:
            continue
        row, step = at.rows[i], max(at.moved[i], 0.0)
        dx, dy, dz = at.antenna[i, 0] - place[0], at.antenna[i, 1] - place[1], at.antenna[i, 2] - place[2]
        square = dx * dx + dy * dy + dz * dz
        budget = level + _PER_DECIBEL * at.gain[i]
        kept = memory(step, law.decorrelation)
        drawn = normal(cell_key(draw_key(at.key[i], at.draw[i]), 0)) if law.sigma > 0.0 else 0.0
        old = pairs.shadow[row, 0]
        if old == old:
            drawn = kept * old + math.sqrt(1.0 - kept * kept) * drawn
        pairs.shadow[row, 0] = drawn
        pairs.power[row, 0] = exp(budget - slope * ln(max(square, 1.0)) - spread * drawn)


@entry()
def associate(
    rows: Ints, power: Floats, usable: Floats, time: float, margin: float, patience: float, s: Serving
) -> None:
    """Choose the serving cell of each device in `rows` (n,), and note it in `s`.

    The criterion is the A3 event of 3GPP TS 38.331 5.5.4.4: a device leaves its cell when another is
    stronger by `margin` (a power ratio) for `patience` s (time to trigger). A device without a
    usable cell takes the strongest at once. `power` (rows, m) mW; `usable` (m,) is the power in mW
    below which a cell does not serve, inf for a failed one.
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
        s.strongest[row] = loudest
        now = s.serving[row]
        if best < 0:
            s.serving[row], s.target[row] = -1, -1
            continue
        if now < 0 or power[row, now] < usable[now]:
            now, s.target[row] = best, -1
        elif best != now and best_power > power[row, now] * margin:
            if s.target[row] != best:
                s.target[row], s.since[row] = best, time
            if time - s.since[row] >= patience - 1e-9:
                now, s.target[row] = best, -1
        else:
            s.target[row] = -1
        if s.previous[row] >= 0 and s.previous[row] != now:
            s.handovers[row] += 1
        s.serving[row], s.previous[row] = now, now


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
    rows: Ints, cell: Ints, power: Floats, cells: Sending, sent: Floats, airtime: Floats, key: Keys, down: Floats,
    up: Floats,
) -> None:  # fmt: skip
    """Add the interference that a network expects, by the levels that devices report, to `down` (n,) and `up` (m,) mW.

    `airtime` (n,) is the part of time in which each device sends, as its cell knows it, `key` (n,) its own; other
    arguments as of `downlink_interference` and `uplink_interference`.
    """
    for i in range(len(rows)):
        own = cell[i]
        if own < 0:
            continue
        strength = airtime[i] * math.exp(_PER_DECIBEL * sent[i])
        for c in range(len(cells.load)):
            heard = power[rows[i], c]
            if c != own and cells.carrier[c] == cells.carrier[own] and heard > 0.0:
                level = _reported(heard, key[i], c)
                down[i] += cells.load[c] * level
                up[c] += strength * math.exp(-_PER_DECIBEL * cells.transmit[c]) * level
