"""Real machines on the bus: they take nodes' places, say what they measure, and run tasks."""

from cosim.contract.adapter import AdapterKind, Ports, Read

ADAPTER = AdapterKind(
    name="live",
    summary="real machines that attach with `cosim attach`: what they measure, tasks really run, links really shaped",
    config="adapters.live.config:LiveConfig",
    factory="adapters.live.adapter:LiveAdapter",
    check="adapters.live.check:problems",
    services=("gateway", "keys"),
    # Positions of machines may move what the models see, so links and who serves whom are those of the step before.
    ports=Ports(
        reads=tuple(
            Read(name, delayed=True, required=False) for name in ("link", "peer_link", "mobility", "reach", "placement")
        ),
        writes=("resources", "mobility", "task"),
    ),
    origin="measured",
    example="""\
live:
  listen: tcp://127.0.0.1:*
  keys: keys
""",
)
