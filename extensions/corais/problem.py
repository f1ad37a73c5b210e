"""The problem: an instance, the response time of each edge under a decision, and bounds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import entry, part
from cosim.contract.records import Floats

Decision = NDArray[np.int64]  # (requests,) the edge that runs each request


class Instance(NamedTuple):
    """One decision of the scheduler of a region: its edges are the first `len(slope)` of all edges.

    Times are in s, sizes and places in units of the instance's own; the run time of input x at edge q is
    `slope[q] * x + offset[q]`, and one unit of data takes `transfer` s over one unit of distance.
    """

    place: Floats  # (all edges, 2)
    slope: Floats  # (edges,)
    offset: Floats  # (edges,)
    replicas: NDArray[np.int64]  # (edges,)
    own_work: Floats  # (edges,) s, accepted requests that run where they came in: eq. 1
    coming_work: Floats  # (edges,) s, accepted requests that come from other edges: eq. 3
    coming: Floats  # (edges,) s until the last of them is there: eq. 2
    leaving: Floats  # (edges,) s that the results of all accepted requests take to their users: eqs. 4 and 5
    source: NDArray[np.int64]  # (requests,) edge of the region where a request came in
    target: NDArray[np.int64]  # (requests,) edge, of all, where its result is wanted
    input: Floats  # (requests,)
    output: Floats  # (requests,)
    transfer: float

    @property
    def edges(self) -> int:
        """Edges of the region."""
        return len(self.slope)

    @property
    def requests(self) -> int:
        """Requests to be decided."""
        return len(self.source)

    @property
    def floor(self) -> float:
        """s; the makespan without any new request, below which no decision comes."""
        return float(np.max(np.maximum(self.own_work, self.coming) + self.coming_work + self.leaving))


def makespan(instance: Instance, decision: Decision) -> float:
    """s until the last request is answered, eq. 6: the largest response time over edges."""
    return float(np.max(responses(instance, decision)))


def responses(instance: Instance, decision: Decision) -> Floats:
    """(edges,) response time in s of every edge under `decision`, eq. 13; of several (K, requests), (K, edges).

    Raises `ValueError` for a decision that names no edge of the region.
    """
    chosen = np.ascontiguousarray(decision, np.int64)
    wrong = chosen.ndim not in (1, 2) or chosen.shape[-1] != instance.requests
    if wrong or np.any((chosen < 0) | (chosen >= instance.edges)):
        raise ValueError(f"a decision names one of {instance.edges} edges for each of {instance.requests} requests")
    found: Floats = _responses(np.atleast_2d(chosen), instance)
    return found.reshape(*chosen.shape[:-1], -1)


@part
def distance(place: Floats, a: int, b: int) -> float:
    """Between two edges."""
    return float(np.hypot(place[a, 0] - place[b, 0], place[a, 1] - place[b, 1]))


@part
def response(own: float, coming: float, arrival: float, leaving: float) -> float:
    """Eq. 13: a request that comes from elsewhere starts when it is there and what came in here is done."""
    return max(own, arrival) + coming + leaving


@entry()
def _responses(decisions: NDArray[np.int64], p: Instance) -> Floats:
    found = np.empty((len(decisions), len(p.slope)))
    for k in range(len(decisions)):
        own, other, arrival, last = p.own_work.copy(), p.coming_work.copy(), p.coming.copy(), p.leaving.copy()
        for z in range(len(p.source)):
            q = decisions[k, z]
            work = (p.slope[q] * p.input[z] + p.offset[q]) / p.replicas[q]
            if q == p.source[z]:
                own[q] += work
            else:
                other[q] += work
                arrival[q] = max(arrival[q], p.transfer * p.input[z] * distance(p.place, p.source[z], q))
            last[q] = max(last[q], p.transfer * p.output[z] * distance(p.place, q, p.target[z]))
        for q in range(len(p.slope)):
            found[k, q] = response(own[q], other[q], arrival[q], last[q])
    return found
