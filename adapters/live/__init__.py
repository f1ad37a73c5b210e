"""Real machines on the bus: they take nodes' places, report measurements, and run tasks."""

from typing import Any

from cosim.contract.adapter import AdapterKind, Ports, Read
from cosim.contract.entities import Scene
from cosim.contract.signals import Signal

_READS = ("link", "peer_link", "mobility", "reach", "placement", "demand")
_WRITES = ("resources", "mobility", "task", "taken")


def _ports(config: Any) -> Ports:  # noqa: ANN401 - its configuration, which is not imported to list it
    # Positions of machines may move what the models see, so links and who serves whom are those of the step before.
    shown = any(block.pictures for block in config.offload.values())
    reads = (*_READS, "picture") if shown else _READS
    return Ports(
        reads=tuple(Read(name, delayed=True, required=False) for name in reads),
        writes=(*_WRITES, "tile") if shown else _WRITES,
    )


def _signals(config: Any) -> tuple[Signal, ...]:  # noqa: ANN401
    if not any(block.pictures for block in config.offload.values()):
        return ()
    from cosim.adapters.live.tiles import TILE

    return (TILE,)


def _machines(_config: Any, scene: Scene) -> str:  # noqa: ANN401 - as above
    from cosim.adapters.live.check import attended

    return "real machines attach to it" if attended(scene) else ""


ADAPTER = AdapterKind(
    name="live",
    summary="real machines that attach with `cosim attach`: what they measure, tasks really run, links really shaped",
    config="cosim.adapters.live.config:LiveConfig",
    factory="cosim.adapters.live.adapter:LiveAdapter",
    check="cosim.adapters.live.check:problems",
    listens="cosim.adapters.live.check:listens",
    acts_on=frozenset({"workloads"}),
    carries=True,
    outside=_machines,
    services=("gateway", "keys", "outside"),
    ports=_ports,
    signals=_signals,
    origin="measured",
    example="""\
live:
  listen: tcp://127.0.0.1:*
  keys: keys
""",
)
