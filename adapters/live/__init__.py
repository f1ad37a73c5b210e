"""Real machines on the bus: they take nodes' places, say what they measure, and run tasks."""

from cosim.bus.adapter import AdapterKind, Ports

ADAPTER = AdapterKind(
    name="live",
    summary="real machines that attach with `cosim attach`: their resources and positions, and tasks really run",
    config="adapters.live.config:LiveConfig",
    factory="adapters.live.adapter:LiveAdapter",
    ports=Ports(writes=("resources", "mobility", "task")),
    origin="measured",
    example="""\
live:
  listen: tcp://127.0.0.1:*
  keys: keys
""",
)
