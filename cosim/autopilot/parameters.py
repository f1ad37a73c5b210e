"""Parameters: real names, with unit and range in a table beside this file, and how each persona sends them."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

from cosim.autopilot.personas import Persona
from cosim.contract.delimited import content, sheet

# MAV_PARAM_TYPE, and the type in ArduPilot's packed parameter file (AP_Filesystem_Param)
WIRE = {"int8": 2, "int16": 4, "int32": 6, "float": 9}
PACKED = {"int8": (1, "<b"), "int16": (2, "<h"), "int32": (3, "<i"), "float": (4, "<f")}
LIMITS = {"int8": 2**7, "int16": 2**15, "int32": 2**31}


@dataclass(frozen=True, slots=True)
class PilotParameter:
    """One line of a table."""

    name: str
    type: str  # int8, int16, int32, float
    default: float
    unit: str
    low: float
    high: float
    used: bool  # whether it changes what the emulator does; all others are kept and shown only
    meaning: str


@cache
def table(persona: Persona) -> dict[str, PilotParameter]:
    """The parameters of a persona by name, sorted."""
    found: dict[str, PilotParameter] = {}
    given = sheet(content(Path(__file__).parent / f"{persona.table}.csv"))
    for cells in given.rows:
        line = dict(zip(given.names, cells, strict=True))
        if line["frame"] in ("", persona.frame):
            for name in _family(line["name"]):
                found[name] = PilotParameter(
                    name,
                    line["type"],
                    _single(float(line["default"])) if line["type"] == "float" else float(line["default"]),
                    line["unit"],
                    float(line["low"]),
                    float(line["high"]),
                    line["used"] == "yes",
                    line["meaning"],
                )
    return dict(sorted(found.items()))


def _single(value: float) -> float:
    """The float32 next to `value`, as it goes over the wire."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _family(name: str) -> list[str]:
    """`RC{1-3}_{MIN MAX}` stands for six names."""
    parts = re.split(r"\{(.*?)\}", name)
    for k in range(1, len(parts), 2):
        first, dash, last = parts[k].partition("-")
        parts[k] = " ".join(str(n) for n in range(int(first), int(last) + 1)) if dash else parts[k]
    choices = [part.split(" ") if k % 2 else [part] for k, part in enumerate(parts)]
    return ["".join(chosen) for chosen in product(*choices)]


class Parameters:
    """The parameters of one vehicle."""

    def __init__(self, persona: Persona) -> None:
        self.table = table(persona)
        self.names = list(self.table)
        self._index = {name: k for k, name in enumerate(self.names)}
        self._bytewise = persona.px4
        self._values = {name: parameter.default for name, parameter in self.table.items()}

    def __contains__(self, name: object) -> bool:
        return name in self.table

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, name: str) -> float:
        return self._values[name]

    def get(self, name: str, otherwise: float = 0.0) -> float:
        """The value of a parameter that this frame may not have."""
        return self._values.get(name, otherwise)

    def index(self, name: str) -> int:
        """Its place in the list, which never changes."""
        return self._index[name]

    def set(self, name: str, value: float) -> bool:
        """Change a value; integers lose what follows the point. False: not a number, or too large for its type."""
        kind = self.table[name].type
        if not math.isfinite(value):
            return False
        if kind != "float":
            # ArduPilot cuts off what follows the point, but for a hundredth
            value = float(round(value) if self._bytewise else math.trunc(value + math.copysign(0.01, value)))
            if not -LIMITS[kind] <= value < LIMITS[kind]:
                return False
        elif abs(value) > 3.4e38:
            return False
        else:
            value = _single(value)
        self._values[name] = value
        return True

    def wire(self, name: str) -> tuple[float, int]:
        """The float field of PARAM_VALUE and the MAV_PARAM_TYPE.

        ArduPilot casts integers to float, PX4 puts the bytes of an int32 into the field
        (https://mavlink.io/en/services/parameter.html#parameter-encoding).
        """
        kind, value = self.table[name].type, self._values[name]
        if self._bytewise and kind != "float":
            return float(struct.unpack("<f", struct.pack("<i", int(value)))[0]), WIRE["int32"]
        return value, WIRE[kind]

    def read(self, name: str, field: float) -> float:
        """The value that a PARAM_SET for `name` carries in its float field."""
        if self._bytewise and self.table[name].type != "float":
            return float(struct.unpack("<i", struct.pack("<f", field))[0])
        return field

    def packed(self, defaults: bool = False) -> bytes:
        """ArduPilot's file @PARAM/param.pck.

        Head: magic 0x671B (0x671C with defaults), number here, number in all; then for each parameter
        type and flags, shared and own length of the name, name, value, and the default where it is
        another one. Names share their beginning with the one before.
        """
        pieces = [struct.pack("<HHH", 0x671C if defaults else 0x671B, len(self.names), len(self.names))]
        last = ""
        for name in self.names:
            code, form = PACKED[self.table[name].type]
            shared = 0
            while shared < min(len(last), len(name) - 1, 15) and last[shared] == name[shared]:
                shared += 1
            own = name[shared:].encode()
            value, default = self._values[name], self.table[name].default
            changed = defaults and value != default
            cast = float if code == PACKED["float"][0] else int
            pieces.append(bytes([code | (16 if changed else 0), shared | (len(own) - 1) << 4]) + own)
            pieces.append(struct.pack(form, cast(value)))
            if changed:
                pieces.append(struct.pack(form, cast(default)))
            last = name
        return b"".join(pieces)
