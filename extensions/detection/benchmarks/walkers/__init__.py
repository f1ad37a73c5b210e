"""People who walk to random places: the mobility of scenes that a benchmark draws."""

from cosim.contract.adapter import AdapterKind, Ports

ADAPTER = AdapterKind(
    name="walkers",
    summary="random waypoints",
    config="benchmarks.walkers.adapter:WalkersConfig",
    factory="benchmarks.walkers.adapter:Walkers",
    ports=Ports(writes=("mobility",)),
    example="walkers:\n  speed: 1.4 m/s\n",
)
