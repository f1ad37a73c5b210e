"""Real machines on the bus: they take nodes' places, say what they measure, and run tasks."""

from cosim.bus.adapter import AdapterKind, Ports, Read

ADAPTER = AdapterKind(
    name="live",
    summary="real machines that attach with `cosim attach`: their resources and positions, and tasks really run",
    config="adapters.live.config:LiveConfig",
    factory="adapters.live.adapter:LiveAdapter",
    # Positions of machines may move what the radio sees, so who serves whom can only be known from the step before.
    ports=Ports(
        reads=tuple(Read(signal, delayed=True, required=False) for signal in ("link", "mobility")),
        writes=("resources", "mobility", "task"),
    ),
    origin="measured",
    example="""\
live:
  listen: tcp://127.0.0.1:*
  keys: keys
""",
)
