"""Wi-Fi between nodes: straight links, and stations at the strongest access point."""

from cosim.contract.adapter import AdapterKind, Ports, Read

EXAMPLE = """\
wifi:
  exponent: 2.7
  fading: 1.5
"""

ADAPTER = AdapterKind(
    name="wifi",
    summary="802.11n links between all nodes with a Wi-Fi interface, ad hoc and by access points",
    config="adapters.wifi.config:WifiConfig",
    factory="adapters.wifi.adapter:WifiAdapter",
    check="adapters.wifi.check:problems",
    ports=Ports(
        reads=(Read("mobility", required=False), Read("traffic", delayed=True, required=False)),
        writes=("peer_link", "link", "cell"),
    ),
    compiled="cosim.radio.wifi_pairs:compiled",
    example=EXAMPLE,
)
