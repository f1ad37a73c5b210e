"""A trained detector on line: it reads what radios log and raises alarms."""

from typing import Any

from cosim.contract.adapter import AdapterKind, Ports, Read
from cosim.contract.jammer import CAUSES
from cosim.contract.signals import Column, Signal

EXAMPLE = """\
detector:
  model: example.npz
  signals: [ue, gnb]
"""

ALARM = Signal("alarm", "what a detector says of a node now", (
    Column("score", "float64", "1", "higher for what looks more like a jammer"),
    Column("on", "bool", "", "the score is above the detector's limit"),
    Column("cause", "int8", "", "why, while it is on, of a detector that was trained with causes", "code", CAUSES),
    Column("raised", "int32", "1", "alarms so far, each from off to on", "counter"),
))  # fmt: skip


def _ports(config: Any) -> Ports:  # noqa: ANN401 - its configuration, which is not imported to list it
    reads = (*(Read(signal) for signal in config.signals), Read("mobility", required=False))
    return Ports(reads=reads, writes=("alarm",))


ADAPTER = AdapterKind(
    name="detector",
    summary="raises alarms by a detector that 'cosim detect train' made",
    config="cosim.extensions.detection.adapter.config:DetectorConfig",
    factory="cosim.extensions.detection.adapter.adapter:DetectorAdapter",
    check="cosim.extensions.detection.adapter.check:problems",
    acts_on=frozenset(),
    outside="",
    ports=_ports,
    signals=(ALARM,),
    compiled="cosim.extensions.detection.detect.warm:compiled",
    example=EXAMPLE,
)
