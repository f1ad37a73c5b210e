"""Bytes and times of collectives: what one training step asks of a NIC.

With n ranks, M the bytes of the model's gradients and B the rate of a NIC (Thakur, Rabenseifner and
Gropp 2005, doi 10.1177/1094342005051521):

- ring all-reduce: 2 (n - 1) / n M; reduce-scatter followed by all-gather the same
- tree all-reduce: 2 M log2 n on the longest path, without pipelining
- hierarchical all-reduce: the ring of a server's g GPUs inside, then rings of M / g between servers
- all-to-all: (n - 1) / n D of the D bytes that a rank exchanges
- pipeline: the activations of a micro-batch, forth and back, for each micro-batch
- mixture of experts: all-to-all twice forth and twice back in each of its layers, within ep ranks
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Pattern = Literal["local", "ring", "tree", "all-to-all", "pipeline", "experts"]
Collective = Literal["ring", "tree", "hierarchical", "reduce-scatter", "all-to-all"]


def ring(n: int, size: float) -> float:
    """B that each rank sends in a ring all-reduce of `size` B."""
    return 2.0 * (n - 1) / n * size


def tree(n: int, size: float) -> float:
    """B on the longest path of a tree all-reduce, one after the other."""
    return 2.0 * size * math.log2(n) if n > 1 else 0.0


def hierarchical(n: int, size: float, per_server: int) -> float:
    """B that each rank sends between servers: rings over the servers, one for each GPU of a server."""
    servers = max(1, -(-n // per_server))
    return ring(servers, size / min(n, per_server))


def all_to_all(n: int, size: float) -> float:
    """B that each rank sends of the `size` B that it exchanges with all."""
    return (n - 1) / n * size


@dataclass(frozen=True, slots=True)
class Training:
    """A training job as its owner describes it."""

    model: float  # B of gradients in the whole model
    compute: float  # s of a step without communication
    steps: int
    dp: int = 1  # data-parallel replicas
    tp: int = 1  # ranks that share each layer
    pp: int = 1  # stages of the pipeline
    ep: int = 1  # ranks that share the experts of a layer
    batch: int = 1  # micro-batches of a step
    activations: float = 0.0  # B between two stages in one micro-batch; embeddings of a rank in all-to-all
    layers: int = 1  # with experts
    overlap: float = 0.0  # part of the communication that can hide behind computing
    collective: Collective = "ring"
    rails: int = 8  # parallel rings

    @property
    def ranks(self) -> int:
        """GPUs: replicas x stages x ranks of a layer."""
        return self.dp * self.tp * self.pp


def pattern(job: Training) -> Pattern:
    """What the traffic across leaves looks like: that of the widest dimension; tp stays inside servers."""
    if job.ep > 1:
        return "experts"
    if job.collective == "all-to-all":
        return "all-to-all"
    if job.dp > 1:
        return "tree" if job.collective == "tree" else "ring"
    return "pipeline" if job.pp > 1 else "local"


def step_bytes(job: Training, per_server: int = 8) -> float:
    """B that the busiest NIC of the job sends in one step."""
    shard = job.model / (job.tp * job.pp)
    sent = 0.0
    if job.collective == "all-to-all":
        sent += all_to_all(job.ranks, job.activations)
    elif job.dp > 1:
        if job.collective == "tree":
            sent += tree(job.dp, shard)
        elif job.collective == "hierarchical":
            sent += hierarchical(job.dp, shard, per_server)
        else:  # reduce-scatter and all-gather move as much as the ring does
            sent += ring(job.dp, shard)
    if job.pp > 1:
        sent += 2.0 * job.batch * job.activations
    if job.ep > 1:
        sent += 4.0 * job.layers * all_to_all(job.ep, job.activations)
    return sent


def step_time(compute: float, network: float, overlap: float) -> float:
    """s of a step: max(c, o t) + (1 - o) t, where `overlap` o of the communication t hides behind c."""
    return max(compute, overlap * network) + (1.0 - overlap) * network


def network_time(job: Training, rate: float, per_server: int = 8) -> float:
    """s of a step's communication at the full `rate` (bit/s) of a NIC; C rails carry 1/C of a ring each."""
    lanes = (
        min(job.rails, max(1, job.ranks))
        if pattern(job) in ("ring", "tree") and job.collective != "hierarchical"
        else 1
    )
    return 8.0 * step_bytes(job, per_server) / (rate * lanes)
