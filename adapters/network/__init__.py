"""Emulated network: the results of the radio models are imposed on the interfaces of real nodes."""

from cosim.adapters.network.config import NetworkConfig
from cosim.contract.adapter import AdapterKind, Ports, Read
from cosim.contract.signals import Column, Signal

EXAMPLE = """\
network:
  ready: 30 s
"""

LINK_TRAFFIC = Signal("link_traffic", "what became of the packets from one real node to another; the slot sends", (
    Column("peer", "int32", "", "slot of the receiver", "slot"),
    Column("delivered", "int64", "1", "frames since the last row", low=0.0),
    Column("bytes", "int64", "B", "of these frames", low=0.0),
    Column("lost", "int64", "1", "frames lost as the link wants it", low=0.0),
    Column("dropped", "int64", "1", "frames that found the queue full", low=0.0),
), rows="event")  # fmt: skip
EMULATION = Signal("emulation", "whether the links were what was asked; its slot is that of the first real node", (
    Column("doubtful", "int32", "1", "seconds so far in which they were not", "counter"),
    Column("doubtful_at", "float64", "s", "the last of these, NaN: none", low=0.0, optional=True),
    Column("lag", "float64", "s", "largest so far by which a packet was late, NaN: not known", low=0.0, optional=True),
    Column("late", "int32", "1", "seconds so far with packets that were late", "counter"),
    Column("unread", "int64", "1", "packets so far that interfaces dropped before the links had them", "counter"),
    Column("overflowed", "int64", "1", "packets so far for which the service had no room", "counter"),
))  # fmt: skip


def _ports(config: NetworkConfig) -> Ports:
    reads = tuple(Read(signal, required=False) for signal in ("peer_link", "link", "mobility"))
    return Ports(reads, ("link_traffic", "emulation", *(("link_probe",) if config.probe is not None else ())))


ADAPTER = AdapterKind(
    name="network",
    summary="imposes the links of the models on the interfaces of real nodes: containers and namespaces",
    config="cosim.adapters.network.config:NetworkConfig",
    factory="cosim.adapters.network.adapter:NetworkAdapter",
    check="cosim.adapters.network.check:problems",
    acts_on=frozenset({"degrade", "fail", "links"}),
    carries=True,
    outside=lambda _, scene: "it shapes the links of real nodes" if scene.real else "",
    services=("network", "reports"),
    ports=_ports,
    origin="emulated",
    signals=(LINK_TRAFFIC, EMULATION),
    example=EXAMPLE,
)
