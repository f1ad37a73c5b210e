"""An adapter that keeps the contract, or breaks it at its third step in the way that it is asked for.

It owns the fleet `car` and writes `mobility` and `gauge`, which another adapter, `witness`, reads.
"""

from __future__ import annotations

import asyncio
import ctypes
import locale
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from cosim.contract.adapter import AdapterConfig, AdapterKind, Context, Inputs, Ports, Read, Summary
from cosim.contract.errors import AdapterError, Problem, ProtocolError, RunError, ScenarioError, SetupError
from cosim.contract.frame import Frame, SlotTable
from cosim.contract.signals import Column, Signal
from cosim.contract.trust import Words

CARS, TICK = 3, 3
PLACE = ("x", "y", "z", "speed", "heading")
LONG = 1000.0  # s


class Config(AdapterConfig):
    mode: Words = "honest"
    at: Literal["build", "start", "step", "finish", "close"] = "step"


class Hostile:
    def __init__(self, config: Config) -> None:
        self._config, self._steps = config, 0
        self._kept: list[object] = []
        self._now("build")

    def start(self, context: Context) -> None:
        self._first = next(f.first for f in context.scene.fleets if f.template.id == "car")
        self._now("start")

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        self._steps += 1
        frames = honest(self._first, self._steps, time)
        if self._config.at == "step" and self._steps == TICK:
            self._now("step")
            frames = ANSWERS.get(self._config.mode, lambda found: found)(frames)
        return frames

    def finish(self) -> Summary:
        self._now("finish")
        return SUMMARIES.get(self._config.mode, {"steps": self._steps})

    def close(self) -> None:
        self._now("close")

    def _now(self, where: str) -> None:
        if where == self._config.at and self._config.mode in DEEDS:
            self._kept.append(DEEDS[self._config.mode]())


class Witness:
    """What an adapter of anybody does: warn, compute with zeros, recurse, read the working directory."""

    def __init__(self, _: AdapterConfig) -> None:
        self.total = 0.0

    def start(self, context: Context) -> None: ...

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        warnings.warn("nothing to worry about", DeprecationWarning, stacklevel=1)
        np.zeros(2) / np.zeros(2)
        depth(150)
        for frame in inputs.all("gauge"):
            self.total += float(frame["value"].sum())
        return []

    def finish(self) -> Summary:
        return {"total": self.total}

    def close(self) -> None: ...


def depth(n: int) -> int:
    return 0 if n == 0 else 1 + depth(n - 1)


def honest(first: int, steps: int, time: float) -> list[Frame]:
    slot = np.arange(first, first + CARS, dtype=np.int32)
    table = SlotTable(first, ("a", "b", "c"), np.zeros(CARS, np.int32), 1)
    gauge = {"value": np.arange(CARS) + time, "share": np.full(CARS, 0.5, np.float32),
             "count": np.arange(CARS) + steps, "kind": np.zeros(CARS, np.int8)}  # fmt: skip
    return [
        Frame("mobility", time, slot, {name: np.full(CARS, 1.0 + time) for name in PLACE}, table),
        Frame("gauge", time, slot.copy(), gauge),
    ]


# -- what it may do to its frames -----------------------------------------------------------------


