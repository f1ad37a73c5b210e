"""The line of waiting jobs, linked through their rows."""

from __future__ import annotations

from cosim.compiled.compiling import part
from cosim.extensions.gpu_cluster.cluster.engine import layout as l
from cosim.extensions.gpu_cluster.cluster.engine import rows as r
from cosim.extensions.gpu_cluster.cluster.engine.rows import Record


@part
def insert(s: Record, j: int) -> None:
    """Put job j in line by its key, behind equals."""
    r.job(s.job, j).state = l.WAITING
    at = s.last
    while at >= 0 and (
        r.job(s.job, at).key > r.job(s.job, j).key or (r.job(s.job, at).key == r.job(s.job, j).key and at > j)
    ):
        at = r.job(s.job, at).before
    after = s.first if at < 0 else r.job(s.job, at).next
    r.job(s.job, j).before, r.job(s.job, j).next = at, after
    if at < 0:
        s.first = j
    else:
        r.job(s.job, at).next = j
    if after < 0:
        s.last = j
    else:
        r.job(s.job, after).before = j
    s.waiting += 1


@part
def leave(s: Record, j: int) -> None:
    """Take waiting job j out."""
    job = r.job(s.job, j)
    if job.before < 0:
        s.first = job.next
    else:
        r.job(s.job, job.before).next = job.next
    if job.next < 0:
        s.last = job.before
    else:
        r.job(s.job, job.next).before = job.before
    s.waiting -= 1


@part
def front(s: Record, j: int) -> None:
    """Put waiting job j first in line, as decided."""
    job = r.job(s.job, j)
    job.decided = 1
    if s.first != j:
        key = min(job.key, r.job(s.job, s.first).key)
        leave(s, j)
        job.key = key
        job.before, job.next = l.NONE, s.first
        if s.first >= 0:
            r.job(s.job, s.first).before = j
        else:
            s.last = j
        s.first = j
        s.waiting += 1
    s.stuck = l.NONE
