"""What vehicles tell besides the signals that everybody knows."""

from cosim.contract.signals import Column, Signal
from cosim.vehicles.phases import METRICS, OUTCOMES, REASONS, STATES

BEHAVIOUR = Signal("behaviour", "what a vehicle with a mission or an engagement is about", (
    Column("state", "int8", "", "its state", "code", STATES),
    Column("row", "int32", "", "row of the field being worked, -1: none"),
    Column("target", "int32", "", "slot of the node that it is to follow, -1: none", "slot"),
    Column("age", "float64", "s", "age of the target's last received position, NaN: none", low=0.0, optional=True),
))  # fmt: skip

ENGAGEMENT = Signal("engagement", "an engagement that ended; the row's slot is the drone", (
    Column("target", "int32", "", "slot of the node that it was to follow", "slot"),
    Column("number", "int64", "", "of the drone's engagements, from 1"),
    Column("outcome", "int8", "", "how it ended", "code", OUTCOMES),
    Column("reason", "int8", "", "why it ended", "code", REASONS),
    *(Column(name, "float64", unit, meaning, optional=True) for name, (unit, meaning) in METRICS.items()),
), rows="event")  # fmt: skip
