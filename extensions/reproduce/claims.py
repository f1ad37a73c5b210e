"""Tables and figures of published systems, with the numbers that stand there and how ours are made.

A package lists them in a file `claims.toml`, and is named in the entry-point group `cosim.claims`:

    [table1]
    source = "MetaNet"
    paper = "MetaNet: ..."
    what = "Table 1: ..."
    function = "package.module:function"   # (case, seed, prepared, **settings) -> {row: {column: value}}
    prepare = "package.module:function"    # (**settings) -> what all cases need, as JSON; optional
    part = "KL "                           # only columns that begin so, without it: claims share a function's answers
    summary = "package.module:function"    # (rows of a seed) -> the rows that the source prints of them; optional
    minutes = [240, 6]                     # on two cores, as in the paper and with --quick
    packages = ["torch"]
    settings = [{name = "intervals", source = 1000, quick = 60, why = "..."}]
    differs = [{name = "hosts", source = "real", ours = "simulated", why = "..."}]
    numbers = "a table: columns between |, rows by their first word"
    within = {cost = "10 %"}               # how far ours may be off, a share or an amount; by column
    unjudged = {time = "another processor"}

    [[table1.statements]]                  # what the source says of rows
    text = "MetaNet costs least"
    lower = "MetaNet"                      # or `higher`
    than = ["GOBI"]                        # default: all other rows of the column
    columns = ["cost"]
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cosim.contract.errors import SetupError
from cosim.contract.extras import pip
from cosim.contract.hints import did_you_mean
from cosim.contract.plugins import installed

Numbers = Mapping[str, Mapping[str, float]]  # row -> column -> value, in the unit of the column


@dataclass(frozen=True)
class ClaimSetting:
    """A setting of the source, and ours; the function gets those that are `passed`."""

    name: str
    source: Any
    ours: Any
    quick: Any
    why: str = ""
    passed: bool = True


@dataclass(frozen=True)
class Statement:
    """What a source says of a row against others, in some columns; `level` is the share by which it must be ahead."""

    text: str
    row: str
    than: tuple[str, ...]
    columns: tuple[str, ...]
    sign: int  # -1: lower, 1: higher


@dataclass(frozen=True)
class Claim:
    """One table or figure of a source."""

    id: str
    source: str
    paper: str
    what: str
    function: str
    numbers: Numbers
    settings: tuple[ClaimSetting, ...]
    statements: tuple[Statement, ...]
    cases: tuple[str, ...]
    code: Path  # folder that the function's extension lies in
    columns: tuple[str, ...]
    minutes: tuple[float, float]
    prepare: str = ""
    part: str = ""
    summary: str = ""
    packages: tuple[str, ...] = ()
    within: Mapping[str, str | float] = field(default_factory=dict)
    unjudged: Mapping[str, str] = field(default_factory=dict)

    def values(self, quick: bool, changed: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that the function gets. Raises `SetupError` for one that is not there or of another kind."""
        found = {one.name: one.quick if quick else one.ours for one in self.settings if one.passed}
        for name, value in changed.items():
            if name not in found:
                raise SetupError(f"--set {name}: {self.id} has no such setting; {did_you_mean(name, found)}")
            kind = type(found[name])
            try:
                found[name] = value if isinstance(value, kind) else kind(value)
            except ValueError:
                raise SetupError(f"--set {name}: '{value}' is no {kind.__name__}") from None
        return found

    def missing(self) -> str:
        """What keeps it from being made here, and what to do; "" when nothing does."""
        lacking = [name for name in self.packages if find_spec(name) is None]
        return f"{', '.join(lacking)} not installed: {pip(*lacking)}" if lacking else ""


def claims() -> dict[str, Claim]:
    """All claims of installed packages, by their ids."""
    return {one.id: one for name, place in installed("claims").items() for one in _of(name, place)}


def claim(name: str) -> Claim:
    """The claim of that id. Raises `SetupError` when there is none."""
    known = claims()
    if name not in known:
        raise SetupError(f"there is no claim '{name}'; {did_you_mean(name, known)}")
    return known[name]


def _of(name: str, package: str) -> list[Claim]:
    try:
        folder = Path(str(files(package)))
        data = tomllib.loads((folder / "claims.toml").read_text("utf-8"))
    except (ImportError, OSError, tomllib.TOMLDecodeError) as error:
        raise SetupError(f"claims of '{name}': {error}") from error
    found = []
    for key, one in data.items():
        try:
            found.append(_claim(f"{name}.{key}", dict(one), folder))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise SetupError(f"claims of '{name}', [{key}] in {folder / 'claims.toml'}: {error!r}") from error
    return found


def _claim(name: str, data: dict[str, Any], code: Path) -> Claim:
    columns, numbers = table(data.pop("numbers", ""))
    columns = tuple(dict.fromkeys((*columns, *data.pop("columns", ()))))
    settings = [
        ClaimSetting(one["name"], one["source"], one.get("ours", one["source"]),
                     one.get("quick", one.get("ours", one["source"])), one.get("why", ""), passed)
        for passed, key in ((True, "settings"), (False, "differs")) for one in data.pop(key, ())
    ]  # fmt: skip
    cases = tuple(data.pop("cases", numbers))
    statements = []
    for one in data.pop("statements", ()):
        sign = -1 if "lower" in one else 1
        row = one["lower" if sign < 0 else "higher"]
        than = one.get("than") or [other for other in numbers if other != row]
        statements.append(Statement(one["text"], row, tuple(than), tuple(one.get("columns", columns)), sign))
    full, quick = data.pop("minutes")
    packages = tuple(data.pop("packages", ()))
    return Claim(
        name, numbers=numbers, settings=tuple(settings), statements=tuple(statements), cases=cases, code=code,
        columns=columns, minutes=(full, quick), packages=packages, **data,
    )  # fmt: skip


def table(text: str) -> tuple[tuple[str, ...], dict[str, dict[str, float]]]:
    """Columns, and the numbers of each row by column; a cell that is no number is left out."""
    lines = [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]
    if not lines:
        return (), {}
    columns, found = lines[0][1:], dict[str, dict[str, float]]()
    for first, *cells in lines[1:]:
        if len(cells) != len(columns) or first in found:
            raise ValueError(f"row '{first}' is there twice or has {len(cells)} cells for {len(columns)} columns")
        found[first] = {name: float(cell) for name, cell in zip(columns, cells, strict=True) if _number(cell)}
    return tuple(columns), found


def _number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
