"""What a data set is made of: signals, windows, the label, and who goes to which split."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from cosim.contract.condition import Condition, ConditionError, Named
from cosim.contract.errors import SetupError
from cosim.contract.jammer import CAUSES, TRUTH
from cosim.contract.signals import CATALOGUE
from cosim.contract.units import parse

SPLITS = ("train", "valid", "test")
_HIDDEN = (*(signal.name for signal in TRUTH), "impairment", "picture_truth")  # truth that nothing real can log
_FIRST_OPTIONAL = 9  # field of a recipe from which on defaults are not written
_NAME = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?"  # SIGNAL.COLUMN of a run, COLUMN of a table
_COLUMN = re.compile(_NAME)
_SIGNAL = re.compile(r"[a-z_]\w*(@(\*|[a-z_]\w*))?")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How windows of a run, or of a table, become labelled rows.

    The first of `signals` provides the rows, at its column `at` where one is named. Each other signal adds its row of
    the same node and time, or its last one of at most `within` s before. `host@server` takes the rows of `host` for the
    node in the column `server` of the first signal, `cluster@*` takes rows of any node. Features are all numbers of a
    signal, or those of them that `columns` lists. A table has no signals: `node` and `at` are columns of it, and each
    group is cut into `blocks` consecutive parts.

    `label` is a condition (`cosim.contract.condition`) over columns `signal.column` (`column` of a table) that no
    feature may hold; it is evaluated `ahead` s later. `keep` lists further columns (`truth_...`) for judging. `drop`
    lists columns that identify an entity instead of describing it. `causes` label why a link is bad, in the column
    `truth_cause`. `sample` thins the rows of the split `train`: of the rows for which a rule is the first that holds, a
    share is drawn, and the column `weight` has its inverse, so that weighted sums estimate those of all rows. `by`
    is what a split keeps together: `seed` (all runs of a seed, which share their geometry), `scene` (one run or file),
    a swept parameter, or a column of a table.

    With `choice` there is a row for each node of the signal `NAME@candidate`, and the first signal has two columns
    more: `candidate`, and `chosen`, whether `choice` names it.
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
    columns: tuple[str, ...] = ()  # features, of the signals that they name; of a table
    at: str = ""  # column of the first signal, or of a table, that is the time of its rows
    within: float = 0.0  # s
    ahead: float = 0.0  # s
    node: str = ""  # column of a table that names whom a row is about
    blocks: int = 1  # parts of the time of each group of a table
    sample: tuple[str, ...] = ()  # "5 %: jamming.loss < 1", ...; a row for which none holds is kept
    choice: str = ""  # column of the first signal with the node that was chosen among candidates

    def __post_init__(self) -> None:
        if min(self.window, 1.0) <= 0.0 or not min(self.every, self.within, self.ahead) >= 0.0:
            raise SetupError("a window takes more than 0 s, and --every, --within and --ahead 0 s or more")
        if self.blocks < 1:
            raise SetupError(f"{self.blocks} blocks are none; give 1 or more")
        if self.signals and (self.node or self.blocks > 1):
            raise SetupError(
                f"--{'node' if self.node else 'blocks'} belongs to tables; runs have nodes and scenes of their own"
            )
        if min(self.shares) < 0.0:
            raise SetupError("--shares: a share of train, valid and test is 0 or more")
        if not abs(sum(self.shares) - 1.0) <= 1e-9:
            raise SetupError(f"the shares of train, valid and test add up to {sum(self.shares):g}, not to 1")
        for option, several in (("keep", self.keep), ("columns", self.columns)):
            wrong = [column for column in several if not self._named(column)]
            if wrong:
                raise SetupError(f"--{option}: '{wrong[0]}' is not {'SIGNAL.' if self.signals else ''}COLUMN")
        _ = self.rule, self.reasons, self.strata  # raise for what cannot be read
        wrong = [signal for signal in self.signals if _SIGNAL.fullmatch(signal) is None]
        if wrong:
            raise SetupError(f"--signals: '{wrong[0]}' is not SIGNAL, SIGNAL@COLUMN or SIGNAL@*")
        if len({self.plain(signal) for signal in self.signals}) < len(self.signals):
            raise SetupError(f"--signals: {', '.join(self.signals)} names a signal twice")
        if self.signals and "@" in self.signals[0]:
            raise SetupError(f"--signals: '{self.signals[0]}' gives the rows, and so belongs to no other signal's")
        if bool(self.choice) != any(signal.endswith("@candidate") for signal in self.signals):
            raise SetupError("--choice goes with a signal NAME@candidate among --signals, whose nodes are candidates")
        predicted = [name for name in self.names if name in _HIDDEN]
        if predicted:
            raise SetupError(
                f"--signals: '{predicted[0]}' is the truth, which nothing real can log: a model would read the answer; "
                "its columns belong into --label, --keep and --cause"
            )
        unknown = sorted({self.plain(column.partition(".")[0]) for column in self.columns} - set(self.names))
        if self.signals and unknown:
            raise SetupError(f"--columns: '{unknown[0]}' is not among --signals")
        both = [column for column in self.truth() if self.signals and self.ahead == 0.0 and self._seen(column)]
        if both:
            raise SetupError(
                f"'{both[0]}' is a feature and part of the label or of --keep: a model would read the answer; "
                "take the label from a signal that is not among --signals, or name the features with --columns"
            )

    def _named(self, column: str) -> bool:
        return _COLUMN.fullmatch(column) is not None and ("." in column or not self.signals)

    @staticmethod
    def plain(signal: str) -> str:
        """The name of a signal without how its rows are found."""
        return signal.partition("@")[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The signals by their names alone."""
        return tuple(self.plain(signal) for signal in self.signals)

    def chosen(self, signal: str) -> tuple[str, ...]:
        """The columns of a signal, or of a table (""), that are features; () for all."""
        start = f"{signal}." if signal else ""
        return tuple(column.removeprefix(start) for column in self.columns if column.startswith(start))

    def _seen(self, column: str) -> bool:
        signal, _, name = column.partition(".")
        chosen = self.chosen(signal)
        return signal in self.names and (not chosen or name in chosen)

    @property
    def rule(self) -> Condition:
        """The condition of the label."""
        return _rule(self.label, table=not self.signals)

    @property
    def reasons(self) -> tuple[tuple[str, Condition], ...]:
        """The rules of the causes in order, each with its name."""
        found = []
        for rule in self.causes:
            name, colon, text = rule.partition(":")
            if not colon or name.strip() not in CAUSES[1:]:
                raise SetupError(f"the cause '{rule}' is not NAME: RULE with a name of {', '.join(CAUSES[1:])}")
            found.append((name.strip(), _rule(text, table=not self.signals)))
        return tuple(found)

    @property
    def strata(self) -> tuple[tuple[float, Condition], ...]:
        """The rules of the sample in order, each with the share that it keeps."""
        found = []
        for rule in self.sample:
            share, _, text = rule.partition(":")
            try:
                part = parse(share.strip(), "fraction")
            except ValueError:
                part = 0.0
            if not 0.0 < part <= 1.0:
                raise SetupError(f"--sample: '{rule}' is not SHARE: RULE with a share as '5 %', up to 100 %")
            found.append((part, _rule(text, table=not self.signals)))
        return tuple(found)

    def truth(self) -> tuple[str, ...]:
        """Columns that the rows need besides the features, each once."""
        because = (column for _, rule in (*self.reasons, *self.strata) for column in _columns(rule))
        return tuple(dict.fromkeys((*_columns(self.rule), *self.keep, *because)))

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        for one in fields(self)[_FIRST_OPTIONAL:]:  # data sets without these are what they were
            if getattr(self, one.name) == one.default:
                del found[one.name]
        return found


def _columns(rule: Condition) -> list[str]:
    return [".".join(parts) for parts in sorted(rule.values)]


def _rule(text: str, *, table: bool) -> Condition:
    form = "COLUMN >= NUMBER" if table else "SIGNAL.COLUMN >= NUMBER"
    try:
        found = Condition(text, _table_column if table else _column)
    except ConditionError as error:
        raise SetupError(f"the rule '{text.strip()}' cannot be: {error}; write {form}") from None
    if not found.values:
        raise SetupError(f"the rule '{text}' looks at no column; write {form}")
    return found


def _column(parts: tuple[str, ...]) -> Named:
    """A column of a run, of which no more is known before the run is read, unless it is one of the catalogue."""
    if len(parts) != 2:
        raise ValueError(f"'{'.'.join(parts)}' is not SIGNAL.COLUMN")
    signal = CATALOGUE.get(parts[0])
    unit = next((one.unit for one in signal.columns if one.name == parts[1]), None) if signal is not None else None
    return Named("any", unit)


def _table_column(parts: tuple[str, ...]) -> Named:
    """A column of a table, of which nothing is known before it is read."""
    if len(parts) != 1:
        raise ValueError(f"'{'.'.join(parts)}' is not COLUMN")
    return Named("any", None)


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
