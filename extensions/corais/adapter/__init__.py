"""Regions of edges on the bus, and the queues that their requests pass."""

from cosim.contract.adapter import AdapterKind, Ports, Read
from cosim.contract.signals import Column, Signal

EDGE_QUEUE = Signal("edge_queue", "requests of a simulated edge by what is to be done with them; none of real edges", (
    Column("waiting", "int32", "1", "came in here and are not decided about: Q^wait", low=0.0),
    Column("local", "int32", "1", "came in and run here: Q^le", low=0.0),
    Column("out", "int32", "1", "came in here and are on their way to another edge: Q^out", low=0.0),
    Column("coming", "int32", "1", "came in elsewhere and run here, those on their way included: Q^in", low=0.0),
    Column("done", "int32", "1", "computed here and on their way to the client: Q^done", low=0.0),
))  # fmt: skip

ADAPTER = AdapterKind(
    name="corais",
    summary="regions of edges with schedulers of their own, as the policies corais-* have them, and their queues",
    config="cosim.extensions.corais.adapter.config:CoraisConfig",
    factory="cosim.extensions.corais.adapter.adapter:CoraisAdapter",
    check="cosim.extensions.corais.adapter.check:problems",
    acts_on=frozenset(),
    outside="",
    ports=Ports(reads=(Read("task_event"), Read("link", required=False)), writes=("edge_queue",)),
    signals=(EDGE_QUEUE,),
    offers=("regions", "central", "every", "missed", "takes"),
    example="""\
corais:
  every: 250 ms
  missed: 3
""",
)
