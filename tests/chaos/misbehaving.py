"""An adapter that does as it is told, including dying: the victim of the chaos tests.

It reads mobility and writes `load`: twice the x of each node.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from cosim.contract.adapter import AdapterConfig, AdapterKind, Context, Inputs, Ports, Read, Summary
from cosim.contract.errors import SetupError
from cosim.contract.frame import Frame, SlotTable
from cosim.contract.signals import Column, Signal
from cosim.contract.trust import Words

LONG = 1000
HUGE = 200_000_000  # rows; zeros that are never touched take no memory


class Config(AdapterConfig):
    do: Words = "nothing"
    at: Literal["build", "start", "step", "finish", "close"] = "step"
    tick: int = 2  # number of the step at which it happens
    table: bool = False  # frames carry the slot table of the frames that they were made from


class Misbehaving:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._steps = 0
        self._now("build")

    def start(self, context: Context) -> None:
        self._context = context
        self._now("start")

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        self._steps += 1
        source = inputs.one("mobility")
        assert source is not None
        table = source.table if self._config.table else None
        answer = Frame("load", time, source.slot, {"double": source["x"] * 2.0}, table)
        if self._steps == self._config.tick:
            self._now("step")
            answer = FRAMES.get(self._config.do, lambda frame: frame)(answer)
        return [answer]

    def finish(self) -> Summary:
        self._now("finish")
        if self._config.do == "unserialisable summary":
            return {"deep": {"set": {1, 2}}}
        return {"steps": self._steps, "not a number": float("nan"), "rows": (np.int64(3), np.float64(0.5))}

    def close(self) -> None:
        Path(self._context.scratch, "closed").touch()
        self._now("close")

    def _now(self, where: str) -> None:
        if where == self._config.at and self._config.do in DEEDS:
            DEEDS[self._config.do](self)


def grandchild(self: Misbehaving) -> None:
    child = subprocess.Popen(["sleep", str(LONG)])
    Path(self._context.scratch, "grandchild").write_text(str(child.pid))


def grandchild_then_kill(self: Misbehaving) -> None:
    grandchild(self)
    os.kill(os.getpid(), signal.SIGKILL)


def hold_interpreter_lock(_: Misbehaving, seconds: int = LONG) -> None:
    ctypes.PyDLL(None).sleep(seconds)  # a library call that lets no other thread and no signal handler run


def hang_against_sigterm(_: Misbehaving) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(LONG)


def mark_and_hang(self: Misbehaving) -> None:
    Path(self._context.scratch, "hanging").touch()
    time.sleep(LONG)


def explode(_: Misbehaving) -> None:
    raise ValueError("the reactor is too hot")


def refuse(_: Misbehaving) -> None:
    raise SetupError("install the reactor first")


def leave(_: Misbehaving) -> None:
    raise SystemExit(3)


def garbage(_: Misbehaving) -> None:
    os.write(1, b"hello from a chatty library\n" + os.urandom(10_000))


DEEDS: Mapping[str, Callable[[Misbehaving], object]] = {
    "raise": explode,
    "refuse": refuse,
    "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda _: os.kill(os.getpid(), signal.SIGSEGV),
    "stop": lambda _: os.kill(os.getpid(), signal.SIGSTOP),
    "hang": lambda _: time.sleep(LONG),
    "mark and hang": mark_and_hang,
    "hang against SIGTERM": hang_against_sigterm,
    "hold the lock": hold_interpreter_lock,
    "hold the lock for 3 s": lambda self: hold_interpreter_lock(self, 3),
    "nap": lambda _: time.sleep(1.0),
    "exit": leave,
    "_exit": lambda _: os._exit(4),
    "print garbage": garbage,
    "grandchild": grandchild,
    "grandchild, then kill": grandchild_then_kill,
}
FRAMES: Mapping[str, Callable[[Frame], object]] = {
    "huge frame": lambda f: Frame("load", f.time, np.zeros(HUGE, np.int32), {"double": np.zeros(HUGE)}),
    "objects": lambda f: Frame("load", f.time, f.slot, {"double": np.array([object()] * len(f))}),
    "float32": lambda f: Frame("load", f.time, f.slot, {"double": f["double"].astype(np.float32)}),
    "lists": lambda f: Frame("load", f.time, f.slot, {"double": f["double"].tolist()}),
    "ragged": lambda f: Frame("load", f.time, f.slot, {"double": f["double"][:-1]}),
    "no frame": lambda _: {"double": 1.0},
    "half a table": lambda f: Frame("load", f.time, f.slot, f.columns, SlotTable(0, ("a",), np.zeros(2, np.int32), 99)),
}

LOAD = Signal("load", "twice the x of each node", (Column("double", "float64", "m", "2 x"),))
ADAPTER = AdapterKind(
    "misbehaving",
    "does as it is told",
    config="tests.chaos.misbehaving:Config",
    factory="tests.chaos.misbehaving:Misbehaving",
    ports=Ports((Read("mobility"),), ("load",)),
    signals=(LOAD,),
)
NOT_A_KIND = "just a text"
