"""Containers on hosts, placed once per interval, on the bus."""

from cosim.contract.adapter import AdapterKind, Ports, Read

ADAPTER = AdapterKind(
    name="interval",
    summary="containers on edge and cloud hosts, placed and moved once per interval",
    config="cosim.extensions.cosco.adapter.config:IntervalConfig",
    factory="cosim.extensions.cosco.adapter.adapter:IntervalAdapter",
    check="cosim.extensions.cosco.adapter.check:problems",
    acts_on=frozenset({"fail", "workloads"}),
    outside="",
    can_fail=lambda _, node: node.tier != "device" and node.cores > 0,
    ports=Ports(reads=(Read("mobility", required=False),), writes=("task", "host")),
    compiled="cosim.extensions.cosco.adapter.chance:compiled",
    example="""\
interval:
  policy: least-loaded
  demand: 1 GHz
""",
)
