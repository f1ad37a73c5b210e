"""Virtual machines in datacentres on the bus: consolidation, frequencies, prices, service levels, failures."""

from cosim.contract.adapter import AdapterKind, Ports
from cosim.contract.signals import Column, Signal

MIGRATION = Signal("migration", "a virtual machine that was sent to another host; the row's slot is the new host", (
    Column("machine", "int32", "", "number of the machine, in the order of the groups"),
    Column("origin", "int32", "", "slot of the host that it leaves, -1 after a failure", "slot"),
    Column("at", "float64", "s", "decision"),
    Column("arrival", "float64", "s", "when it runs on the new host"),
    Column("moved", "float64", "B", "memory copied"),
    Column("between_places", "bool", "", "from one datacentre to another"),
), rows="event")  # fmt: skip

SERVER = Signal("server", "operating point and demand of a host of virtual machines", (
    Column("frequency", "float64", "Hz", "clock in force"),
    Column("machines", "int32", "1", "virtual machines on it, those on their way to it included"),
    Column("demand", "float64", "1", "share of its capacity that they asked for at the last decision; may exceed 1"),
    Column("price", "float64", "1/J", "of one more watt now"),
))  # fmt: skip

ADAPTER = AdapterKind(
    name="datacentre",
    summary="virtual machines on edge and cloud hosts: consolidation, frequencies, energy prices, SLA, failures",
    config="cosim.extensions.extcloudsim.adapter.config:DatacentreConfig",
    factory="cosim.extensions.extcloudsim.adapter.adapter:DatacentreAdapter",
    check="cosim.extensions.extcloudsim.adapter.check:problems",
    acts_on=frozenset({"fail"}),
    outside="",
    can_fail=lambda _, node: node.tier != "device" and node.cores > 0,
    ports=Ports(writes=("host", "server", "migration")),
    signals=(SERVER, MIGRATION),
    compiled="cosim.extensions.extcloudsim.datacentre.model:compiled",
    example="""\
datacentre:
  machines:
    web: {count: 6, cpu: 1 GHz, ram: 512 MB, work: hybrid, sla: 2}
    batch: {count: 4, cpu: 2 GHz, ram: 2 GB, work: compute, utilisation: {mean: 50 %, noise: 15 %}}
  hosts:
    "*": {platform: xeon-1220}
  detector: mad
""",
)
