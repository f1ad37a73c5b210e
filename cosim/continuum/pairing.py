"""Heaps of tasks by (tag, serial), linked through the task rows: pairing heaps.

Insertion is O(1), taking any task out O(log k) amortised, and there is no memory besides the three
link fields of a task (Fredman, Sedgewick, Sleator, Tarjan 1986, doi 10.1007/BF01840439). `prev` is
the parent of a first child and the left neighbour of the others.
"""

from __future__ import annotations

from cosim.continuum import memory
from cosim.continuum.jit import jit
from cosim.continuum.layout import Record


@jit
def meld(s: Record, a: int, b: int) -> int:
    """Join two heaps by their roots; the new root."""
    ta, tb = memory.task(s.tasks, a).tag, memory.task(s.tasks, b).tag
    if tb < ta or (tb == ta and memory.task(s.tasks, b).serial < memory.task(s.tasks, a).serial):
        a, b = b, a
    first = memory.task(s.tasks, a).child
    memory.task(s.tasks, b).prev = a
    memory.task(s.tasks, b).next = first
    if first >= 0:
        memory.task(s.tasks, first).prev = b
    memory.task(s.tasks, a).child = b
    return a


@jit
def _gather(s: Record, first: int) -> int:
    """One heap of a list of siblings; -1 for none. Pairs from the left, then joins from the right."""
    stack = -1  # linked through prev
    while first >= 0:
        a = first
        b = memory.task(s.tasks, a).next
        if b >= 0:
            first = memory.task(s.tasks, b).next
            memory.task(s.tasks, a).next = -1
            memory.task(s.tasks, b).next = -1
            a = meld(s, a, b)
        else:
            first = -1
        memory.task(s.tasks, a).prev = stack
        stack = a
    if stack < 0:
        return -1
    root = stack
    stack = memory.task(s.tasks, root).prev
    while stack >= 0:
        below = memory.task(s.tasks, stack).prev
        root = meld(s, root, stack)
        stack = below
    memory.task(s.tasks, root).prev = -1
    memory.task(s.tasks, root).next = -1
    return root


@jit
def insert(s: Record, root: int, i: int) -> int:
    """Add task i; the new root."""
    memory.task(s.tasks, i).child = -1
    memory.task(s.tasks, i).next = -1
    memory.task(s.tasks, i).prev = -1
    return i if root < 0 else meld(s, root, i)


@jit
def remove(s: Record, root: int, i: int) -> int:
    """Take task i out; the new root, -1 when the heap is empty."""
    rest = _gather(s, memory.task(s.tasks, i).child)
    if i == root:
        return rest
    left, right = memory.task(s.tasks, i).prev, memory.task(s.tasks, i).next
    if memory.task(s.tasks, left).child == i:
        memory.task(s.tasks, left).child = right
    else:
        memory.task(s.tasks, left).next = right
    if right >= 0:
        memory.task(s.tasks, right).prev = left
    return root if rest < 0 else meld(s, root, rest)
