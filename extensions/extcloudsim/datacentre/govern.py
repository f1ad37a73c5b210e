"""Operating points: which clock and voltage each host takes for the next period."""

from __future__ import annotations

import numpy as np

from cosim.contract.records import Floats, Ints
from cosim.extensions.extcloudsim.datacentre.layout import CUBIC, TABLE, Bools, Hosts, Kinds, Machines


def loads(hosts: Hosts, kinds: Kinds, machines: Machines, at: Ints, demand: Floats) -> Floats:
    """(hosts, points) load that each host would have at each point, the slow-down included; inf where no point is."""
    n_hosts, points = len(hosts.kind), kinds.frequency.shape[1]
    there = np.flatnonzero(at >= 0)
    host = at[there]
    share = demand[there] / hosts.mips[host]
    made = np.empty((n_hosts, points))
    for point in range(points):
        slow = kinds.slowdown[hosts.kind[host], machines.work[there], point]
        made[:, point] = np.bincount(host, share * slow, n_hosts)
    made[np.arange(points)[None, :] >= kinds.points[hosts.kind][:, None]] = np.inf
    return made


def powers(hosts: Hosts, kinds: Kinds, load: Floats) -> Floats:
    """(hosts, points) W at these loads; inf where no point is."""
    kind = hosts.kind
    u = np.minimum(1.0, load)
    law = kinds.law[kind][:, None]
    watts = kinds.idle[kind] + kinds.span[kind] * np.where(law == CUBIC, u**3, u)
    if np.any(law == TABLE):
        steps = kinds.table.shape[1] - 1
        x = u * steps
        i = np.minimum(x.astype(np.int64), steps - 1)
        table = kinds.table[kind]
        low = np.take_along_axis(table, i, 1)
        watts = np.where(law == TABLE, low + (np.take_along_axis(table, i + 1, 1) - low) * (x - i), watts)
    return np.where(np.isfinite(load), watts, np.inf)


def top(hosts: Hosts, kinds: Kinds) -> Ints:
    """The highest point of each host."""
    return kinds.points[hosts.kind] - 1


def lowest_below(load: Floats, highest: Ints, threshold: float) -> Ints:
    """`ondemand`: the lowest point whose load is below the threshold, else the highest."""
    below = load < threshold
    return np.where(below.any(axis=1), below.argmax(axis=1), highest)


def least_cost(load: Floats, watts: Floats, threshold: float, price: Floats, stake: Floats) -> Ints:
    """`cost`: the point of least cost of energy and expected penalty.

    price (hosts,) currency/J, stake (hosts,) currency/s that the machines' service levels are worth.
    The penalty of a host asked for L > 1 is the part (L - 1) / L of its stake. Points below the
    threshold come first; a host without any may take all, so the penalty decides.
    """
    missing = np.where(np.isfinite(load), np.maximum(0.0, 1.0 - 1.0 / np.maximum(load, 1.0)), 0.0)
    cost = watts * price[:, None] + missing * stake[:, None]
    below: Bools = np.less(load, threshold)
    allowed = np.where(below.any(axis=1, keepdims=True), below, np.isfinite(load))
    return np.asarray(np.argmin(np.where(allowed, cost, np.inf), axis=1), np.int64)


def within_caps(point: Ints, load: Floats, watts: Floats, stake: Floats, place: Ints, cap: Floats) -> Ints:
    """Points lowered until each place draws no more than its cap, or nothing is left that saves power.

    point (hosts,), load and watts (hosts, points), stake (hosts,) currency/s, place (hosts,), cap (places,) W.
    Each step takes the host and the lower point with the least expected penalty per W saved, where a host
    asked for L > 1 owes the part 1 - 1 / L of its stake; equal ones by the most W saved.
    """
    made = point.copy()
    lost = np.where(np.isfinite(load), np.maximum(0.0, 1.0 - 1.0 / np.maximum(load, 1.0)), 0.0) * stake[:, None]
    for here in np.flatnonzero(np.isfinite(cap)):
        hosts = np.flatnonzero(place == here)
        rows = np.arange(len(hosts))
        below = np.arange(watts.shape[1])[None, :]
        while watts[hosts, made[hosts]].sum() > cap[here]:
            now = made[hosts]
            saved = watts[hosts][rows, now][:, None] - watts[hosts]
            useful = (below < now[:, None]) & (saved > 1e-12)
            if not useful.any():
                break
            worse = np.maximum(0.0, lost[hosts] - lost[hosts][rows, now][:, None])
            price = np.where(useful, worse / np.where(useful, saved, 1.0), np.inf)
            cheapest = useful & (price <= price.min() * (1.0 + 1e-12))
            host, lower = np.unravel_index(np.argmax(np.where(cheapest, saved, -np.inf)), saved.shape)
            made[hosts[host]] = lower
    return made
