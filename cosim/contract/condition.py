"""Conditions as authors write them, one grammar for all: orders of engagements, labels of data sets, goals of a search.

    target.behaviour.state == "working" and drone.vehicle.charge > 50 %
    jamming.loss >= 3
    late_share < 1 %

There are names, numbers, + - * /, comparisons, and, or, not, and the functions abs, min, max and hypot. A number is
in the unit of what it is compared with, or has a unit of its own behind it. Columns of codes and words are compared
with words; quotes around a word may be left out where it is letters, digits, _ and -. What a name stands for is
the use's: see `Names`; `time` is one of them where there is a present, in s. Nothing else is understood, and
nothing is ever run as code.
"""

from __future__ import annotations

import ast
import functools
import keyword
import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from cosim.contract import units
from cosim.contract.hints import did_you_mean
from cosim.contract.signals import Signal

Kind = Literal["number", "truth", "word", "any"]  # any: known when values are there
Value = float | bool | str
Reading = Callable[..., Value | None]  # the parts of a name, as role, signal, column -> value, None: not known


@dataclass(frozen=True, slots=True)
class Named:
    """What a name stands for. `unit` None: it is not known, and numbers with any unit are left as they are."""

    kind: Kind
    unit: str | None = ""
    codes: tuple[str, ...] = ()  # words that it may be; (): any
    low: float = -math.inf
    high: float = math.inf


Names = Callable[[tuple[str, ...]], Named]  # the parts of a name -> what it stands for; raises `ValueError`


@dataclass(frozen=True, slots=True)
class Term:
    """A name compared with a number, which is as it was written."""

    name: tuple[str, ...]
    sign: str  # < <= > >= == !=
    number: float
    unit: str


