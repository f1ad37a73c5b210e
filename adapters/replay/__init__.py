"""Recorded trajectories as a fleet: SUMO floating car data or plain tables."""

from cosim.bus.adapter import AdapterKind, Ports

EXAMPLE = """\
replay:
  file: example.csv
  interpolate: true
"""

ADAPTER = AdapterKind(
    name="replay",
    summary="replays recorded trajectories: SUMO FCD (XML, CSV, Parquet) or a table of time, id, x, y",
    config="adapters.replay.config:ReplayConfig",
    factory="adapters.replay.adapter:ReplayAdapter",
    ports=Ports(writes=("mobility",)),
    fleet=True,
    example=EXAMPLE,
)
