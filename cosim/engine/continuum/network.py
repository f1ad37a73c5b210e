"""Access networks for runs without a radio adapter: who serves a device, at what rate and delay.

Pure functions of arrays. n devices and m access points; `cell` (n,) is the index of a device's access
point or -1 for none; `uploads` and `downloads` (n,) count a device's transfers under way. Rates are
those that all transfers of a device share, in bit/s. A device without a transfer gets what its first
one would have.
"""

from __future__ import annotations

import numpy as np

from cosim.contract.records import Floats, Ints
from cosim.engine.continuum.throughput import WAN_KBPS, WLAN_GAIN, WLAN_KBPS
from cosim.physics.radio import pathloss, power, sharing

_KBPS = 1e3  # bit/s


def distances(devices: Floats, points: Floats) -> Floats:
    """(n, m) m between devices (n, 3) and access points (m, 3)."""
    apart = devices[:, None, :] - points[None, :, :]
    return np.asarray(np.sqrt(np.einsum("nmk,nmk->nm", apart, apart)))


def nearest(distance: Floats, reach: float) -> Ints:
    """(n,) the nearest access point by `distance` (n, m), -1 when it is farther than `reach` m."""
    if distance.shape[1] == 0:
        return np.full(len(distance), -1, np.int64)
    best = distance.argmin(axis=1)
    return np.where(distance[np.arange(len(best)), best] <= reach, best, -1).astype(np.int64)


def strongest(level: Floats, least: float) -> Ints:
    """(n,) the access point with the highest `level` (n, m) dB, -1 when it is below `least`."""
    return nearest(-level, -least)


def per_point(cell: Ints, amount: Floats, points: int) -> Floats:
    """(m,) sums of `amount` (n,) over the devices of each access point."""
    return sharing.per_cell(cell, amount, points)


def measured(table: Floats, transfers: Floats) -> Floats:
    """bit/s that each of `transfers` (at least one) gets by a table of kbit/s over the number of the others.

    Beyond the table, where nothing was measured, the total of its end is shared.
    """
    count = np.maximum(transfers, 1.0)
    last = len(table)
    within = table[np.minimum(count, last).astype(np.int64) - 1]
    return np.asarray(np.where(count > last, table[-1] * last / count, within) * _KBPS)


def wlan(cell: Ints, uploads: Ints, downloads: Ints, points: int, gain: float = WLAN_GAIN) -> tuple[Floats, Floats]:
    """Uplink and downlink by measurements of 802.11n, times `gain` (3 for 802.11ac, 1 for 802.11n).

    Every transfer gets the throughput measured with as many transfers at the access point, up and
    down together as they share the channel (Sonmez, Ozgovde, Ersoy, IEEE TNSM 16(2), 2019). A device
    with k transfers in a direction gets k times that, so that transfers count and not devices.
    """
    there = np.append(per_point(cell, (uploads + downloads).astype(np.float64), points), 0.0)[cell]
    served = cell >= 0
    idle = (uploads + downloads) == 0
    each = measured(WLAN_KBPS, there + idle) * gain * served
    return each * np.maximum(uploads, 1), each * np.maximum(downloads, 1)


def wan(transfers: Floats) -> Floats:
    """bit/s that each of `transfers` on a wide-area link gets, by the same measurements."""
    return measured(WAN_KBPS, transfers)


def smoothed(load: Floats, sent: Floats, period: float, window: float) -> Floats:
    """A load in bit/s after another `period` s in which `sent` bits came, averaged over about `window` s."""
    kept = np.exp(-period / window)
    return np.asarray(kept * load + (1.0 - kept) * sent / period)


def queueing(load: Floats, rate: float, size: float, limit: float) -> Floats:
    """Mean wait in s of M/M/1, rho / (mu (1 - rho)), at most `limit`.

    `load` (bit/s) meets a server of `rate` bit/s with transfers of `size` bit. With the
    transmission at `rate` after it the mean is 1 / (mu - lambda), where mu = rate / size.
    """
    return sharing.queueing_delay(load / rate, np.asarray(size / rate), limit)


def shared(cell: Ints, transfers: Ints, points: int, rate: float | Floats) -> Floats:
    """`rate` bit/s of a cell, equally among its devices with transfers in this direction; 0 without a cell."""
    return np.asarray(rate * sharing.shares(cell, transfers, points) * (cell >= 0))


def snr(distance: Floats, frequency: Floats, exponent: float, budget: Floats) -> Floats:
    """dB over noise by the close-in law: `budget` (m,) dB is power and gains less noise; `frequency` (m,) Hz."""
    loss = np.empty_like(distance)
    for c in range(distance.shape[1]):
        loss[:, c] = pathloss.close_in(distance[:, c], float(frequency[c]), exponent)
    return np.asarray(budget - loss)


def shannon(level: Floats, bandwidth: Floats, efficiency: float) -> Floats:
    """bit/s of the whole cell at `level` dB over noise: efficiency x B log2(1 + SNR)."""
    return np.asarray(efficiency * bandwidth * np.log2(1.0 + power.milliwatts(level)))
