"""The overlay file `NAME.calibration.yaml`: calibrated values that any scenario can include.

    write(Path("pi.calibration.yaml"), calibration, loaded=loaded, free=free)

It holds the fields with their calibrated values, at their dotted paths, and the block `calibrated` with their origin
and quality. If it is included after the scenario's own file, its values win: `include: [scenario.cosim.yaml,
pi.calibration.yaml]`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.seals import seal_text
from cosim.contract.units import DIMENSIONS
from cosim.results.provenance import versions
from cosim.scenario import tree
from cosim.scenario.gather import split
from cosim.scenario.tree import Item, Keys, SourcePlace
from cosim.twin.calibration import Calibration, Gap, Judgement, ParameterEstimate

if TYPE_CHECKING:
    from cosim.scenario.free import Free
    from cosim.scenario.load import Loaded

SUFFIX = ".calibration.yaml"
_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_HEAD = "# Written by `cosim calibrate`. Include it after the scenario: include: [scenario.cosim.yaml, {file}]\n"


def document(
    calibration: Calibration,
    *,
    loaded: Loaded | None = None,
    free: Sequence[Free] = (),
    conditions: Mapping[str, tuple[object, object]] | None = None,
    fields: Mapping[str, Any] | None = None,
    date: datetime | None = None,
) -> dict[str, Any]:
    """What the overlay file of `calibration` holds, as plain data.

    `free` are the scenario's free values, by the names of the estimates; `loaded` is the scenario, of which lists are
    copied whole, because an included list replaces another one. Without `free`, fields are set from the estimate's
    `members` and unit. Parameters without effect set nothing. `conditions` are those of the calibration
    (`cosim.twin.scenario.conditions`), `fields` further fields, by their dotted paths, that follow from the values.
    """
    by_name = {value.name: value for value in free}
    root = loaded.root if loaded is not None else Item({}, SourcePlace())
    overlay = Item({}, SourcePlace())
    values: dict[str, Any] = {}
    for estimate in calibration.estimates:
        known = by_name.get(estimate.name)
        value = _written(estimate, known, estimate.value)
        members = known.members if known is not None else tuple(split(root, path) for path in estimate.members)
        values[estimate.name] = _value(estimate, known, [tree.dotted(keys) for keys in members])
        if estimate.verdict in ("fitted", "correlated"):
            for keys in members:
                overlay = _put(overlay, root, keys, Item(value, SourcePlace()))
    fields = fields or {}
    for path, written in fields.items():
        overlay = _put(overlay, root, split(root, path), _item(written))
    block: dict[str, Any] = {
        "date": (date or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "method": calibration.method,
        "seed": calibration.seed,
        "runs": calibration.runs,
        "cpu": f"{calibration.cpu_seconds:.3g} s",
        "stopped": calibration.stopped,
        "values": values,
        **({"fields": dict(fields)} if fields else {}),
        "conditions": {path: list(ends) for path, ends in (conditions or {}).items()},
        "data": list(calibration.sources),
        "fit": _judgement(calibration.fit),
        "assumptions": list(calibration.assumptions),
        "warnings": list(calibration.warnings),
        "figures": {name: float(figure) for name, figure in calibration.figures.items()},
    }
    if calibration.held_back is not None:
        block["held-back"] = _judgement(calibration.held_back)
    return {**tree.plain(overlay), "calibrated": {_name(calibration.problem): block}}


def write(path: Path, calibration: Calibration, **settings: Any) -> Path:  # noqa: ANN401 - those of `document`
    """Write the overlay file at `path`, whole or not at all; see `document`. Returns `path`."""
    text = tree.dump(document(calibration, **settings))
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(seal_text(_HEAD.format(file=path.name) + text), encoding="utf-8")
    fresh.replace(path)
    return path


def _put(overlay: Item, root: Item, keys: Keys, value: Item) -> Item:
    """`overlay` with `value` at `keys`; the first list on the way is taken whole from `root`, or from before."""
    for length in range(1, len(keys)):
        if isinstance(keys[length], int):
            way = keys[:length]
            whole = tree.at(overlay, way) or tree.at(root, way)
            if whole is None or not isinstance(whole.value, list):
                raise ScenarioError(Problem("there is no such list in the scenario", tree.dotted(way)))
            return tree.put(overlay, way, tree.put(whole, keys[length:], value))
    return tree.put(overlay, keys, value)


def _item(value: object) -> Item:
    return Item([_item(part) for part in value] if isinstance(value, list) else value, SourcePlace())


def _value(estimate: ParameterEstimate, free: Free | None, members: list[str]) -> dict[str, Any]:
    block: dict[str, Any] = {"value": _written(estimate, free, estimate.value)}
    if estimate.low is not None and estimate.high is not None:
        block["interval"] = [_written(estimate, free, _rounded(end)) for end in (estimate.low, estimate.high)]
    if free is not None and not free.choices:
        block["bounds"] = [free.written(free.low), free.written(free.high)]
    elif estimate.bounds is not None and free is None:
        block["bounds"] = [_written(estimate, None, end) for end in estimate.bounds]
    block |= {"start": _written(estimate, free, estimate.start), "verdict": estimate.verdict}
    if estimate.reason:
        block["reason"] = estimate.reason
    if estimate.sensitivity is not None:
        block["sensitivity"] = _rounded(estimate.sensitivity)
    return {**block, "members": members}


def _written(estimate: ParameterEstimate, free: Free | None, value: object) -> Any:  # noqa: ANN401 - YAML data
    """`value` as the field has it."""
    if isinstance(value, (bool, str)) or not isinstance(value, (int, float)):
        return value
    if free is not None:
        return value if free.choices else free.written(value)
    if any(estimate.unit in factors for factors in DIMENSIONS.values()):
        return f"{value!r} {estimate.unit}"
    return value


def _rounded(number: float) -> float:
    return float(f"{number:.6g}")


def _judgement(judgement: Judgement) -> dict[str, Any]:
    return {
        "part": judgement.part,
        "before": {gap.signal: _gap(gap) for gap in judgement.before},
        "after": {gap.signal: _gap(gap) for gap in judgement.after},
    }


def _gap(gap: Gap) -> dict[str, Any]:
    figures = ("w1", "g1", "rmse", "nrmse", "r2", "energy_distance", "floor")
    return {**{name: _rounded(getattr(gap, name)) for name in figures}, "count": gap.count, "unit": gap.unit}


def _name(text: str) -> str:
    """`text` as a key of the block: a letter, then letters, digits, . _ -"""
    name = _NAME.sub("-", text).strip("-") or "calibration"
    return (name if name[0].isalpha() else f"c-{name}")[:64]
