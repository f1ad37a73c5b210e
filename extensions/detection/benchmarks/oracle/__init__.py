"""An alarm that knows the jammers: what a benchmark holds detectors against."""

from cosim.contract.adapter import AdapterKind, Ports, Read
from cosim.extensions.detection.adapter import ALARM

ADAPTER = AdapterKind(
    name="oracle",
    summary="alarms by the truth",
    config="benchmarks.oracle.adapter:OracleConfig",
    factory="benchmarks.oracle.adapter:Oracle",
    ports=Ports(reads=(Read("jamming"),), writes=("alarm",)),
    signals=(ALARM,),
    example="oracle: {}\n",
)
