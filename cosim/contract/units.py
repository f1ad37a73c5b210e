"""Text with units at the edge, SI floats inside.

`parse("20 ms", "time")` gives `0.02`. A bare number for a quantity that has a dimension is an
error, because its unit cannot be recovered later. Zero is no exception.

The annotated types (`Duration`, `Bytes`, `BitRate`, ...) are what pydantic models use for their
fields: they accept the text, hold the SI float, and print as text again when a scenario is dumped.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from cosim.contract.hints import nearest

_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_LARGE = {**_PREFIXES, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}


def _prefixed(unit: str, prefixes: dict[str, float] = _PREFIXES) -> dict[str, float]:
    return {prefix + unit: factor for prefix, factor in prefixes.items()}


# dimension -> unit -> factor to the SI unit that is named first
DIMENSIONS: dict[str, dict[str, float]] = {
    "time": {"s": 1.0, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "min": 60.0, "h": 3600.0, "d": 86400.0},
    "length": {"m": 1.0, "mm": 1e-3, "cm": 1e-2, "km": 1e3},
    "speed": {"m/s": 1.0, "km/h": 1 / 3.6},
    "density": {"/m2": 1.0, "/ha": 1e-4, "/km2": 1e-6},
    "frequency": {"Hz": 1.0, **_prefixed("Hz"), "/s": 1.0, "/min": 1 / 60, "/h": 1 / 3600},
    "bytes": {"B": 1.0, **_prefixed("B"), **_prefixed("B", _BINARY), "bit": 1 / 8, "kbit": 125.0, "Mbit": 125e3},
    "rate": {"bit/s": 1.0, **_prefixed("bit/s"), "bps": 1.0, **_prefixed("bps"), "B/s": 8.0, "kB/s": 8e3, "MB/s": 8e6},
    "work": {"cycles": 1.0, **_prefixed("cycles")},
    "operations": {"FLOP": 1.0, **_prefixed("FLOP", _LARGE), "OP": 1.0, **_prefixed("OP", _LARGE)},
    "operation rate": {"FLOPS": 1.0, **_prefixed("FLOPS", _LARGE), "OPS": 1.0, **_prefixed("OPS", _LARGE)},
    "voltage": {"V": 1.0, "mV": 1e-3},
    "charge": {"Ah": 3600.0, "mAh": 3.6},  # A s
    "activity": {"W/V2/GHz": 1.0},
    "power": {"W": 1.0, "mW": 1e-3, "kW": 1e3, "MW": 1e6},
    "energy": {"J": 1.0, "kJ": 1e3, "MJ": 1e6, "Wh": 3600.0, "mWh": 3.6, "kWh": 3.6e6},
    "energy per bit": {"J/bit": 1.0, "mJ/bit": 1e-3, "uJ/bit": 1e-6, "nJ/bit": 1e-9, "pJ/bit": 1e-12},
    "level": {"dBm": 1.0},  # logarithmic: kept in dBm
    "gain": {"dB": 1.0, "dBi": 1.0},  # logarithmic: kept in dB
    "fraction": {"%": 0.01},
    "mass": {"kg": 1.0, "g": 1e-3, "t": 1e3},
    "resistance": {"ohm": 1.0, "mohm": 1e-3},
    "acceleration": {"m/s2": 1.0},
    "illuminance": {"lx": 1.0, "klx": 1e3},
    "angle": {"deg": 1.0, "rad": 57.29577951308232},
    "price": {"EUR": 1.0, "USD": 1.0, "cent": 0.01},
    "price per energy": {"/kWh": 1 / 3.6e6, "/MWh": 1 / 3.6e9, "/J": 1.0},
    "carbon per energy": {"g/kWh": 1 / 3.6e6, "kg/kWh": 1 / 3.6e3, "g/J": 1.0},
    "price per time": {"/s": 1.0, "/h": 1 / 3600, "/d": 1 / 86400},
    "price per bytes": {"/GB": 1e-9, "/MB": 1e-6, "/B": 1.0},
    "power per bytes": {"W/GB": 1e-9, "mW/GB": 1e-12, "W/GiB": 2.0**-30},
}

_EXAMPLES = {
    "time": "20 ms", "length": "120 m", "speed": "30 km/h", "frequency": "2 Hz", "bytes": "180 kB",
    "rate": "100 Mbit/s", "work": "90 Mcycles", "operations": "2 TFLOP", "operation rate": "10 TFLOPS",
    "voltage": "1.1 V", "charge": "5000 mAh", "activity": "19 W/V2/GHz", "power": "2.7 W", "energy": "18.75 Wh",
    "energy per bit": "46.7 nJ/bit", "level": "23 dBm", "gain": "8 dB", "fraction": "5 %", "angle": "90 deg",
    "density": "40 /km2", "price": "3 EUR", "price per energy": "0.25 /kWh", "price per time": "0.05 /h",
    "price per bytes": "0.01 /GB", "power per bytes": "0.392 W/GB",
    "carbon per energy": "400 g/kWh", "mass": "1.5 kg", "resistance": "20 mohm", "acceleration": "2.5 m/s2",
    "illuminance": "10 klx",
}  # fmt: skip

_QUANTITY = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s].*?)?\s*", re.ASCII)
_CLOCK = re.compile(r"\d+:\d\d|\d{4}-\d\d-\d\d", re.ASCII)
_SPELT_OUT = {
    "sec": "s", "second": "s", "msec": "ms", "millisecond": "ms", "microsecond": "us", "minute": "min", "min": "min",
    "hr": "h", "hour": "h", "day": "d", "meter": "m", "metre": "m", "kph": "km/h", "kmh": "km/h", "mp": "m/s",
    "byte": "B", "cycle": "cycles", "watt": "W", "joule": "J", "percent": "%", "degree": "deg",
}  # fmt: skip
# Bounds of either sign where a key declares none of its own. Lengths: m, beyond every orbit around the Earth in use.
# Gains: dB; an isotropic link across such a length at 1 THz loses 252 dB.
LARGEST = {"length": 1e8, "gain": 300.0}
_LONGEST = 64  # characters; no honest quantity is longer


def noun(dimension: str) -> str:
    """What a quantity of `dimension` is called, with its article."""
    word = {
        "bytes": "number of bytes",
        "work": "number of cycles",
        "rate": "bit rate",
        "operations": "number of operations",
    }.get(dimension, dimension)
    return f"an {word}" if word[0] in "aeio" else f"a {word}"


def parse(text: object, dimension: str) -> float:
    """The SI value of `text`, for example ``parse("20 ms", "time") == 0.02``.

    Raises `ValueError` that names what was found, an example of what is expected, and the known
    units. The value is finite; the sign is the caller's affair.
    """
    units = DIMENSIONS[dimension]
    example = _EXAMPLES[dimension]
    if isinstance(text, bool) or not isinstance(text, str):
        if isinstance(text, (int, float)) and not isinstance(text, bool):
            raise ValueError(f"{text!r} has no unit; write {noun(dimension)} with its unit, for example '{example}'")
        raise ValueError(f"expected {noun(dimension)} such as '{example}', found {type(text).__name__}")
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(
            f"'{text[:_LONGEST]}' is not {noun(dimension)}; write a number and a unit, for example '{example}'"
        )
    number, unit = match.groups()
    if unit is None:
        raise ValueError(f"'{text}' has no unit; write {noun(dimension)} with its unit, for example '{example}'")
    if unit not in units:
        raise ValueError(f"unknown unit '{unit}' for {noun(dimension)}; {_instead(text, unit, dimension)}")
    value = float(number) * units[unit]
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"'{text}' is too large")
    return value


def _instead(text: str, unit: str, dimension: str) -> str:
    """What to write instead of `text`, whose `unit` no quantity of `dimension` has."""
    if dimension == "time" and _CLOCK.match(text.strip()):
        return f"write how long it is, or how long after the start of the run, for example '{_EXAMPLES[dimension]}'"
    if unit.startswith(","):
        return f"decimals have a point, for example '1.5 {next(iter(DIMENSIONS[dimension]))}'"
    if (
        not unit.isascii()
        and (plain := unit.strip().replace("\u00b5", "u").replace("\u03bc", "u")) in DIMENSIONS[dimension]
    ):
        return f"write '{plain}', with an ordinary space before it"
    if (short := _SPELT_OUT.get(unit.lower().rstrip("s."), "")) in DIMENSIONS[dimension]:
        return f"write '{short}'"
    near = "" if unit in DIMENSIONS[dimension] else nearest(unit, DIMENSIONS[dimension], cutoff=0.99)
    return f"did you mean '{near}'?" if near else f"known units: {', '.join(DIMENSIONS[dimension])}"


def convert(number: float, unit: str, to: str) -> float:
    """`number` of `unit` in the unit `to`; "" and "1" are no unit, of which "%" is a hundredth.

    Raises `ValueError` when they measure different things.
    """
    to = to.removeprefix("1")
    if not to and unit in ("", "%"):
        return number * (0.01 if unit else 1.0)
    for known in DIMENSIONS.values():
        if unit in known and to in known:
            return number * known[unit] / known[to]
    units = next((known for known in DIMENSIONS.values() if to in known), {})
    what = f"in {to}; units: {', '.join(units) or to}" if to else "without a unit; write a number or '1 %'"
    raise ValueError(f"'{number:g}{f' {unit}' if unit else ''}' is compared with a value {what}")


def show(value: float, dimension: str) -> str:
    """`value` (SI) as text that `parse` reads back to the same float."""
    unit, factor = next(iter(DIMENSIONS[dimension].items()))
    number = value / factor
    for candidate in (number, math.nextafter(number, math.inf), math.nextafter(number, -math.inf)):
        if candidate * factor == value:  # the division rounds; a neighbour may be the one that multiplies back
            number = candidate
            break
    return f"{number!r} {unit}".replace(".0 ", " ")


def pattern(dimension: str) -> str:
    """A regular expression (JSON schema dialect, not anchored) for the quantities of `dimension`."""
    names = "|".join(re.escape(unit) for unit in DIMENSIONS[dimension])
    return rf"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*({names})"


class Unit:
    """Pydantic marker: the field is written as text in `dimension` and held as an SI float."""

    def __init__(
        self, dimension: str, *, ge: float | None = None, gt: float | None = None, le: float | None = None
    ) -> None:
        most = LARGEST.get(dimension)
        self.dimension, self.gt = dimension, gt
        self.ge = -most if ge is gt is None and most is not None else ge
        self.le = most if le is None else le

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:  # noqa: ANN401
        return core_schema.no_info_plain_validator_function(
            self._validate,
            serialization=core_schema.plain_serializer_function_ser_schema(
                (lambda value: show(value, self.dimension)), return_schema=core_schema.str_schema()
            ),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {
            "type": "string",
            "pattern": rf"^\s*{pattern(self.dimension)}\s*$",
            "examples": [_EXAMPLES[self.dimension]],
            "x-dimension": self.dimension,
            "description": f"{noun(self.dimension)} with its unit, for example '{_EXAMPLES[self.dimension]}'",
        }

    def _validate(self, value: object) -> float:
        number = parse(value, self.dimension)
        if self.ge is not None and number < self.ge:
            raise ValueError(f"'{value}' must be at least {show(self.ge, self.dimension)}")
        if self.gt is not None and number <= self.gt:
            raise ValueError(f"'{value}' must be more than {show(self.gt, self.dimension)}")
        if self.le is not None and number > self.le:
            raise ValueError(f"'{value}' must be at most {show(self.le, self.dimension)}")
        return number


Duration = Annotated[float, Unit("time", ge=0.0)]  # s
Period = Annotated[float, Unit("time", gt=0.0)]  # s
Length = Annotated[float, Unit("length")]  # m
Distance = Annotated[float, Unit("length", ge=0.0)]  # m
Speed = Annotated[float, Unit("speed", ge=0.0)]  # m/s
Frequency = Annotated[float, Unit("frequency", gt=0.0)]  # Hz
Bytes = Annotated[float, Unit("bytes", ge=0.0)]  # B
BitRate = Annotated[float, Unit("rate", gt=0.0)]  # bit/s
Work = Annotated[float, Unit("work", gt=0.0)]  # cycles
Power = Annotated[float, Unit("power", ge=0.0)]  # W
Energy = Annotated[float, Unit("energy", ge=0.0)]  # J
EnergyPerBit = Annotated[float, Unit("energy per bit", ge=0.0)]  # J/bit
Level = Annotated[float, Unit("level", ge=-300.0, le=100.0)]  # dBm; 100 dBm are 10 MW
Gain = Annotated[float, Unit("gain")]  # dB
Fraction = Annotated[float, Unit("fraction", ge=0.0, le=1.0)]  # 1
Angle = Annotated[float, Unit("angle")]  # deg
PricePerEnergy = Annotated[float, Unit("price per energy", ge=0.0)]  # currency/J
CarbonIntensity = Annotated[float, Unit("carbon per energy", ge=0.0)]  # g/J
Price = Annotated[float, Unit("price", ge=0.0)]  # currency
PricePerTime = Annotated[float, Unit("price per time", ge=0.0)]  # currency/s
PricePerBytes = Annotated[float, Unit("price per bytes", ge=0.0)]  # currency/B
PowerPerBytes = Annotated[float, Unit("power per bytes", ge=0.0)]  # W/B
