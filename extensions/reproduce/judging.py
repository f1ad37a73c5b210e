"""A claim made again under several seeds, and whether what its source says of it holds here.

Two rules decide, both with intervals over seeds (Student's t):

- A number holds when the whole 95 % interval of ours lies as close to the source's as the claim's `within` asks (an
  equivalence test), and does not hold when the whole interval lies outside of that. Else it is not judged.
- A statement compares rows in pairs of equal seeds, by ratios where all values are positive. It holds when every
  interval of a difference, 95 % for all pairs of the statement together (Bonferroni), is on the stated side of 0, and
  does not hold when one is on the other side.

Fewer than `LEAST` seeds judge nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cosim
from cosim.contract.errors import SetupError
from cosim.contract.functions import attribute_of
from cosim.contract.units import parse
from cosim.extensions.reproduce.claims import Claim, Numbers, Statement
from cosim.extensions.reproduce.kept import resumed
from cosim.results.student import floor, interval

LEAST = 5  # seeds
WITHIN = "10 %"  # where a claim does not say how far a number may be off
HOLDS, FAILS, OPEN = "holds", "does not hold", "not judged"
_MANY = {HOLDS: "hold", FAILS: "do not hold"}


@dataclass(frozen=True)
class JudgedNumber:
    """A cell of the table: the source's number, ours with its 95 % interval, and whether that is the same."""

    row: str
    column: str
    source: float | None
    mean: float
    low: float
    high: float
    runs: int
    verdict: str  # "" where the source has no number
    why: str = ""


@dataclass(frozen=True)
class JudgedPair:
    """The difference of two rows in a column, as a share of the second, with its interval."""

    row: str
    other: str
    column: str
    share: float
    low: float
    high: float
    verdict: str


@dataclass(frozen=True)
class JudgedStatement:
    """What the source says, and whether it holds here."""

    text: str
    verdict: str
    why: str
    pairs: tuple[JudgedPair, ...]


@dataclass(frozen=True)
class Reproduction:
    """A claim with ours beside it."""

    claim: Claim
    quick: bool
    seeds: tuple[int, ...]
    settings: Mapping[str, Any]
    numbers: tuple[JudgedNumber, ...]
    statements: tuple[JudgedStatement, ...]
    folder: Path

    @property
    def verdict(self) -> str:
        """Of all statements and numbers but those that the claim leaves unjudged: the first of these three that occurs.

        One that does not hold decides, then one that is not judged.
        """
        all_of = {one.verdict for one in self.statements}
        all_of |= {one.verdict for one in self.numbers if one.column not in self.claim.unjudged}
        return next((one for one in (FAILS, OPEN, HOLDS) if one in all_of), OPEN)

    def counts(self) -> str:
        """How many statements and numbers hold, in words."""
        groups = {
            "statements": Counter(one.verdict for one in self.statements),
            "numbers": Counter(one.verdict for one in self.numbers),
        }
        words = [
            f"{name}: {', '.join(f'{found[one]} {one if found[one] == 1 else _MANY.get(one, one)}' for one in shown)}"
            for name, found in groups.items() if (shown := [one for one in (HOLDS, FAILS, OPEN) if found[one]])
        ]  # fmt: skip
        return "; ".join(words) or "the source's text has no numbers to compare with"

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "id": self.claim.id, "source": self.claim.source, "what": self.claim.what, "verdict": self.verdict,
            "quick": self.quick, "seeds": list(self.seeds), "settings": dict(self.settings),
            "statements": [{**vars(one), "pairs": [vars(pair) for pair in one.pairs]} for one in self.statements],
            "numbers": [vars(one) for one in self.numbers], "folder": str(self.folder),
        }  # fmt: skip


def reproduce(
    claim: Claim, folder: Path, seeds: Sequence[int], *, quick: bool = False, jobs: int = 1,
    changed: Mapping[str, Any] | None = None, notify: Callable[[str], None] | None = None,
) -> Reproduction:  # fmt: skip
    """Make all cases under all seeds, as far as they are not kept from the same code, and judge them.

    They are kept beside `folder`, so that claims with one function share them.
    `changed` are other values of settings. Raises `SetupError` where a package is missing, for settings that are none,
    and for a function that answers with anything but rows of columns of numbers.
    """
    if lacking := claim.missing():
        raise SetupError(f"{claim.id}: {lacking}")
    settings = claim.values(quick, changed or {})
    words = ", ".join([*(f"{name} {value}" for name, value in settings.items()), claim.prepare]).rstrip(", ")
    shared = f"{claim.id.partition('.')[0]}.{claim.function.partition(':')[2]}"  # as the claim itself in most cases
    file = folder.with_name(shared) / "results.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    code, prepared = [Path(cosim.__file__).parent, claim.code], None
    if claim.prepare:
        (prepared,) = resumed(
            _prepared, {f"preparation, {words}": (claim.prepare, settings)}, file, code, notify=notify
        )
    cases = {
        f"{case}, seed {seed}, {words}": (claim.function, settings, case, seed, prepared)
        for seed in seeds for case in claim.cases
    }  # fmt: skip
    rows = resumed(_numbers, cases, file, code, workers=jobs, notify=notify)
    found, part = list[Numbers](), claim.part
    for k in range(len(seeds)):
        of_seed: dict[str, dict[str, float]] = {}
        for answer in rows[k * len(claim.cases) : (k + 1) * len(claim.cases)]:
            for row, columns in answer.items():
                mine = {name.removeprefix(part): value for name, value in columns.items() if name.startswith(part)}
                of_seed.setdefault(row, {}).update(mine)
        found.append(_numbers(claim.summary, {}, of_seed) if claim.summary else of_seed)
    numbers, statements = judge(claim, found)
    return Reproduction(claim, quick, tuple(seeds), settings, numbers, statements, folder)


