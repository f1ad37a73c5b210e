"""The signals of vehicles besides the common ones."""

from cosim.contract.signals import Column, Signal
from cosim.physics.vehicles.layout import STRUCK
from cosim.physics.vehicles.phases import METRICS, OUTCOMES, REASONS, STATES

# The program is away or there again; ArduPilot could not be armed, or did not take off; another system has changed its
# mode, and it is back in GUIDED.
EVENTS = ("gone", "back", "refused", "taken-over", "given-back")

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

PROXIMITY = Signal("proximity", "a vehicle came nearer to an obstacle than the separation, or hit it", (
    Column("obstacle", "int32", "", "number of the polygon in the file, from 0", low=0.0),
    Column("kind", "int8", "", "what it is so far", "code", ("near-miss", "collision")),
    Column("at", "float64", "s", "when", low=0.0),
    Column("distance", "float64", "m", "from the obstacle then, 0: inside", low=0.0),
), rows="event")  # fmt: skip

IMPACT = Signal("impact", "a vehicle ran into something, or came down so hard that it broke", (
    Column("what", "int8", "", "what it hit", "code", STRUCK),
    Column("obstacle", "int32", "", "number of the polygon in the file, from 0; -1: none"),
    Column("other", "int32", "", "slot of the vehicle that it hit, -1: none", "slot"),
    Column("speed", "float64", "m/s", "at which they met, at right angles to the surface", low=0.0),
    Column("broken", "bool", "", "whether it is broken from now on"),
    Column("at", "float64", "s", "when", low=0.0),
), rows="event")  # fmt: skip

AUTOPILOT = Signal("autopilot", "what happens with the autopilot of a vehicle that is not ours", (
    Column("event", "int8", "", "what it is", "code", EVENTS),
    Column("at", "float64", "s", "when", low=0.0),
), rows="event")  # fmt: skip

PICTURE = Signal("picture", "the latest picture of a camera, NaN: none yet", (
    Column("pictures", "int32", "1", "pictures so far", "counter"),
    Column("taken", "float64", "s", "when", low=0.0, optional=True),
    Column("x", "float64", "m", "east, of its middle on the ground", optional=True),
    Column("y", "float64", "m", "north of it", optional=True),
    Column("heading", "float64", "deg", "its upper edge, clockwise from north", low=0.0, high=360.0, optional=True),
    Column("pixel", "float64", "m", "ground sample distance: side of a pixel on the ground", low=0.0, optional=True),
    Column("area", "float64", "m2", "of the ground that it shows", low=0.0, optional=True),
    Column("light", "float64", "lx", "on the ground", low=0.0, optional=True),
    Column("found", "float64", "1", "weeds that the detector says there are", low=0.0, optional=True),
    Column("density", "float64", "1/m2", "the same over the area", low=0.0, optional=True),
))  # fmt: skip

PICTURE_TRUTH = Signal("picture_truth", "truth, no input of a decision: what the latest picture shows", (
    Column("weeds", "float64", "1", "weeds in the picture", low=0.0, optional=True),
    Column("hits", "float64", "1", "of those, found", low=0.0, optional=True),
    Column("false_alarms", "float64", "1", "found, and none", low=0.0, optional=True),
))  # fmt: skip
