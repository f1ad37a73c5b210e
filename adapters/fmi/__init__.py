"""Functional Mock-up Units (FMI 2 and 3, co-simulation) inside a scenario.

One instance of the unit belongs to each selected node; columns of frames become its inputs, and its outputs
become columns again. Needs FMPy.
"""

from cosim.contract.adapter import AdapterKind, Requirement

ADAPTER = AdapterKind(
    name="fmi",
    summary="units of the Functional Mock-up Interface, FMI 2 and 3 for co-simulation, wired by names",
    config="cosim.adapters.fmi.config:FmiConfig",
    factory="cosim.adapters.fmi.adapter:FmiAdapter",
    check="cosim.adapters.fmi.check:problems",
    requires=(Requirement("fmpy", "fmi"), Requirement("pythonfmu3", "fmi")),
    outside="",  # a unit is a library in this process
    ports=lambda config: config.ports(),
    signals=lambda config: config.signals(),
    example="""\
fmi:
  unit: example.py
  nodes: edge-*
  params: {outside: 12.0}
  inputs:
    - {signal: host, column: power, to: heat}
  outputs:
    - {from: temperature, signal: room, column: temperature, unit: degC, meaning: air around the host}
""",
)
