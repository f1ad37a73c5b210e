"""Conditions over signals, as authors write them: `target.behaviour.state == "working" and drone.vehicle.charge > 0.5`.

A value is `role.signal.column`: what the bus last carried of the node that plays the role, in the unit of
the column. `time` is the time in s. There are numbers, + - * /, comparisons, and, or, not, and the
functions abs, min, max and hypot; columns of codes are compared with their words. Nothing else is
understood, and nothing is ever run as code.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Final, Literal

from cosim.contract.hints import did_you_mean
from cosim.contract.signals import Column, Signal

Kind = Literal["number", "truth", "word"]
Value = float | bool | str
Reading = Callable[[str, str, str], Value | None]  # role, signal, column -> value, None: not known

LONGEST: Final = 1_000  # characters
_ARITHMETIC: Final[Mapping[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[Value, Value], bool]]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_FUNCTIONS: Final[Mapping[str, Callable[..., float]]] = {"abs": abs, "min": min, "max": max, "hypot": math.hypot}
_Evaluated = Callable[[Reading, float], Value]


class ConditionError(ValueError):
    """What is wrong in the text of a condition, and at which character of it, from 1."""

    def __init__(self, text: str, column: int) -> None:
        super().__init__(f"{text}, at character {column}")
        self.column = column


class _UnknownError(Exception):
    """A value that is not known now."""


class Condition:
    """A condition of `text` over the `signals` of the nodes that play `roles`. Raises `ConditionError`."""

    def __init__(self, text: str, roles: Collection[str], signals: Mapping[str, Signal]) -> None:
        self.text = text
        self.values: set[tuple[str, str, str]] = set()  # role, signal, column that it looks at
        self._roles, self._signals = roles, signals
        if len(text) > LONGEST:
            raise ConditionError(f"a condition has at most {LONGEST} characters", LONGEST)
        if not text.isascii():  # the places that the parser tells are of bytes
            odd = next(k for k, letter in enumerate(text) if not letter.isascii())
            raise ConditionError(f"'{text[odd]}' is not understood", odd + 1)
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
            raise ConditionError("cannot be read", int(getattr(error, "offset", None) or 1)) from error
        kind, self._evaluated = self._made(tree.body)
        if kind != "truth":
            raise ConditionError("is a value, not a condition: compare it with something", 1)

    @property
    def signals(self) -> tuple[str, ...]:
        """Those that it looks at, in the order of their names."""
        return tuple(sorted({signal for _, signal, _ in self.values}))

    def met(self, reading: Reading, time: float) -> bool | None:
        """Whether it holds at `time` s; None when a value that decides it is not known, or a division is by 0."""
        try:
            return bool(self._evaluated(reading, time))
        except (_UnknownError, ZeroDivisionError, OverflowError):
            return None

    def _made(self, node: ast.expr) -> tuple[Kind, _Evaluated]:
        match node:
            case ast.BoolOp(op=op, values=parts):
                truths = [self._of("truth", part) for part in parts]
                if isinstance(op, ast.And):
                    return "truth", lambda reading, time: all(one(reading, time) for one in truths)
                return "truth", lambda reading, time: any(one(reading, time) for one in truths)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                truth = self._of("truth", inner)
                return "truth", lambda reading, time: not truth(reading, time)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                number = self._of("number", inner)
                return "number", lambda reading, time: -_number(number(reading, time))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                does, a, b = _ARITHMETIC[type(op)], self._of("number", left), self._of("number", right)
                return "number", lambda reading, time: does(_number(a(reading, time)), _number(b(reading, time)))
            case ast.Compare():
                return "truth", self._compared(node)
            case ast.Call(func=ast.Name(id=name), args=given, keywords=[]) if name in _FUNCTIONS:
                if len(given) != 1 if name == "abs" else len(given) < 2:
                    raise self._wrong(f"'{name}' takes {'one value' if name == 'abs' else 'two values or more'}", node)
                function, inside = _FUNCTIONS[name], [self._of("number", part) for part in given]
                return "number", lambda reading, time: function(*(_number(one(reading, time)) for one in inside))
            case ast.Constant(value=bool(truth_value)):
                return "truth", lambda _reading, _time: truth_value
            case ast.Constant(value=int() | float() as plain):
                return "number", lambda _reading, _time: float(plain)
            case ast.Constant(value=str(word)):
                return "word", lambda _reading, _time: word
            case ast.Name(id="time"):
                return "number", lambda _reading, time: time
            case ast.Attribute():
                return self._named(node)
            case ast.Name(id=name):
                raise self._wrong(f"'{name}' is not known; write ROLE.SIGNAL.COLUMN or time", node)
        raise self._wrong("is not understood here", node)

    def _of(self, kind: Kind, node: ast.expr) -> _Evaluated:
        found, made = self._made(node)
        if found != kind:
            words = {"number": "a number", "truth": "a condition", "word": "a word"}
            raise self._wrong(f"is {words[found]}, where {words[kind]} is needed", node)
        return made

    def _compared(self, node: ast.Compare) -> _Evaluated:
        sides = [node.left, *node.comparators]
        made = [self._made(side) for side in sides]
        kinds = {kind for kind, _ in made}
        if len(kinds) > 1:
            raise self._wrong("compares different things", node)
        for op in node.ops:
            if type(op) not in _COMPARISONS:
                raise self._wrong("compares as is not understood; there are < <= > >= == !=", node)
            if kinds != {"number"} and not isinstance(op, ast.Eq | ast.NotEq):
                raise self._wrong("has an order for numbers only; compare with == or !=", node)
        if kinds == {"word"}:
            self._known_words(node, sides)
        steps = [(_COMPARISONS[type(op)], a, b) for op, (_, a), (_, b) in zip(node.ops, made, made[1:], strict=False)]
        return lambda reading, time: all(does(a(reading, time), b(reading, time)) for does, a, b in steps)

    def _known_words(self, node: ast.Compare, sides: list[ast.expr]) -> None:
        """Refuse words that no column of codes beside them has."""
        codes = [column.codes for side in sides if (column := self._column(side)) is not None]
        if not codes:
            raise self._wrong("compares words with words", node)
        for side in sides:
            if isinstance(side, ast.Constant) and not any(side.value in known for known in codes):
                raise self._wrong(f"{side.value!r} is none of {', '.join(codes[0])}", side)

    def _column(self, node: ast.expr) -> Column | None:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            return self._signals[node.value.attr].column(node.attr)
        return None

    def _named(self, node: ast.Attribute) -> tuple[Kind, _Evaluated]:
        """`role.signal.column`."""
        inner = node.value
        if not (isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name)):
            raise self._wrong("is not understood; write ROLE.SIGNAL.COLUMN", node)
        role, signal, column = inner.value.id, inner.attr, node.attr
        if role not in self._roles:
            raise self._wrong(_unknown("role", role, self._roles), node)
        if signal not in self._signals:
            raise self._wrong(_unknown("signal", signal, self._signals), node)
        if self._signals[signal].rows != "node":
            raise self._wrong(f"'{signal}' has events or links, not one row for each node", node)
        names = [one.name for one in self._signals[signal].columns]
        if column not in names:
            raise self._wrong(_unknown("column", column, names, f" of '{signal}'"), node)
        self.values.add((role, signal, column))
        known = self._signals[signal].column(column)
        kind: Kind = "word" if known.role == "code" else "truth" if known.dtype == "bool" else "number"

        def value(reading: Reading, _time: float) -> Value:
            found = reading(role, signal, column)
            if found is None or (isinstance(found, float) and math.isnan(found)):
                raise _UnknownError
            return found

        return kind, value

    def _wrong(self, text: str, node: ast.expr) -> ConditionError:
        before = len(self.text) - len(self.text.lstrip())
        if text.startswith(("is ", "has ", "compares ")):
            part = ast.get_source_segment(self.text.strip(), node)
            text = f"'{part}' {text}"
        return ConditionError(text, before + node.col_offset + 1)


def _number(value: Value) -> float:
    return float(value)


def _unknown(what: str, name: str, known: Collection[str], of: str = "") -> str:
    return f"there is no {what} '{name}'{of}; {did_you_mean(name, sorted(known))}"