class TwoFaced(dict[str, Any]):
    """A mapping whose second answer differs."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        super().__init__(columns)
        self.asked = 0

    def __getitem__(self, name: str) -> Any:
        self.asked += 1
        found = super().__getitem__(name)
        return found if self.asked <= len(self) else found * np.nan

    def items(self) -> Any:
        return [(name, self[name]) for name in self]

    def values(self) -> Any:
        return [self[name] for name in self]


class Endless(dict[str, Any]):
    def __iter__(self) -> Any:
        while True:
            yield from ("value", "share", "count", "kind")

    keys = __iter__


class Falling(dict[str, Any]):
    def __getitem__(self, name: str) -> Any:
        raise MemoryError("not now")


class Later(np.ndarray[Any, Any]):
    """A kind of array of its own."""


def gauge(**changes: Any) -> Callable[[list[Frame]], list[Frame]]:
    def spoil(frames: list[Frame]) -> list[Frame]:
        for name, change in changes.items():
            frames[1].columns = {**frames[1].columns, name: change(frames[1].columns[name])}
        return frames

    return spoil


def set_(attribute: str, make: Callable[[Any], Any], index: int = 1) -> Callable[[list[Frame]], list[Frame]]:
    def spoil(frames: list[Frame]) -> list[Frame]:
        setattr(frames[index], attribute, make(getattr(frames[index], attribute)))
        return frames

    return spoil


def table(**changes: Any) -> Callable[[list[Frame]], list[Frame]]:
    return set_("table", lambda old: replace(old, **changes), 0)


def put(row: int, value: float) -> Callable[[Any], Any]:
    def change(values: Any) -> Any:
        values = values.copy()
        values[row] = value
        return values

    return change


def rewritten(frames: list[Frame]) -> list[Frame]:
    """A thread goes on writing into what was returned."""
    values = frames[1].columns["value"]

    def write() -> None:
        for _ in range(200):
            values[:] = np.nan
            time.sleep(0.0005)

    threading.Thread(target=write, daemon=True).start()
    return frames


def by_address(frames: list[Frame]) -> list[Frame]:
    """A constant array whose memory is written to by its address, soon."""
    values = np.frombuffer(frames[1].columns["value"].tobytes())
    frames[1].columns = {**frames[1].columns, "value": values}
    threading.Timer(0.005, lambda: ctypes.memset(values.ctypes.data, 255, values.nbytes)).start()
    return frames


ANSWERS: Mapping[str, Callable[[list[Frame]], Any]] = {
    "nothing": lambda f: None, "no frames": lambda f: [], "one frame": lambda f: f[:1], "a frame": lambda f: f[1],
    "twice the same": lambda f: [f[1], f[1]], "three": lambda f: [*f, f[1]], "generator": lambda f: (x for x in f),
    "set": lambda f: set(f), "dict": lambda f: {x.signal: x for x in f}, "text": lambda f: "mobility gauge",
    "other order": lambda f: f[::-1], "tuple": tuple, "mappings": lambda f: [x.columns for x in f],
    "unknown signal": set_("signal", lambda s: "gouge"), "signal of bytes": set_("signal", lambda s: s.encode()),
    "signal a list": set_("signal", lambda s: [s]), "signal None": set_("signal", lambda s: None),
    "two-faced columns": set_("columns", TwoFaced), "endless columns": set_("columns", Endless),
    "failing columns": set_("columns", Falling), "columns None": set_("columns", lambda c: None),
    "columns a list": set_("columns", lambda c: list(c.values())),
    "a column more": set_("columns", lambda c: {**c, "more": c["value"]}),
    "a column less": set_("columns", lambda c: {k: v for k, v in c.items() if k != "share"}),
    "a column renamed": set_("columns", lambda c: {k.replace("share", "part"): v for k, v in c.items()}),
    "names of bytes": set_("columns", lambda c: {k.encode(): v for k, v in c.items()}),
    "a list": gauge(value=list), "a scalar": gauge(value=lambda v: 1.0), "None": gauge(value=lambda v: None),
    "masked": gauge(value=np.ma.masked_array), "subclass": gauge(value=lambda v: v.view(Later)),
    "matrix": gauge(value=lambda v: v.reshape(-1, 1)), "short": gauge(value=lambda v: v[:2]),
    "long": gauge(value=lambda v: np.append(v, 1.0)), "empty": gauge(value=lambda v: v[:0]),
    "strided": gauge(value=lambda v: np.repeat(v, 2)[::2]), "float32": gauge(value=lambda v: v.astype(np.float32)),
    "other end first": gauge(value=lambda v: v.astype(">f8")), "complex": gauge(value=lambda v: v + 0j),
    "objects": gauge(value=lambda v: v.astype(object)), "texts": gauge(value=lambda v: v.astype(str)),
    "dates": gauge(value=lambda v: v.astype("i8").astype("M8[s]")), "bools": gauge(value=lambda v: v > 0),
    "NaN": gauge(value=put(1, np.nan)), "infinite": gauge(value=put(2, np.inf)),
    "minus infinite": gauge(value=put(0, -np.inf)), "share above 1": gauge(share=put(0, 1.5)),
    "share below 0": gauge(share=put(2, -0.1)), "share NaN": gauge(share=put(1, np.nan)),
    "code unknown": gauge(kind=put(1, 2)), "code below": gauge(kind=put(1, -2)),
    "counter falls": gauge(count=put(1, 0)), "all counters fall": gauge(count=np.zeros_like),
    "counter below 0": gauge(count=put(0, -1)), "counter of floats": gauge(count=lambda v: v.astype(float)),
    "slots a list": set_("slot", list), "slots of 64 bits": set_("slot", lambda s: s.astype(np.int64)),
    "slot twice": set_("slot", put(1, 1)), "slot below": set_("slot", put(0, -1)),
    "slot above": set_("slot", put(0, 99)),
    "slots None": set_("slot", lambda s: None), "slots of two dimensions": set_("slot", lambda s: s.reshape(1, -1)),
    "time early": set_("time", lambda t: t - 1.0), "time late": set_("time", lambda t: t + 1.0),
    "time NaN": set_("time", lambda t: float("nan")), "time None": set_("time", lambda t: None),
    "time a text": set_("time", str), "time an array": set_("time", lambda t: np.array([t, t])),
    "no table": set_("table", lambda t: None, 0), "table a dict": set_("table", lambda t: {"ids": t.ids}, 0),
    "ids of bytes": table(ids=(b"a", b"b", b"c"), epoch=2), "ids of numbers": table(ids=(1, 2, 3), epoch=2),
    "ids None": table(ids=(None, "b", "c"), epoch=2), "ids unhashable": table(ids=([], "b", "c"), epoch=2),
    "id of a node": table(ids=("mast", "b", "c"), generation=np.array([1, 0, 0], np.int32), epoch=2),
    "id of another fleet": table(ids=("b-1", "b", "c"), generation=np.array([1, 0, 0], np.int32), epoch=2),
    "ids twice": table(ids=("b", "b", "c"), generation=np.array([1, 0, 0], np.int32), epoch=2),
    "id of half a letter": table(ids=("a\udcff", "b", "c"), generation=np.array([1, 0, 0], np.int32), epoch=2),
    "id without generation": table(ids=("d", "b", "c"), epoch=2), "id without epoch": table(ids=("d", "b", "c")),
    "ids too many": table(ids=tuple("abcdefgh"), generation=np.zeros(8, np.int32), epoch=2),
    "ids too few": table(ids=("a",), generation=np.zeros(1, np.int32), epoch=2),
    "table of others": table(first=0), "generations a list": table(generation=[0, 0, 0], epoch=2),
    "generations of floats": table(generation=np.zeros(3), epoch=2), "epoch a text": table(epoch="two"),
    "rewritten later": rewritten, "rewritten by address": by_address,
}  # fmt: skip
SUMMARIES: Mapping[str, Any] = {
    "summary None": None, "summary a list": [1], "summary of sets": {"a": {1}},
    "summary of surrogates": {"a": "\udcff"},
    "summary endless": {"a": 10**5000},
}  # fmt: skip


# -- what it may do to the process ----------------------------------------------------------------


class Mute(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def throw(error: BaseException) -> Callable[[], None]:
    def raise_it() -> None:
        raise error

    return raise_it


def endless() -> None:
    endless()


def fork() -> None:
    os.fork()


def fork_and_leave() -> None:
    if os.fork() == 0:
        os._exit(0)


def descriptors() -> list[int]:
    found = []
    try:
        while True:
            found.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return found


def limit(what: int, value: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(what, (value, resource.getrlimit(what)[1]))


def open_threads() -> None:
    for _ in range(20):
        threading.Thread(target=time.sleep, args=(LONG,), daemon=True).start()


ERRORS: Mapping[str, BaseException] = {
    "ValueError": ValueError("the moon"), "OSError": OSError(28, "the moon is full"), "KeyError": KeyError("moon"),
    "AssertionError": AssertionError(), "StopIteration": StopIteration("moon"), "RuntimeError": RuntimeError("moon"),
    "MemoryError": MemoryError(), "RecursionError": RecursionError("moon"), "SystemExit 0": SystemExit(0),
    "SystemExit": SystemExit("moon"), "KeyboardInterrupt": KeyboardInterrupt(), "GeneratorExit": GeneratorExit(),
    "CancelledError": asyncio.CancelledError(), "no words": Mute(), "surrogates": ValueError("\udcff\x1b[31m"),
    "RunError": RunError("the moon is in the way"), "SetupError": SetupError("install the moon"),
    "ScenarioError": ScenarioError(Problem("no moon", "nodes.moon")), "ProtocolError": ProtocolError("moon"),
    "AdapterError of another": AdapterError("moon", adapter="witness", phase="step", time=1.0),
    "Exceptions": ExceptionGroup("moons", [ValueError("one"), KeyError("two")]), "Warning": DeprecationWarning("moon"),
}  # fmt: skip
DEEDS: Mapping[str, Callable[[], object]] = {
    **{name: throw(error) for name, error in ERRORS.items()},
    "recursion": endless, "fork": fork, "fork and leave": fork_and_leave, "threads": open_threads,
    "print": lambda: print("chatter"), "print to 1": lambda: os.write(1, b"chatter\n"),  # noqa: T201
    "chdir": lambda: os.chdir("/"), "umask": lambda: os.umask(0o077),
    "seed": lambda: (random.seed(1), np.random.seed(1)),  # noqa: NPY002
    "errors of numpy": lambda: np.seterr(all="raise"), "warnings are errors": lambda: warnings.simplefilter("error"),
    "no recursion": lambda: sys.setrecursionlimit(120), "locale": lambda: locale.setlocale(locale.LC_ALL, "C"),
    "environment": os.environ.clear, "default timeout": lambda: socket.setdefaulttimeout(0.001),
    "child left": lambda: subprocess.Popen(["sleep", "2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL),
    "_exit 0": lambda: os._exit(0), "_exit 3": lambda: os._exit(3),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV), "abort": os.abort, "hang": lambda: time.sleep(LONG),
    "descriptors used up": descriptors, "descriptors closed": lambda: os.closerange(3, 1 << 10),
    "file limit": limit(resource.RLIMIT_NOFILE, 3), "size limit": limit(resource.RLIMIT_FSIZE, 10),
    "output closed": lambda: (os.close(1), os.close(2)), "SIGTERM": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "handlers": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
}  # fmt: skip

GAUGE = Signal("gauge", "what a hostile adapter shows", (
    Column("value", "float64", "1", "any"), Column("share", "float32", "1", "any", low=0.0, high=1.0),
    Column("count", "int64", "1", "so far", "counter"), Column("kind", "int8", "", "any", "code", ("this", "that")),
))  # fmt: skip
ADAPTER = AdapterKind(
    "hostile", "obeys its mode", config="tests.unit.bus.hostile:Config", factory="tests.unit.bus.hostile:Hostile",
    ports=Ports((), ("mobility", "gauge")), signals=(GAUGE,), fleet=True,
)  # fmt: skip
WITNESS = AdapterKind(
    "witness", "reads it", config="cosim.contract.adapter:AdapterConfig", factory="tests.unit.bus.hostile:Witness",
    ports=Ports((Read("gauge"),), ()), signals=(GAUGE,),
)  # fmt: skip
