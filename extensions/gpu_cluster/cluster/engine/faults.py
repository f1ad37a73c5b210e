"""What breaks and is repaired: GPUs, leaves and uplinks."""

from __future__ import annotations

from cosim.compiled.compiling import part
from cosim.extensions.gpu_cluster.cluster.engine import layout as l
from cosim.extensions.gpu_cluster.cluster.engine import rows as r
from cosim.extensions.gpu_cluster.cluster.engine import wire
from cosim.extensions.gpu_cluster.cluster.engine.rows import Record
from cosim.extensions.gpu_cluster.cluster.engine.work import allocation, restart


@part
def _users(s: Record, gpu: int) -> None:
    """Restart every job that uses a GPU."""
    if r.gpu(s.gpu, gpu).owner >= 0:
        restart(s, r.gpu(s.gpu, gpu).owner)
    elif r.gpu(s.gpu, gpu).milli < l.WHOLE:
        j = s.head
        while j >= 0:
            after = r.job(s.job, j).next
            if r.job(s.job, j).milli < l.WHOLE and r.job(s.job, j).head == gpu:
                restart(s, j)
            j = after


@part
def gpu_down(s: Record, gpu: int) -> None:
    """Take a GPU out of order, for one more cause."""
    r.gpu(s.gpu, gpu).down += 1
    if r.gpu(s.gpu, gpu).down > 1:
        return
    x = gpu // s.per_server
    bit = 1 << (gpu - x * s.per_server)
    if r.server(s.server, x).mask & bit:
        r.server(s.server, x).mask ^= bit
        r.server(s.server, x).free -= 1
        r.leaf(s.leaf, r.server(s.server, x).leaf).free -= 1
        s.free -= 1
    else:
        _users(s, gpu)
    s.down += 1
    r.server(s.server, x).failed += 1


@part
def gpu_up(s: Record, gpu: int) -> None:
    """Take one cause away; without any the GPU is free again."""
    if r.gpu(s.gpu, gpu).down == 0:
        return
    r.gpu(s.gpu, gpu).down -= 1
    if r.gpu(s.gpu, gpu).down == 0:
        x = gpu // s.per_server
        r.server(s.server, x).mask |= 1 << (gpu - x * s.per_server)
        r.server(s.server, x).free += 1
        r.leaf(s.leaf, r.server(s.server, x).leaf).free += 1
        s.free += 1
        s.down -= 1
        r.server(s.server, x).failed -= 1
        s.stuck = l.NONE


@part
def happen(s: Record, kind: int, target: int) -> None:
    """A fault or a repair now."""
    if kind == l.FAIL_GPU:
        gpu_down(s, target)
    elif kind == l.REPAIR_GPU:
        gpu_up(s, target)
    elif kind in (l.FAIL_LEAF, l.REPAIR_LEAF):
        first = r.leaf(s.leaf, target).first * s.per_server
        for gpu in range(first, first + r.leaf(s.leaf, target).servers * s.per_server):
            if kind == l.FAIL_LEAF:
                gpu_down(s, gpu)
            else:
                gpu_up(s, gpu)
    else:
        _port_happens(s, kind, target)
    s.stuck = l.NONE


@part
def _port_happens(s: Record, kind: int, target: int) -> None:
    port = r.port(s.port, target)
    if kind == l.FAIL_PORT:
        port.down += 1
        if port.down > 1:
            return
        s.ports_down += 1
        if port.holder < 0:
            wire.free_port(s, target, -1)
            _too_few(s, port.leaf)
        else:
            restart(s, port.holder)
        if port.mate >= 0:
            r.port(s.port, port.mate).mate = l.NONE
            port.mate = l.NONE
    elif port.down > 0:
        port.down -= 1
        if port.down == 0:
            wire.free_port(s, target, 1)
            s.ports_down -= 1


@part
def _too_few(s: Record, k: int) -> None:
    """Restart jobs that lack an uplink into the spine now that leaf k has one less, the latest one first."""
    while r.leaf(s.leaf, k).up < 0:
        j, found = s.head, l.NONE
        while j >= 0:
            job = r.job(s.job, j)
            if job.leaves > 1 and job.pattern != l.LOCAL and (found < 0 or job.latest > r.job(s.job, found).latest):
                m = allocation(s, j)
                for i in range(m):
                    if r.cell(s, l.AT, i).v == k:
                        found = j
            j = job.next
        if found < 0:
            return
        restart(s, found)
