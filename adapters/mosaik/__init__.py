"""Any simulator written for mosaik, inside a scenario, unmodified.

The simulator is started in this process, by a command, or reached by an address, as in mosaik
itself. Its entities belong to nodes of the scenario; columns of frames become the scalars of its
inputs, and its outputs become columns again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pydantic import BaseModel

from cosim.contract.adapter import AdapterKind, Ports
from cosim.contract.signals import Signal

if TYPE_CHECKING:
    from cosim.adapters.mosaik.config import MosaikConfig


def _ports(config: BaseModel) -> Ports:
    return cast("MosaikConfig", config).ports()


def _signals(config: BaseModel) -> tuple[Signal, ...]:
    return cast("MosaikConfig", config).signals()


ADAPTER = AdapterKind(
    name="mosaik",
    summary="any third-party mosaik simulator, wired by names: in process, by command, or by connection",
    config="cosim.adapters.mosaik.config:MosaikConfig",
    factory="cosim.adapters.mosaik.adapter:MosaikAdapter",
    check="cosim.adapters.mosaik.check:problems",
    ports=_ports,
    signals=_signals,
    example="""\
mosaik:
  simulator: {python: "cosim.adapters.mosaik.example:Rooms"}
  models:
    - {model: Room, nodes: edge-*, params: {outside: 12.0}}
  inputs:
    - {signal: host, column: power, nodes: edge-*, to: Room.heat}
  outputs:
    - {from: Room.temperature, signal: room, column: temperature, unit: degC, meaning: air around the host}
""",
)
