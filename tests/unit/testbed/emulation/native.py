"""The compiled switch behind the methods of the Python one, so that both can be asked the same."""

from __future__ import annotations

import ctypes
from functools import cache

from cosim.contract.link import INTEGERS
from cosim.testbed.emulation import compiled
from cosim.testbed.emulation.protocol import PairCount

WRITE = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32)
NEVER = 2**64 - 1


class Count(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("frames", "bytes", "lost", "dropped")]


class State(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in INTEGERS]


class Totals(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "received",
            "delivered",
            "lost",
            "refused",
            "undelivered",
            "overflowed",
            "lag_sum",
            "lag_max",
            "lag_count",
            "lag_at",
        )
    ]


@cache
def library():
    path = compiled.build(["switch.c"], "switch.so", ["-shared", "-fPIC", "-Werror", "-Wconversion"])
    found = ctypes.CDLL(str(path))
    u64, u32, i32, pointer, text = ctypes.c_uint64, ctypes.c_uint32, ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p
    found.switch_new.argtypes, found.switch_new.restype = [u64, u64, WRITE, pointer], pointer
    found.switch_free.argtypes = [pointer]
    found.switch_attach.argtypes = [pointer, u32, text]
    found.switch_detach.argtypes = [pointer, u32]
    found.switch_cell.argtypes = [pointer, u32, ctypes.c_bool]
    found.switch_channel.argtypes = [pointer, u32, i32]
    found.switch_link.argtypes = [pointer, u32, u32, ctypes.POINTER(State), u64]
    found.switch_link.restype = ctypes.c_bool
    found.switch_offer.argtypes = [pointer, u64, u32, text, u32]
    found.switch_deliver.argtypes = [pointer, u64]
    found.switch_next.argtypes, found.switch_next.restype = [pointer], u64
    found.switch_waiting.argtypes, found.switch_waiting.restype = [pointer], ctypes.c_size_t
    found.switch_counts.argtypes, found.switch_counts.restype = [pointer], ctypes.POINTER(Totals)
    found.switch_changed.argtypes = [pointer, *(ctypes.POINTER(kind) for kind in (u32, u32, Count))]
    found.switch_changed.restype = ctypes.c_bool
    return found


class NativeSwitch:
    def __init__(self, write, seed=0, wait=1_000_000_000):
        self._library = library()
        self._write = WRITE(lambda _, port, frame, length: write(port, ctypes.string_at(frame, length)))
        self._switch = self._library.switch_new(seed, wait, self._write, None)

    def __del__(self):
        self._library.switch_free(self._switch)

    def attach(self, port, mac):
        self._library.switch_attach(self._switch, port, mac)

    def detach(self, port):
        self._library.switch_detach(self._switch, port)

    def channel(self, port, channel):
        self._library.switch_channel(self._switch, port, channel)

    def cell(self, port, cell):
        self._library.switch_cell(self._switch, port, cell)

    def link(self, sender, receiver, delay, jitter, loss, rate, limit, burst=0, reorder=0, duplicate=0):
        state = State(rate, delay // 1000, jitter // 1000, loss, burst, reorder, duplicate)
        assert self._library.switch_link(self._switch, sender, receiver, state, limit)

    def offer(self, now, sender, frame):
        self._library.switch_offer(self._switch, now, sender, frame, len(frame))

    def deliver(self, now):
        self._library.switch_deliver(self._switch, now)

    def next(self):
        due = self._library.switch_next(self._switch)
        return None if due == NEVER else due

    def waiting(self):
        return self._library.switch_waiting(self._switch)

    def changed(self):
        found, count = {}, Count()
        sender, receiver = ctypes.c_uint32(), ctypes.c_uint32()
        while self._library.switch_changed(self._switch, sender, receiver, count):
            found[sender.value, receiver.value] = PairCount(count.frames, count.bytes, count.lost, count.dropped)
        return found

    def __getattr__(self, name):
        return getattr(self._library.switch_counts(self._switch).contents, name)
