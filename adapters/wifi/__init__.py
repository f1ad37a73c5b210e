"""Wi-Fi between nodes: straight links, and stations at the strongest access point."""

from typing import Any

from cosim.contract.adapter import AdapterKind, Ports, Read
from cosim.contract.jammer import TRUTH
from cosim.contract.signals import Signal

EXAMPLE = """\
wifi:
  exponent: 2.7
  fading: 1.5
"""

_READS = (
    Read("mobility", required=False),
    *(Read(signal, delayed=True, required=False) for signal in ("traffic", "battery")),
)


def _signals(config: Any) -> tuple[Signal, ...]:  # noqa: ANN401 - its configuration, which is not imported to list it
    return TRUTH if config.log else ()


def _ports(config: Any) -> Ports:  # noqa: ANN401
    truth = (signal.name for signal in _signals(config))
    return Ports(reads=_READS, writes=("peer_link", "link", "cell", *truth))


ADAPTER = AdapterKind(
    name="wifi",
    summary="802.11n links between all nodes with a Wi-Fi interface, ad hoc and by access points",
    config="cosim.adapters.wifi.config:WifiConfig",
    factory="cosim.adapters.wifi.adapter:WifiAdapter",
    check="cosim.adapters.wifi.check:problems",
    acts_on=frozenset({"degrade", "fail"}),
    outside="",
    can_fail=lambda _, node: node.wifi is not None or "jammer" in dict(node.keys),
    ports=_ports,
    signals=_signals,
    node={"jammer": "cosim.contract.jammer:Jammer"},
    events={"jammer-on": "cosim.contract.jammer:JammerOn", "jammer-off": "cosim.contract.jammer:JammerOff"},
    compiled="cosim.physics.radio.wifi_pairs:compiled",
    example=EXAMPLE,
)
