"""Heaps of tasks by (key, serial), linked through the task rows: pairing heaps.

Insertion is O(1), taking any task out O(log k) amortised, and there is no memory besides the three
link fields of a task (Fredman, Sedgewick, Sleator, Tarjan 1986, doi 10.1007/BF01840439). `prev` is
the parent of a first child and the left neighbour of the others.
"""

from __future__ import annotations

from collections.abc import Callable

from cosim.engine.continuum import memory
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import Record

Change = Callable[[Record, int, int], int]


@jit
def _tag(t: Record) -> float:
    return float(t.tag)


@jit
def _rank(t: Record) -> float:
    return float(t.rank)


def pairing(task: memory.Row, key: Callable[[Record], float] = _tag) -> tuple[Change, Change]:
    """Functions `insert` and `remove` for the rows `task(s.tasks, i)` with `key`, serial, child, prev, next."""

    @jit
    def meld(s: Record, a: int, b: int) -> int:
        """Join two heaps by their roots; the new root."""
        ra, rb = task(s.tasks, a), task(s.tasks, b)
        ta, tb = key(ra), key(rb)
        if tb < ta or (tb == ta and rb.serial < ra.serial):
            a, b = b, a
            ra, rb = rb, ra
        first = ra.child
        rb.prev, rb.next = a, first
        if first >= 0:
            task(s.tasks, first).prev = b
        ra.child = b
        return a

    @jit
    def gather(s: Record, first: int) -> int:
        """One heap of a list of siblings; -1 for none. Pairs from the left, then joins from the right."""
        stack = -1  # linked through prev
        if first >= 0 and task(s.tasks, first).next < 0:  # the most frequent case
            task(s.tasks, first).prev = -1
            return first
        while first >= 0:
            a = first
            b = task(s.tasks, a).next
            if b >= 0:
                first = task(s.tasks, b).next
                a = meld(s, a, b)
            else:
                first = -1
            task(s.tasks, a).prev = stack
            stack = a
        if stack < 0:
            return -1
        root = stack
        stack = task(s.tasks, root).prev
        while stack >= 0:
            below = task(s.tasks, stack).prev
            root = meld(s, root, stack)
            stack = below
        task(s.tasks, root).prev = -1
        task(s.tasks, root).next = -1
        return root

    @jit
    def insert(s: Record, root: int, i: int) -> int:
        """Add task i; the new root."""
        t = task(s.tasks, i)
        t.child = t.next = t.prev = -1
        return i if root < 0 else meld(s, root, i)

    @jit
    def remove(s: Record, root: int, i: int) -> int:
        """Take task i out; the new root, -1 when the heap is empty."""
        t = task(s.tasks, i)
        rest = gather(s, t.child)
        if i == root:
            return rest
        left, right = t.prev, t.next
        if task(s.tasks, left).child == i:
            task(s.tasks, left).child = right
        else:
            task(s.tasks, left).next = right
        if right >= 0:
            task(s.tasks, right).prev = left
        return root if rest < 0 else meld(s, root, rest)

    return insert, remove


insert, remove = pairing(memory.task)
insert_by_rank, remove_by_rank = pairing(memory.task, _rank)


@jit
def next_in_walk(s: Record, root: int, i: int) -> int:
    """The task after i in a walk over a heap that begins at its root; -1 after the last one."""
    t = memory.task(s.tasks, i)
    if t.child >= 0:
        return int(t.child)
    while i != root:
        t = memory.task(s.tasks, i)
        if t.next >= 0:
            return int(t.next)
        while memory.task(s.tasks, t.prev).child != i:  # to the first of the siblings
            i = t.prev
            t = memory.task(s.tasks, i)
        i = t.prev
    return -1
