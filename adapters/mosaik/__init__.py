"""Any simulator written for mosaik, inside a scenario, unmodified.

The simulator is started in this process, by a command, or reached by an address, as in mosaik
itself. Its entities belong to nodes of the scenario; columns of frames become the scalars of its
inputs, and its outputs become columns again.
"""

from cosim.contract.adapter import AdapterKind

ADAPTER = AdapterKind(
    name="mosaik",
    summary="any third-party mosaik simulator, wired by names: in process, by command, or by connection",
    config="cosim.adapters.mosaik.config:MosaikConfig",
    factory="cosim.adapters.mosaik.adapter:MosaikAdapter",
    check="cosim.adapters.mosaik.check:problems",
    outside="its simulator has a thread or a process of its own",
    ports=lambda config: config.ports(),
    signals=lambda config: config.signals(),
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