def _prepared(function: str, settings: dict[str, Any]) -> Any:  # noqa: ANN401 - what the claim's cases need
    return _function(function)(**settings)


def _function(place: str) -> Any:  # noqa: ANN401 - a claim's own function
    try:
        return attribute_of(*place.split(":"))
    except ValueError as error:
        raise SetupError(str(error)) from error


def _numbers(function: str, settings: dict[str, Any], *given: Any) -> Numbers:  # noqa: ANN401 - of cases, of a summary
    found = _function(function)(*given, **settings)
    try:
        return {row: {name: float(value) for name, value in columns.items()} for row, columns in found.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise SetupError(f"{function} answers {str(found)[:80]!r}, expected {{row: {{column: number}}}}") from error


def judge(claim: Claim, found: Sequence[Numbers]) -> tuple[tuple[JudgedNumber, ...], tuple[JudgedStatement, ...]]:
    """The numbers and statements of a claim by what was found under each seed."""
    rows = dict.fromkeys((*claim.numbers, *(row for one in found for row in one)))
    columns = dict.fromkeys((*claim.columns, *(name for one in found for row in one.values() for name in row)))
    numbers = [_number(claim, row, column, _values(found, row, column)) for row in rows for column in columns]
    kept = tuple(one for one in numbers if one.runs or one.source is not None)
    return kept, tuple(_statement(one, found) for one in claim.statements)


def _values(found: Sequence[Numbers], row: str, column: str) -> list[float]:
    """Of each seed; none where a seed has none."""
    values = [one.get(row, {}).get(column, math.nan) for one in found]
    return values if all(map(math.isfinite, values)) else []


def _number(claim: Claim, row: str, column: str, values: list[float]) -> JudgedNumber:
    source = claim.numbers.get(row, {}).get(column)
    mean, half = interval(values)
    low, high, verdict, why = max(mean - half, floor(values)), mean + half, "", ""
    if source is not None:
        least, most = bounds(source, claim.within.get(column, WITHIN))
        if not values:
            verdict, why = OPEN, "not made here"
        elif column in claim.unjudged:
            verdict, why = OPEN, claim.unjudged[column]
        elif len(values) < LEAST:
            verdict, why = OPEN, f"fewer than {LEAST} seeds"
        elif least <= low and high <= most:
            verdict, why = HOLDS, f"the interval is within {least:.4g} to {most:.4g}"
        elif high < least or low > most:
            verdict, why = FAILS, f"the interval is outside {least:.4g} to {most:.4g}"
        else:
            verdict, why = OPEN, f"the interval crosses a bound of {least:.4g} to {most:.4g}"
    return JudgedNumber(row, column, source, mean, low, high, len(values), verdict, why)


def bounds(source: float, within: str | float) -> tuple[float, float]:
    """Between which numbers ours is the same: `within` is a share of the source's as text, or an amount."""
    off = abs(source) * parse(within, "fraction") if isinstance(within, str) else within
    return source - off, source + off


def _apart(mine: list[float], theirs: list[float], level: float) -> tuple[float, float, Callable[[float], float]]:
    """Mean difference in pairs, half its interval, and what makes a share of the second row of such a difference.

    Of logarithms where all values are positive, since figures differ by factors from seed to seed.
    """
    pairs = list(zip(mine, theirs, strict=True))
    if min(*mine, *theirs) > 0.0:
        return *interval([math.log(a / b) for a, b in pairs], level), math.expm1
    scale = abs(sum(theirs) / len(theirs)) or 1.0
    return *interval([a - b for a, b in pairs], level), lambda value: value / scale


def _statement(asked: Statement, found: Sequence[Numbers]) -> JudgedStatement:
    wanted = [(other, column) for other in asked.than for column in asked.columns]
    pairs, missing = [], []
    for other, column in wanted:
        mine, theirs = (_values(found, row, column) for row in (asked.row, other))
        if not mine or not theirs:
            missing.append(column if any(one.get(other) for one in found) else other)
            continue
        mean, half, share = _apart(mine, theirs, 1.0 - 0.05 / len(wanted))
        sure = asked.sign * mean > half, -asked.sign * mean > half
        verdict = HOLDS if sure[0] else FAILS if sure[1] else OPEN
        low, middle, high = (share(value) for value in (mean - half, mean, mean + half))
        pairs.append(JudgedPair(asked.row, other, column, middle, low, high, verdict))
    count = Counter(pair.verdict for pair in pairs)
    if len(found) < LEAST:
        verdict, why = OPEN, f"fewer than {LEAST} seeds"
    elif count[FAILS]:
        verdict, why = FAILS, f"{count[FAILS]} of {len(pairs)} differences have the other sign"
    elif missing:
        verdict, why = OPEN, f"not made here: {', '.join(dict.fromkeys(missing))}"
    elif count[OPEN]:
        verdict, why = OPEN, f"{count[OPEN]} of {len(pairs)} intervals contain 0"
    else:
        verdict, why = HOLDS, f"every difference has this sign ({len(pairs)})"
    return JudgedStatement(asked.text, verdict, why, tuple(pairs))
