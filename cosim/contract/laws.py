"""Probability laws over quantities, and values that authors write as one text and models hold as numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from cosim.contract import units
from cosim.contract.trust import PlainText


class TextForm(PlainText):
    """Pydantic marker: the field is written as text, read by `read` and printed by `write`.

    `read` gets whatever the file holds and raises `ValueError`; a `value_type` passes as it is.
    `schema` is its JSON schema beside ``type: string``.
    """

    def __init__(
        self,
        value_type: type,
        read: Callable[[object], object],
        write: Callable[[Any], str],  # the value that `read` returned
        schema: dict[str, Any],  # JSON values
    ) -> None:
        self.value_type, self.read, self.write, self.schema = value_type, read, write, schema

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            lambda found: found if isinstance(found, self.value_type) else self.read(found),
            serialization=core_schema.plain_serializer_function_ser_schema(
                self.write, return_schema=core_schema.str_schema()
            ),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", **self.schema}


@dataclass(frozen=True, slots=True)
class Law:
    """A probability law over a quantity, in SI: `fixed` a, `exponential` mean a, `uniform` a..b, `log-normal` of
    mean a and standard deviation a b. With two modes a `share` of the draws is `times` as large."""

    law: Literal["fixed", "exponential", "uniform", "log-normal"]
    a: float
    b: float = 0.0
    share: float = 0.0
    times: float = 1.0

    @property
    def mean(self) -> float:
        usual = (self.a + self.b) / 2 if self.law == "uniform" else self.a
        return usual * (1.0 + self.share * (self.times - 1.0))


class LawText(TextForm):
    """A law over `dimension`: `180 kB`, `exponential 180 kB`, `uniform 10 kB .. 20 kB`, `15 kB +- 20 %` (uniform) or
    `log-normal 15 kB +- 40 %` (standard deviation). Of `work` each may end with a second mode: `, 20 % x 8` makes a
    fifth of the draws eight times as large."""

    def __init__(self, dimension: str) -> None:
        self.dimension = dimension
        self.modes = dimension == "work"
        times = rf"(\s*,\s*{units.pattern('fraction')}\s*x\s*\d+(\.\d+)?)?" if self.modes else ""
        self.sample = {"bytes": "180 kB", "work": "90 Mcycles", "operations": "2 TFLOP", "fraction": "80 %"}[dimension]
        super().__init__(Law, self._read, self._write, {
            "pattern": rf"^\s*(exponential\s+|log-normal\s+|uniform\s+\S.*\.\.\s*)?{units.pattern(dimension)}"
            rf"(\s*(\+-|±)\s*{units.pattern('fraction')})?{times}\s*$",
            "description": f"{units.noun(dimension)}: fixed, or drawn from a law",
            "examples": [self.sample, f"exponential {self.sample}", f"uniform {self.sample} .. {self.sample}",
                         f"{self.sample} +- 20 %", f"log-normal {self.sample} +- 40 %",
                         *([f"{self.sample}, 20 % x 8"] if self.modes else [])],
        })  # fmt: skip

    def _read(self, text: object) -> Law:
        if self.modes and isinstance(text, str) and "," in text:
            usual, _, second = text.partition(",")
            share, mark, times = second.partition("x")
            if not mark:
                raise ValueError(f"'{text}' needs a second mode, for example '{self.sample}, 20 % x 8'")
            part = units.parse(share, "fraction")
            try:
                factor = float(times)
            except ValueError:
                raise ValueError(f"'{times.strip()}' in '{text}' is not a number") from None
            if not 0.0 <= part <= 1.0 or not 0.0 <= factor < math.inf:
                raise ValueError(f"'{text}' needs a part from 0 % to 100 %, and a factor that is not negative")
            return replace(self._one(usual), share=part, times=factor)
        return self._one(text)

    def _one(self, text: object) -> Law:
        word, _, rest = text.strip().partition(" ") if isinstance(text, str) else ("", "", "")
        if word == "exponential":
            return Law(law="exponential", a=self._amount(rest))
        if word == "uniform":
            low, dots, high = rest.partition("..")
            if not dots:
                raise ValueError(f"'{text}' needs two bounds, for example 'uniform {self.sample} .. {self.sample}'")
            a, b = self._amount(low), self._amount(high)
            if b < a:
                raise ValueError(f"the upper bound of '{text}' is below the lower one")
            return Law(law="uniform", a=a, b=b)
        if word == "log-normal":
            mean, mark, spread = re.sub("±", "+-", rest).partition("+-")
            if not mark:
                raise ValueError(f"'{text}' needs a deviation, for example 'log-normal {self.sample} +- 40 %'")
            share = units.parse(spread, "fraction")
            if not 0.0 <= share <= 10.0:
                raise ValueError(f"'{text}' needs a deviation from 0 % to 1000 % of the mean")
            return Law(law="log-normal", a=self._amount(mean), b=share)
        if isinstance(text, str) and (parts := re.split(r"\+-|±", text))[1:]:
            if len(parts) != 2:
                raise ValueError(f"'{text}' is not a law; write for example '{self.sample} +- 20 %'")
            middle, part = self._amount(parts[0]), units.parse(parts[1], "fraction")
            if not 0.0 <= part <= 1.0:
                raise ValueError(f"'{text}' needs a part from 0 % to 100 %")
            return Law(law="uniform", a=middle * (1.0 - part), b=middle * (1.0 + part))
        return Law(law="fixed", a=self._amount(text))

    def _write(self, value: Law) -> str:
        if value.share > 0.0:
            usual = self._write(replace(value, share=0.0, times=1.0))
            return f"{usual}, {units.show(value.share, 'fraction')} x {value.times!r}"
        shown = units.show(value.a, self.dimension)
        if value.law == "uniform":
            return f"uniform {shown} .. {units.show(value.b, self.dimension)}"
        if value.law == "log-normal":
            return f"log-normal {shown} +- {units.show(value.b, 'fraction')}"
        return shown if value.law == "fixed" else f"{value.law} {shown}"

    def _amount(self, text: object) -> float:
        value = units.parse(text, self.dimension)
        if value < 0:
            raise ValueError(f"'{text}' must not be negative")
        return value
