"""What a data set is made of: signals, windows, the label, and who goes to which split."""

from __future__ import annotations

import hashlib
import json
import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.errors import SetupError
from cosim.contract.jammer import CAUSES

Flags = NDArray[np.bool_]
SPLITS = ("train", "valid", "test")
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
_TERM = re.compile(r"\s*([a-z_]\w*)\.([a-z_]\w*)\s*(>=|<=|==|!=|>|<)\s*(\S+)\s*")
_COLUMN = re.compile(r"[a-z_]\w*\.[a-z_]\w*")


@dataclass(frozen=True, slots=True)
class Term:
    """A comparison of a column with a value: a number, true or false, or a word."""

    column: str  # signal.column
    compare: str
    value: float | bool | str

    def holds(self, values: NDArray[Any]) -> Flags:
        """Which of `values` (n,) it holds for; never for a value that is not there."""
        holds: Flags = np.asarray(_COMPARE[self.compare](values, self.value), bool)
        return holds & np.asarray(values != "", bool) if values.dtype.kind in "US" else holds


@dataclass(frozen=True, slots=True)
class Recipe:
    """How windows of a run become labelled rows.

    The first of `signals` gives the rows; a row of another one belongs to it when node and time are
    the same. `label` is one comparison, or several joined by `and`, of columns `signal.column` that no
    feature may hold. `keep` are further columns (`truth_...`) for judging, `drop` are columns that
    name somebody instead of saying something about them. `causes` label why a link is bad, in the
    column `truth_cause`. `by` is what a split keeps together: `seed`
    (all runs of a seed, which share their geometry), `scene` (one run), or a swept parameter.
    """

    signals: tuple[str, ...]
    label: str
    window: float = 5.0  # s
    every: float = 0.0  # s between two rows of a node, 0: all
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ("rnti",)
    by: str = "seed"
    shares: tuple[float, float, float] = (0.6, 0.2, 0.2)  # of the groups, by `SPLITS`
    seed: int = 1
    causes: tuple[str, ...] = ()  # "jam: jamming.loss >= 3", ...; the first that holds is the cause of a row

    def __post_init__(self) -> None:
        if not self.signals:
            raise SetupError("a data set needs at least one signal; name one with --signals")
        if self.window <= 0.0 or self.every < 0.0:
            raise SetupError("a window takes more than 0 s, and rows are 0 s or more apart")
        if not min(self.shares) >= 0.0 or not abs(sum(self.shares) - 1.0) <= 1e-9:
            raise SetupError(f"the shares of train, valid and test add up to {sum(self.shares):g}, not to 1")
        hidden = {column.partition(".")[0] for column in self.truth()}
        both = sorted(hidden & set(self.signals))
        if both:
            raise SetupError(
                f"'{both[0]}' is a feature and part of the label or of --keep: a model would read the answer; "
                "take the label from a signal that is not among --signals"
            )
        wrong = [column for column in self.keep if _COLUMN.fullmatch(column) is None]
        if wrong:
            raise SetupError(f"--keep: '{wrong[0]}' is not SIGNAL.COLUMN")

    @property
    def terms(self) -> tuple[Term, ...]:
        """The comparisons of the label, all of which must hold."""
        return _terms(self.label)

    @property
    def reasons(self) -> tuple[tuple[str, tuple[Term, ...]], ...]:
        """The rules of the causes in order, each with its name."""
        found = []
        for rule in self.causes:
            name, colon, text = rule.partition(":")
            if not colon or name.strip() not in CAUSES[1:]:
                raise SetupError(f"the cause '{rule}' is not NAME: RULE with a name of {', '.join(CAUSES[1:])}")
            found.append((name.strip(), _terms(text)))
        return tuple(found)

    def truth(self) -> tuple[str, ...]:
        """Columns that the rows need besides the features, each once."""
        because = (term.column for _, terms in self.reasons for term in terms)
        return tuple(dict.fromkeys((*(term.column for term in self.terms), *self.keep, *because)))

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        if not self.causes:  # data sets without any are what they were
            del found["causes"]
        return found


def _terms(rule: str) -> tuple[Term, ...]:
    return tuple(_term(part, rule) for part in re.split(r"\band\b", rule))


def _term(text: str, rule: str) -> Term:
    match = _TERM.fullmatch(text)
    if match is None:
        raise SetupError(f"the rule '{rule}' cannot be read; write SIGNAL.COLUMN >= NUMBER, joined by 'and'")
    word = match[4].strip("'\"")
    value: float | bool | str
    if word in ("true", "false"):
        value = word == "true"
    else:
        try:
            value = float(word)
        except ValueError:
            value = word
        if isinstance(value, float) and math.isnan(value):
            raise SetupError(f"the label '{rule}' compares with no number; no value is '{word}'")
    if isinstance(value, str) and match[3] not in ("==", "!="):
        raise SetupError(f"the label '{rule}' compares with the word '{word}'; only == and != do")
    return Term(f"{match[1]}.{match[2]}", match[3], value)


def assign(groups: Sequence[str], shares: Sequence[float], seed: int) -> dict[str, str]:
    """The split of each group. It depends on the names and the seed alone, not on their order.

    Every split with a share gets a group as long as there are enough of them.
    """

    def place(name: str) -> str:
        return hashlib.sha256(f"{seed}:{name}".encode()).hexdigest()

    ordered = sorted(set(groups), key=place)
    wanted = [split for split, share in zip(SPLITS, shares, strict=True) if share > 0.0]
    if len(ordered) < len(wanted):
        return dict.fromkeys(ordered, wanted[0])
    bounds = np.rint(np.cumsum(shares) * len(ordered)).astype(int)
    found = {name: SPLITS[int(np.searchsorted(bounds, k, side="right"))] for k, name in enumerate(ordered)}
    for k, split in enumerate(reversed(wanted), 1):  # rounding may have left one out
        if split not in found.values():
            found[ordered[-k]] = split
    return found
