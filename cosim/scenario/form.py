"""The one number in a value as an author writes it: `2.7 W`, `poisson 2 Hz`, `4 x 1.8 GHz`, `0.5`.

form, low, high = between("exponential 300 Mcycles", "exponential 900 Mcycles")
form.text(450.0)  # "exponential 450 Mcycles"
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from cosim.contract.units import DIMENSIONS
from cosim.scenario.wording import found

# a number that is no part of a word: neither the 2 of m/s2 nor the 11 of 802.11n
_NUMBER = re.compile(r"(?<![\w.])[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?!\w)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Form:
    """A value with one number left open; both texts are empty for a plain number."""

    before: str = ""
    after: str = ""
    bare: bool = True  # the value is a number, not a text

    @property
    def unit(self) -> str:
        """What is written behind the number."""
        return self.after.strip()

    def text(self, number: float) -> str | float | int:
        """The value with `number` in it."""
        whole = float(number).is_integer() and abs(number) < 1e15
        if self.bare:
            return int(number) if whole else float(number)
        digits = str(int(number)) if whole else f"{Decimal(repr(float(number))):f}"  # some forms take no exponents
        return f"{self.before}{digits}{self.after}"

    def read(self, value: object) -> float | None:
        """The number in a `value` of this form, in another unit too; None for other values."""
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            return None
        if self.bare or isinstance(value, (int, float)):
            return float(value) if self.bare and not isinstance(value, str) else None
        for match in _NUMBER.finditer(value):
            before, after = value[: match.start()], value[match.end() :]
            if _same(before, self.before):
                factor = _factor(after.strip(), self.unit)
                if factor is not None:
                    return float(match[0]) * factor
        return None


def between(low: object, high: object) -> tuple[Form, float, float]:
    """The form that both bounds have, and their numbers. Raises `ValueError` with the reason when there is none."""
    for bound in (low, high):
        if isinstance(bound, bool) or not isinstance(bound, (int, float, str)):
            raise ValueError(f"a bound is a number or a text with a number, not {found(bound)}")
    if not isinstance(low, str) and not isinstance(high, str):
        assert isinstance(low, (int, float))
        assert isinstance(high, (int, float))
        return Form(), float(low), float(high)
    if not isinstance(low, str) or not isinstance(high, str):
        raise ValueError(f"one bound has a unit and the other has none: {found(low)} and {found(high)}")
    first, second = list(_NUMBER.finditer(low)), list(_NUMBER.finditer(high))
    if not first:
        raise ValueError(f"there is no number in {found(low)}; words are 'choices'")
    different = [k for k, (a, b) in enumerate(zip(first, second, strict=False)) if float(a[0]) != float(b[0])]
    if len(first) != len(second) or len(different) != 1:
        count = "all numbers are the same" if not different else "more than one number differs"
        raise ValueError(f"the bounds '{low}' and '{high}' must differ in one number: {count}")
    a, b = first[different[0]], second[different[0]]
    form = Form(low[: a.start()], low[a.end() :], bare=False)
    value = form.read(high) if len(first) == 1 else float(b[0]) if _same(_shape(low), _shape(high)) else None
    if value is None:
        raise ValueError(f"the bounds '{low}' and '{high}' must differ in one number, and in nothing else")
    return form, float(a[0]), value


def _shape(text: str) -> str:
    return _NUMBER.sub("#", text)


def _same(a: str, b: str) -> bool:
    return " ".join(a.split()) == " ".join(b.split())


def _factor(unit: str, wanted: str) -> float | None:
    """What turns a number of `unit` into one of `wanted`; None when they measure different things."""
    if _same(unit, wanted):
        return 1.0
    for units in DIMENSIONS.values():
        if unit in units and wanted in units:
            return units[unit] / units[wanted]
    return None
