"""Recorded trajectories as a fleet: SUMO floating car data, plain tables, logs of autopilots."""

from pathlib import Path

from cosim.adapters.replay.backend import FLIGHTS, kind_of
from cosim.adapters.replay.config import ReplayConfig
from cosim.contract.adapter import AdapterKind, Ports

EXAMPLE = """\
replay:
  file: example.csv
  interpolate: true
"""


def _ports(config: ReplayConfig) -> Ports:
    return Ports(writes=("mobility", "vehicle") if kind_of(Path(config.file)) in FLIGHTS else ("mobility",))


ADAPTER = AdapterKind(
    name="replay",
    summary="replays recorded trajectories: SUMO FCD, tables of time, id, x, y, logs of PX4, ArduPilot and MAVLink",
    config="cosim.adapters.replay.config:ReplayConfig",
    factory="cosim.adapters.replay.adapter:ReplayAdapter",
    check="cosim.adapters.replay.check:problems",
    acts_on=frozenset(),
    outside="",
    ports=_ports,
    fleet=True,
    example=EXAMPLE,
)
