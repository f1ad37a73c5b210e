"""What the scenario file writes as one text and the model holds as numbers: laws, processors, pacing.

Each is a small record, and an annotated type for the fields of the model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from cosim.contract import units
from cosim.contract.laws import Law, LawText, TextForm
from cosim.contract.trust import DataFile

LawOfBytes = Annotated[Law, LawText("bytes")]
LawOfWork = Annotated[Law, LawText("work")]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When a node makes tasks: `poisson 2 Hz`, `every 500 ms`, `bag N(5, 1.5) every 300 s` or `trace FILE`."""

    law: Literal["poisson", "every", "bag", "trace"]
    rate: float = 0.0  # 1/s, of bags for a bag
    mean: float = 0.0  # tasks in a bag
    spread: float = 0.0  # their standard deviation
    file: str = ""  # of a trace


_NUMBER = r"\d+(?:\.\d*)?|\.\d+"
_BAG = rf"bag\s+(?:N\(\s*({_NUMBER})\s*,\s*({_NUMBER})\s*\)|({_NUMBER}))\s+every\s+(\S.*)"


def _read_arrivals(text: object) -> Arrivals:
    if isinstance(text, str):
        word, _, rest = text.strip().partition(" ")
        bag = re.fullmatch(_BAG, text.strip(), re.ASCII)
        if word == "poisson":
            rate = units.parse(rest, "frequency")
            if rate > 0:
                return Arrivals(law="poisson", rate=rate)
        if word == "every":
            period = units.parse(rest, "time")
            if period > 0:
                return Arrivals(law="every", rate=1 / period)
        if bag is not None:
            period = units.parse(bag[4], "time")
            if period > 0:
                return Arrivals("bag", 1 / period, float(bag[1] or bag[3]), float(bag[2] or 0.0))
        if word == "trace" and rest.strip():
            return Arrivals("trace", file=rest.strip())
    raise ValueError(
        f"{text!r} is not an arrival law; write 'poisson 2 Hz', 'every 500 ms', 'bag N(5, 1.5) every 300 s' "
        "or 'trace FILE'"
    )


def _write_arrivals(value: Arrivals) -> str:
    if value.law == "poisson":
        return f"poisson {units.show(value.rate, 'frequency')}"
    if value.law == "trace":
        return f"trace {value.file}"
    period = f"every {units.show(1 / value.rate, 'time')}"
    return period if value.law == "every" else f"bag N({value.mean!r}, {value.spread!r}) {period}"


_ARRIVALS = "|".join((
    rf"poisson\s+{units.pattern('frequency')}",
    rf"every\s+{units.pattern('time')}",
    rf"bag\s+(N\(\s*({_NUMBER})\s*,\s*({_NUMBER})\s*\)|{_NUMBER})\s+every\s+{units.pattern('time')}",
    r"trace\s+\S.*",
))  # fmt: skip

ArrivalLaw = Annotated[
    Arrivals,
    TextForm(
        Arrivals,
        _read_arrivals,
        _write_arrivals,
        {
            "pattern": rf"^\s*({_ARRIVALS})\s*$",
            "description": "when tasks are made: at random with a mean rate, one or a bag per period, or as in a file",
            "examples": ["poisson 2 Hz", "every 500 ms", "bag N(5, 1.5) every 300 s", "trace tasks.csv"],
        },
    ),
    DataFile("trace"),
]


_MOST_CORES = 999_999


@dataclass(frozen=True, slots=True)
class Cpu:
    """Cores and their clock, written `4 x 1.8 GHz` or `1.8 GHz`."""

    cores: int
    clock: float  # Hz = cycles/s per core


def _read_cpu(text: object) -> Cpu:
    if isinstance(text, str):
        match = re.fullmatch(r"\s*(?:(\d{1,60})\s*x\s*)?(\S.*)", text, re.ASCII)
        if match and match[1] is None and re.search(r"[x*\u00d7]", text):
            raise ValueError(f"'{text[:60]}' is not a processor; write whole cores x clock, for example '4 x 1.8 GHz'")
        if match:
            try:
                clock = units.parse(match[2], "frequency")
            except ValueError as error:
                raise ValueError(f"'{text[:60]}' is not a processor such as '4 x 1.8 GHz': {error}") from None
            cores = int(match[1] or 1)
            if cores > _MOST_CORES:
                raise ValueError(f"'{text[:60]}' has more than {_MOST_CORES:,} cores")
            if clock > 0 and cores > 0:
                return Cpu(cores=cores, clock=clock)
    raise ValueError(f"{text!r} is not a processor; write cores x clock, for example '4 x 1.8 GHz'")


def _write_cpu(value: Cpu) -> str:
    return f"{value.cores} x {units.show(value.clock, 'frequency')}"


CpuText = Annotated[
    Cpu,
    TextForm(
        Cpu,
        _read_cpu,
        _write_cpu,
        {
            "pattern": rf"^\s*(\d+\s*x\s*)?{units.pattern('frequency')}\s*$",
            "description": "cores x clock",
            "examples": ["4 x 1.8 GHz"],
        },
    ),
]


@dataclass(frozen=True, slots=True)
class Pacing:
    """How simulated time follows the wall clock: factor 0 = as fast as possible, 1 = real time."""

    factor: float


def _read_pacing(text: object) -> Pacing:
    if text == "as-fast-as-possible":
        return Pacing(factor=0.0)
    if text == "real-time":
        return Pacing(factor=1.0)
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*x\s*", text, re.ASCII) if isinstance(text, str) else None
    if match and float(match[1]) > 0:
        return Pacing(factor=float(match[1]))
    raise ValueError(f"{text!r} is not a pacing; write as-fast-as-possible, real-time, or a factor such as '10 x'")


def _write_pacing(value: Pacing) -> str:
    return {0.0: "as-fast-as-possible", 1.0: "real-time"}.get(value.factor, f"{value.factor!r} x")


PacingText = Annotated[
    Pacing,
    TextForm(
        Pacing,
        _read_pacing,
        _write_pacing,
        {
            "pattern": r"^\s*(as-fast-as-possible|real-time|\d+(\.\d*)?\s*x)\s*$",
            "description": "how simulated time follows the wall clock",
            "examples": ["as-fast-as-possible", "real-time", "10 x"],
        },
    ),
]


class Origin:
    """Pydantic marker: `[latitude, longitude]` in degrees, with or without a height that has a unit."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self._read,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda value: [*value[:2], units.show(value[2], "length")]
            ),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {
            "type": "array",
            "description": "latitude and longitude in degrees (WGS84), height above the ellipsoid with its unit",
            "prefixItems": [
                {"type": "number", "minimum": -90, "maximum": 90},
                {"type": "number", "minimum": -180, "maximum": 180},
                {"type": "string", "pattern": rf"^\s*{units.pattern('length')}\s*$"},
            ],
            "minItems": 2,
            "maxItems": 3,
            "examples": [[39.36, 22.95, "60 m"]],
        }

    @staticmethod
    def _read(found: object) -> tuple[float, float, float]:
        if not isinstance(found, (list, tuple)) or len(found) not in (2, 3):
            raise ValueError("expected [latitude, longitude] or [latitude, longitude, height]")
        degrees = [float(part) for part in found[:2] if isinstance(part, (int, float)) and not isinstance(part, bool)]
        if len(degrees) != 2 or not (abs(degrees[0]) <= 90 and abs(degrees[1]) <= 180):
            raise ValueError(f"{list(found[:2])} is not a latitude (-90..90) and a longitude (-180..180) in degrees")
        return degrees[0], degrees[1], units.parse(found[2], "length") if len(found) == 3 else 0.0
