"""A cell's airtime and what its sharing costs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Flags, Floats
from cosim.physics.radio.pathloss import LIGHT

Ints = NDArray[np.integer[Any]]


def per_cell(cell: Ints, weight: Floats | Flags, cells: int) -> Floats:
    """Sums (cells,) of `weight` (n,) over the devices of each cell; `cell` (n,) is -1 for none."""
    return np.asarray(np.bincount(cell + 1, weights=weight, minlength=cells + 1)[1:], np.float64)


def shares(cell: Ints, transfers: Ints, cells: int) -> Floats:
    """Part of its cell's airtime (n,) that each device gets in one direction; equal among the active ones.

    `cell` (n,) is -1 for none and `transfers` (n,) counts the device's transfers under way. An idle
    device gets what it would have if it became active now. Without a cell the share is 0.
    """
    active = transfers > 0
    others = per_cell(cell, active, cells)
    competing = np.concatenate([others, [np.inf]])[cell] + ~active
    return np.asarray(1.0 / np.maximum(competing, 1.0))


def proportional_fair(cell: Ints, rate: Floats, cells: int, *, rounds: int = 100) -> tuple[Floats, Floats]:
    """Parts (n, B) of each block of its cell that each device gets, and its gain (n,) over equal parts of all blocks.

    `cell` (n,) >= 0 are those of active devices, `rate` (n, B) is what each would have on each block alone, 0 where
    its cell has no such block. The parts maximise the sum of log rates (Kelly 1997), found by `rounds` of
    proportional response (Wu and Zhang 2007): each device bids for blocks in proportion to what they brought. With one
    block, or blocks that are all alike, the parts are equal whatever the rates.
    """
    there = rate > 0.0
    bids = there / np.maximum(there.sum(axis=1, keepdims=True), 1)
    equal = rate.sum(axis=1)
    order = np.argsort(cell, kind="stable")
    starts = np.flatnonzero(np.concatenate([[True], np.diff(cell[order]) != 0])) if len(cell) else order
    row = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(cell))))
    got, parts = np.zeros(len(cell)), bids
    bids, rate = bids[order], rate[order]
    for _ in range(rounds if rate.shape[1] > 1 and len(cell) else min(len(cell), 1)):
        price = np.add.reduceat(bids, starts, axis=0)[row]
        parts = np.divide(bids, price, out=np.zeros_like(bids), where=price > 0.0)
        brought = rate * parts
        got = brought.sum(axis=1)
        bids = np.divide(brought, got[:, None], out=np.zeros_like(bids), where=got[:, None] > 0.0)
    back = np.argsort(order)
    if len(cell):
        parts, got = parts[back], got[back]
    others = per_cell(cell, np.ones(len(cell)), cells)[cell]
    return parts, np.divide(got * others, equal, out=np.ones(len(cell)), where=equal > 0.0)


def utilisation(cell: Ints, bits: Floats, rate: Floats, period: float, cells: int) -> Floats:
    """Part of the airtime (cells,) that moving `bits` (n,) within `period` s took at `rate` (n,) bit/s; at most 1."""
    airtime = np.divide(bits, rate * period, out=np.zeros(len(bits)), where=rate > 0)
    return np.minimum(per_cell(cell, airtime, cells), 1.0)


def queueing_delay(utilisation: Floats, service: Floats, limit: float) -> Floats:
    """Mean wait in s of an M/M/1 queue, S rho / (1 - rho), at most `limit` s.

    `utilisation` rho is taken at no more than 1, `service` S is the time in s to send one packet.
    """
    load = np.clip(utilisation, 0.0, 1.0)
    wait = np.divide(load * service, 1.0 - load, out=np.full(np.shape(load), np.inf), where=load < 1.0)
    return np.asarray(np.minimum(wait, limit))


def propagation_delay(distance: Floats) -> Floats:
    """Time in s that light needs for `distance` m."""
    return np.asarray(distance / LIGHT)
