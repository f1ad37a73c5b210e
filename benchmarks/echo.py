"""The least that an adapter can do: answers twice the first of the columns that it reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cosim.contract.adapter import AdapterConfig, AdapterKind, Context, Inputs, Ports, Read, Summary
from cosim.contract.frame import Array, Frame
from cosim.contract.signals import Column, Signal


class EchoConfig(AdapterConfig):
    """Nothing to configure."""


class Echo:
    def __init__(self, config: EchoConfig) -> None:
        self._config = config
        self._buffers: list[Array] = [np.empty(0), np.empty(0)]

    def start(self, context: Context) -> None:
        self._context = context

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        source = inputs.one("mobility")
        if source is None:
            return []
        self._buffers.reverse()
        if len(self._buffers[0]) != len(source):
            self._buffers[0] = np.empty(len(source))
        np.multiply(source["x"], 2.0, out=self._buffers[0])
        return [Frame("echo", time, source.slot, {"twice": self._buffers[0]})]

    def finish(self) -> Summary:
        return {}

    def close(self) -> None:
        self._buffers = []


ECHO = Signal("echo", "twice the x", (Column("twice", "float64", "m", "2 x"),))
ADAPTER = AdapterKind(
    "echo",
    "answers twice the x of each node",
    config="benchmarks.echo:EchoConfig",
    factory="benchmarks.echo:Echo",
    ports=Ports((Read("mobility"),), ("echo",)),
    signals=(ECHO,),
)
