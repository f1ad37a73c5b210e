"""Emulated network: what the radio models say is imposed on the interfaces of real nodes."""

from cosim.bus.adapter import AdapterKind, Ports, Read
from cosim.telemetry.signals import Column, Signal

EXAMPLE = """\
network:
  ready: 30 s
"""

LINK_TRAFFIC = Signal("link_traffic", "what became of the packets from one real node to another; the slot sends", (
    Column("peer", "int32", "", "slot of the receiver", "slot"),
    Column("delivered", "int64", "1", "frames since the last row"),
    Column("bytes", "int64", "B", "of these frames"),
    Column("lost", "int64", "1", "frames lost as the link wants it"),
    Column("dropped", "int64", "1", "frames that found the queue full"),
), rows="event")  # fmt: skip

ADAPTER = AdapterKind(
    name="network",
    summary="imposes the links of the models on the interfaces of real nodes: containers and namespaces",
    config="adapters.network.config:NetworkConfig",
    factory="adapters.network.adapter:NetworkAdapter",
    ports=Ports(
        reads=(
            Read("peer_link", required=False),
            Read("link", required=False),
            Read("mobility", required=False),
        ),
        writes=("link_traffic",),
    ),
    origin="measured",
    signals=(LINK_TRAFFIC,),
    example=EXAMPLE,
)