LONGEST: Final = 1_000  # characters
_ARITHMETIC: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_COMPARISONS: Final[Mapping[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]]] = {
    ast.Lt: ("<", operator.lt), ast.LtE: ("<=", operator.le), ast.Gt: (">", operator.gt), ast.GtE: (">=", operator.ge),
    ast.Eq: ("==", operator.eq), ast.NotEq: ("!=", operator.ne),
}  # fmt: skip
_TURNED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_FUNCTIONS: Final[Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {  # of numbers, of rows
    "abs": (abs, np.abs), "min": (min, np.minimum), "max": (max, np.maximum), "hypot": (math.hypot, np.hypot),
}  # fmt: skip
_TEXT = r"'[^']*'|\"[^\"]*\""
_NUMBER = r"(?<![\w.])(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_QUANTITY = re.compile(rf"{_TEXT}|({_NUMBER})(\s*)([A-Za-z/%][\w/%]*)(?!\s*\()", re.ASCII)
_ALL_UNITS = frozenset(unit for units_of in units.DIMENSIONS.values() for unit in units_of)
_WORD = re.compile(r"[A-Za-z_]\w*(?:-\w+)*", re.ASCII)
_TRUTHS = {"true": True, "false": False}
_Evaluated = Callable[[Callable[..., Any], float], Any]


class ConditionError(ValueError):
    """What is wrong in the text of a condition, and at which character of it, from 1."""

    def __init__(self, text: str, column: int) -> None:
        super().__init__(f"{text}, at character {column}")
        self.column = column


class _UnknownError(Exception):
    """A value that is not known now."""


def over(roles: Collection[str], signals: Mapping[str, Signal]) -> Names:
    """Names `role.signal.column`: what the bus last carried of the node that plays the role."""

    def named(parts: tuple[str, ...]) -> Named:
        if parts == ("time",):
            return Named("number", "s")
        if len(parts) != 3:
            known = f"'{parts[0]}' is not known; " if len(parts) == 1 else "is not understood; "
            raise ValueError(f"{known}write ROLE.SIGNAL.COLUMN{' or time' if len(parts) == 1 else ''}")
        role, signal, column = parts
        if role not in roles:
            raise ValueError(_unknown("role", role, roles))
        if signal not in signals:
            raise ValueError(_unknown("signal", signal, signals))
        if signals[signal].rows != "node":
            raise ValueError(f"'{signal}' has events or links, not one row for each node")
        names = [one.name for one in signals[signal].columns]
        if column not in names:
            raise ValueError(_unknown("column", column, names, f" of '{signal}'"))
        found = signals[signal].column(column)
        kind: Kind = "word" if found.role == "code" else "truth" if found.dtype == "bool" else "number"
        codes = found.codes if isinstance(found.codes, tuple) else ()
        return Named(kind, found.unit, codes, found.low, found.high)

    return named


class Condition:
    """A condition of `text` over `names`. Raises `ConditionError`."""

    def __init__(self, text: str, names: Names) -> None:
        self.text = text
        self.values: set[tuple[str, ...]] = set()  # names that it looks at, in parts
        self._kinds: dict[tuple[str, ...], Kind] = {}  # name -> what it is compared with
        self._names = names
        if len(text) > LONGEST:
            raise ConditionError(f"a condition has at most {LONGEST} characters", LONGEST)
        if not text.isascii():  # the parser reports positions in bytes
            odd = next(k for k, letter in enumerate(text) if not letter.isascii())
            raise ConditionError(f"'{text[odd]}' is not understood", odd + 1)
        self._units: dict[int, str] = {}  # where a number begins -> its unit
        bare = _QUANTITY.sub(self._without_unit, text)
        self._indent = len(bare) - len(bare.lstrip())
        try:
            tree = ast.parse(bare.strip(), mode="eval")
        except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
            at = self._indent + int(getattr(error, "offset", None) or 1)
            raise ConditionError(f"cannot be read{_usual(text)}", at) from error
        self._body = tree.body
        self._evaluated = self._of("truth", tree.body, whole=True)

    @property
    def signals(self) -> tuple[str, ...]:
        """Those that it looks at, in the order of their names."""
        return tuple(sorted({parts[-2] for parts in self.values}))

    def met(self, reading: Reading, time: float) -> bool | None:
        """Whether it holds at `time` s; None when a value that decides it is not known, or a division is by 0."""
        try:
            return bool(self._evaluated(reading, time))
        except (_UnknownError, ZeroDivisionError, OverflowError):
            return None

    def rows(self, columns: Mapping[tuple[str, ...], NDArray[Any]]) -> NDArray[np.bool_]:
        """In which of n rows it holds; `columns` (n,) by name. Not where a value that it looks at is NaN or "".

        Raises `TypeError` for words and numbers that are compared with each other.
        """
        for parts, kind in self._kinds.items():
            if (kind == "word") != (columns[parts].dtype.kind in "USO"):
                raise TypeError(f"'{'.'.join(parts)}' is compared with {'words' if kind == 'word' else 'numbers'}")
        count = max((len(column) for column in columns.values()), default=0)
        with np.errstate(all="ignore"):
            found = self._evaluated(lambda *parts: columns[parts], 0.0)
        holds: NDArray[np.bool_] = np.broadcast_to(found, count).astype(np.bool_)
        for parts in self.values:
            column = columns[parts]
            if column.dtype.kind in "USO":
                holds &= np.asarray(column != "", np.bool_)
            elif column.dtype.kind == "f":
                holds &= ~np.isnan(column)
        return holds

    def comparisons(self) -> list[Term]:
        """Comparisons of a name with a number that must all hold. Raises `ConditionError` for anything else."""
        joined = isinstance(self._body, ast.BoolOp) and isinstance(self._body.op, ast.And)
        return [self._comparison(part) for part in (self._body.values if joined else [self._body])]  # type: ignore[attr-defined]

    def _comparison(self, node: ast.expr) -> Term:
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                for name, number, turned in ((left, right, False), (right, left, True)):
                    parts, plain = _parts(name), self._plain(number)
                    if parts and plain is not None:
                        sign = _COMPARISONS[type(op)][0]
                        return Term(parts, _TURNED[sign] if turned else sign, *plain)
        raise self._wrong("is not a name that is compared with a number", node)

    def _without_unit(self, found: re.Match[str]) -> str:
        """The number alone, as long as it was with its unit."""
        number, space, unit = found.groups()
        if number is None or keyword.iskeyword(unit) or (unit[0] == "/" and unit not in _ALL_UNITS):
            return found[0]
        if unit not in _ALL_UNITS:
            near = did_you_mean(unit, sorted(_ALL_UNITS))
            raise ConditionError(f"there is no unit '{unit}'; {near}", found.start(3) + 1)
        self._units[found.start(1)] = unit
        return number + " " * (len(space) + len(unit))

    def _made(self, node: ast.expr) -> tuple[Kind, _Evaluated]:
        match node:
            case ast.BoolOp(op=op, values=parts):
                truths = [self._of("truth", part) for part in parts]
                if isinstance(op, ast.And):
                    return "truth", lambda reading, time: _all(one(reading, time) for one in truths)
                return "truth", lambda reading, time: _any(one(reading, time) for one in truths)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                truth = self._of("truth", inner)
                return "truth", lambda reading, time: truth(reading, time) ^ True
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                number = self._of("number", inner)
                return "number", lambda reading, time: -number(reading, time)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                does, a, b = _ARITHMETIC[type(op)], self._of("number", left), self._of("number", right)
                return "number", lambda reading, time: does(a(reading, time), b(reading, time))
            case ast.Compare():
                return "truth", self._compared(node)
            case ast.Call(func=ast.Name(id=name), args=given, keywords=[]) if name in _FUNCTIONS:
                if len(given) != 1 if name == "abs" else len(given) < 2:
                    raise self._wrong(f"'{name}' takes {'one value' if name == 'abs' else 'two values or more'}", node)
                inside = [self._of("number", part) for part in given]
                return "number", lambda reading, time: _applied(name, [one(reading, time) for one in inside])
            case ast.Constant(value=bool(truth_value)):
                return "truth", lambda _reading, _time: truth_value
            case ast.Constant(value=int() | float() as plain):
                if self._indent + node.col_offset in self._units:
                    raise self._wrong("a unit is understood in a comparison with a name only", node)
                return "number", lambda _reading, _time: float(plain)
            case ast.Constant(value=str(word)):
                return "word", lambda _reading, _time: word
            case ast.Name(id="true" | "false" as word):
                return "truth", lambda _reading, _time: _TRUTHS[word]
            case ast.Attribute() | ast.Name():
                return self._named(node)
        raise self._wrong("is not understood here", node)

    def _of(self, kind: Kind, node: ast.expr, *, whole: bool = False) -> _Evaluated:
        found, made = self._made(node)
        if whole and found not in (kind, "any"):
            raise ConditionError("is a value, not a condition: compare it with something", 1)
        if found not in (kind, "any"):
            words = {"number": "a number", "truth": "a condition", "word": "a word"}
            raise self._wrong(f"is {words[found]}, where {words[kind]} is needed", node)
        return made

    def _compared(self, node: ast.Compare) -> _Evaluated:
        sides = [node.left, *node.comparators]
        for op in node.ops:
            if type(op) not in _COMPARISONS:
                raise self._wrong("compares as is not understood; there are < <= > >= == !=", node)
        made = self._sides(node, sides)
        kinds = {kind for kind, _ in made} - {"any"}
        if len(kinds) > 1:
            raise self._wrong("compares different things", node)
        if kinds - {"number"} and not all(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
            raise self._wrong("has an order for numbers only; compare with == or !=", node)
        if kinds == {"word"}:
            self._known_words(node, sides)
        self._kinds.update((parts, kind) for kind in kinds for side in sides if (parts := _parts(side)) in self.values)
        for op, a, b in zip(node.ops, sides, sides[1:], strict=False):
            self._possible(_COMPARISONS[type(op)][0], a, b)
        pairs = zip(node.ops, made, made[1:], strict=False)
        steps = [(_COMPARISONS[type(op)][1], a, b) for op, (_, a), (_, b) in pairs]
        return lambda reading, time: _all(does(a(reading, time), b(reading, time)) for does, a, b in steps)

    def _sides(self, node: ast.Compare, sides: Sequence[ast.expr]) -> list[tuple[Kind, _Evaluated]]:
        """What is compared: words may stand without quotes beside a word, numbers with a unit beside a name."""
        equal = all(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops)
        named = [found for side in sides if (found := self._known(side)) is not None]
        wordy = equal and any(found.kind in ("word", "any") for found in named)
        made: list[tuple[Kind, _Evaluated]] = []
        for side in sides:
            plain = self._plain(side)
            word = self._bare_word(side) if wordy else None
            if word is not None:
                made.append(("word", _constant(word)))
            elif plain is not None and plain[1]:
                made.append(("number", _constant(self._in_unit(side, *plain, named))))
            else:
                made.append(self._made(side))
        return made

    def _bare_word(self, node: ast.expr) -> str | None:
        """A word without quotes, as home-idle; None when `node` is something else."""
        text = ast.get_source_segment(self.text.strip(), node) or ""
        return (
            text
            if _WORD.fullmatch(text) and text not in (*_TRUTHS, "True", "False") and not self._known(node)
            else None
        )

    def _plain(self, node: ast.expr) -> tuple[float, str] | None:
        """A number and its unit; None when `node` is something else."""
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() as inner):
                found = self._plain(inner)
                return None if found is None else (-found[0], found[1])
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return float(number), self._units.get(self._indent + node.col_offset, "")
        return None

    def _known(self, node: ast.expr) -> Named | None:
        """What the name in `node` stands for; None when it is no name, or not known."""
        parts = _parts(node)
        try:
            return self._names(parts) if parts else None
        except ValueError:
            return None

    def _in_unit(self, node: ast.expr, number: float, unit: str, named: Sequence[Named]) -> float:
        """`number` in the unit of the names that it is compared with."""
        for found in named:
            if found.unit is not None:
                try:
                    number = units.convert(number, unit, found.unit)
                except ValueError as error:
                    raise self._wrong(str(error), node) from None
                break
        if not named:
            raise self._wrong("a unit is understood in a comparison with a name only", node)
        return number

    def _possible(self, sign: str, a: ast.expr, b: ast.expr) -> None:
        """Refuse a comparison that no value of a column can meet."""
        for name, other, turned in ((a, b, False), (b, a, True)):
            known, plain = self._known(name), self._plain(other)
            if known is None or plain is None or known.kind != "number":
                continue
            number = units.convert(*plain, known.unit or "") if plain[1] and known.unit is not None else plain[0]
            sign = _TURNED[sign] if turned else sign
            below = {"<": number <= known.low, "<=": number < known.low, "==": number < known.low}.get(sign, False)
            above = {">": number >= known.high, ">=": number > known.high, "==": number > known.high}.get(sign, False)
            if below or above:
                unit = f" {known.unit}" if known.unit not in (None, "", "1") else ""
                bound = f"below {known.low:g}" if below else f"above {known.high:g}"
                raise self._wrong(f"'{'.'.join(_parts(name))}' is never {bound}{unit}, so this never holds", name)

    def _known_words(self, node: ast.Compare, sides: Sequence[ast.expr]) -> None:
        """Refuse words that no column of codes beside them has."""
        named = [found for side in sides if (found := self._known(side)) is not None]
        if not named:
            raise self._wrong("compares words with words", node)
        codes = [found.codes for found in named if found.codes]
        for side in sides:
            word = side.value if isinstance(side, ast.Constant) else self._bare_word(side)
            if word is not None and codes and not any(word in known for known in codes):
                raise self._wrong(f"{word!r} is none of {', '.join(codes[0])}", side)

    def _named(self, node: ast.expr) -> tuple[Kind, _Evaluated]:
        parts = _parts(node)
        try:
            kind = self._names(parts).kind
        except ValueError as error:
            raise self._wrong(str(error), node) from None
        if parts == ("time",):
            return kind, lambda _reading, time: time
        self.values.add(parts)

        def value(reading: Callable[..., Any], _time: float) -> Any:  # noqa: ANN401 - of one moment, or of rows
            found = reading(*parts)
            if found is None or (isinstance(found, float) and math.isnan(found)):
                raise _UnknownError
            return found

        return kind, value

    def _wrong(self, text: str, node: ast.expr) -> ConditionError:
        if text.startswith(("is ", "has ", "compares ")):
            part = ast.get_source_segment(self.text.strip(), node)
            text = f"'{part}' {text}"
        return ConditionError(text, self._indent + node.col_offset + 1)


def _parts(node: ast.expr) -> tuple[str, ...]:
    """The parts of a dotted name; () when `node` is none."""
    if isinstance(node, ast.Attribute):
        before = _parts(node.value)
        return (*before, node.attr) if before else ()
    return (node.id,) if isinstance(node, ast.Name) else ()


def _constant(value: Value) -> _Evaluated:
    return lambda _reading, _time: value


def _all(parts: Iterable[Any]) -> Any:  # noqa: ANN401 - a truth, or one for each row
    """Whether all hold; what comes after one that does not is not looked at."""
    found: Any = True
    for part in parts:
        found = found & part
        if found is False:
            break
    return found


def _any(parts: Iterable[Any]) -> Any:  # noqa: ANN401 - as above
    found: Any = False
    for part in parts:
        found = found | part
        if found is True:
            break
    return found


def _applied(name: str, values: list[Any]) -> Any:  # noqa: ANN401 - a number, or one for each row
    of_numbers, of_rows = _FUNCTIONS[name]
    if not any(isinstance(value, np.ndarray) for value in values):
        return of_numbers(*values)
    return of_rows(values[0]) if len(values) == 1 else functools.reduce(of_rows, values)


def _usual(text: str) -> str:
    """What is wrong with it in most cases."""
    bare = re.sub(_TEXT, "", text)
    if "&&" in bare or "||" in bare:
        return ": write 'and' and 'or'"
    return ": write == for 'is equal'" if re.search(r"[^=<>!]=[^=]", bare) else ""


def _unknown(what: str, name: str, known: Collection[str], of: str = "") -> str:
    return f"there is no {what} '{name}'{of}; {did_you_mean(name, sorted(known))}"
