"""Training jobs on GPUs behind packet and optical circuit switches, on the bus."""

from cosim.contract.adapter import AdapterKind, Ports, Read
from cosim.contract.selector import selects
from cosim.contract.signals import Column, Signal
from cosim.extensions.gpu_cluster.cluster.names import PATTERNS, TOPOLOGIES

CLUSTER = Signal("cluster", "the cluster as a whole; the row's slot is its first node", (
    Column("at", "float64", "s", "time of the event; columns hold from then on"),
    Column("busy", "float64", "1", "GPUs that jobs hold"),
    Column("down", "int32", "1", "GPUs out of order"),
    Column("waiting", "int32", "1", "jobs in line"),
    Column("running", "int32", "1", "jobs on GPUs"),
    Column("circuits", "int32", "1", "circuits that jobs hold"),
    Column("reconfigured", "int64", "1", "circuits set up so far", "counter"),
    Column("useful", "float64", "s", "GPU seconds of kept work so far"),
    Column("power", "float64", "W", "of servers and switches"),
    Column("topology", "int8", "", "topology in force, of a routed network", "code", (*TOPOLOGIES, "cabled")),
), rows="event")  # fmt: skip

JOB = Signal("job", "a training job that ended; the row's slot is the node of its first rank", (
    Column("job", "int64", "", "number in the order of arrival"),
    Column("gpus", "float64", "1", "GPUs, less than 1 for a part of one"),
    Column("pattern", "int8", "", "how its ranks talk", "code", PATTERNS),
    Column("arrival", "float64", "s", "when it came"),
    Column("started", "float64", "s", "first start"),
    Column("ended", "float64", "s", "end of its last step"),
    Column("leaves", "int32", "1", "leaves that it was on"),
    Column("circuits", "int32", "1", "circuits that it held"),
    Column("restarts", "int32", "1", "after faults"),
    Column("lost", "float64", "s", "work that was done again"),
    Column("stalled", "float64", "s", "while circuits were set up"),
    Column("domains", "int32", "1", "PCIe domains that its ranks were in"),
), rows="event")  # fmt: skip

CIRCUIT = Signal("circuit", "a circuit that a job got or gave back; the row's slot is one leaf's node", (
    Column("at", "float64", "s", "end of the step in which it happened"),
    Column("peer", "int32", "", "node of the other leaf", "slot"),
    Column("leaf", "int32", "", "number of the one leaf"),
    Column("other", "int32", "", "number of the other"),
    Column("ocs", "int32", "", "number of the switch"),
    Column("job", "int64", "", "whose it is"),
    Column("up", "bool", "", "got, not given back"),
), rows="event")  # fmt: skip


ADAPTER = AdapterKind(
    name="cluster",
    summary="training jobs on GPUs behind packet and optical circuit switches: placing, wiring, ordering, topologies",
    config="cosim.extensions.gpu_cluster.adapter.config:ClusterConfig",
    factory="cosim.extensions.gpu_cluster.adapter.adapter:ClusterAdapter",
    ports=Ports(
        reads=(Read("host", delayed=True, required=False),),
        writes=("host", "machine", "peer_link", "cluster", "job", "circuit"),
    ),
    signals=(CLUSTER, JOB, CIRCUIT),
    compiled="cosim.extensions.gpu_cluster.cluster.engine.kernel:compiled",
    check="cosim.extensions.gpu_cluster.adapter.check:problems",
    acts_on=frozenset({"fail"}),
    outside="",
    can_fail=lambda config, node: selects(config.nodes)(node.id, node),
    example="""\
cluster:
  regular: {leaves: 4, down: 8, up: 8, ocs: 2, per_server: 4}
  nodes: "edge-*"
  jobs: {generate: uniform, count: 6, gpus: [2, 16], duration: [1 min, 5 min]}
""",
)
