"""A scenario as a Functional Mock-up Unit: FMI 3, co-simulation (fmi-standard.org), made with PythonFMU3.

The unit holds the scenario with the files that it names. It runs them with the `continuum-cosim` that is installed
where the unit is used; no code of the product is in it. Variables:

- outputs, Float64: `SIGNAL.NODE.COLUMN`, the last value that the bus carried of static nodes; NaN where there is none;
- inputs, Boolean: `NODE.up`; a node fails at the next tick after it becomes false, and recovers after it becomes true;
- parameters: `seed` and those of the scenario, read when initialisation ends.

Characters other than letters and digits are `_` in names, as `host.edge_1.power`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosim.contract.errors import SetupError, require

if TYPE_CHECKING:
    from cosim.scenario.load import Loaded
    from cosim.scenario.plan.plan import Plan

MODEL = "model.json"  # what of the scenario the unit shows
SCENARIO = "scenario"  # folder of the scenario's files
FILE = "scenario.cosim.yaml"
MOST = 2000  # outputs


@dataclass(frozen=True, slots=True)
class FmuFile:
    """What was written."""

    path: Path
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]


def write_fmu(
    scenario: str | Path,
    out: Path,
    *,
    overrides: Sequence[str] = (),
    values: Sequence[str] = ("*",),
    switches: Sequence[str] = (),
    force: bool = False,
) -> FmuFile:
    """Write `scenario` as the unit `out`.

    `values` are patterns of outputs SIGNAL.NODE.COLUMN, `switches` of nodes with an input. Raises `ScenarioError` for a
    scenario that cannot be, and `SetupError` for patterns that select nothing or too much, files at absolute paths,
    an `out` that is there already, and where the package pythonfmu3 is not installed.
    """
    require("fmi", "pythonfmu3")
    from pythonfmu3 import FmuBuilder

    from cosim.scenario.load import load
    from cosim.scenario.plan.compile import compile_plan

    if out.exists() and not force:
        raise SetupError(f"{out} is there already; name another file with --out, or replace it with --force")
    if not out.parent.is_dir():
        raise SetupError(f"there is no folder {out.parent}")
    loaded = load(scenario, overrides)
    plan = compile_plan(loaded)
    model = _model(plan, loaded, values, switches)
    with tempfile.TemporaryDirectory(prefix="cosim-fmu-") as text:
        scratch = Path(text)
        script = scratch / "slave.py"
        shutil.copy(Path(__file__).with_name("slave.py"), script)
        (scratch / MODEL).write_text(json.dumps(model), encoding="utf-8")
        model["scenario"] = _copied(loaded, plan, scratch / SCENARIO)
        (scratch / MODEL).write_text(json.dumps(model), encoding="utf-8")
        made = FmuBuilder.build_FMU(
            str(script), dest=str(scratch / "made"), project_files=[scratch / MODEL, scratch / SCENARIO],
            needsExecutionTool="true",
        )  # fmt: skip
        shutil.move(str(made), out)
    return FmuFile(out, tuple(model["outputs"]), tuple(model["inputs"]), tuple(model["parameters"]))


def _model(plan: Plan, loaded: Loaded, values: Sequence[str], switches: Sequence[str]) -> dict[str, Any]:
    """The content of the unit's description: names in it, and what they are in the scenario."""
    outputs = _named(_values(plan, values), "output")
    for pattern in values:
        if not any(fnmatchcase(".".join(one[:3]), pattern) for one in outputs.values()):
            known = sorted({f"{signal}.NODE.{column}" for signal, _, column, *_ in _values(plan, ["*"])})
            raise SetupError(f"no value is called '{pattern}'; there are {', '.join(known[:30]) or 'none'}")
    if len(outputs) > MOST:
        raise SetupError(f"{len(outputs)} outputs are more than the {MOST} of a unit; select them with --value")
    names = [node.id for node in plan.scene.nodes]
    for pattern in switches:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise SetupError(f"no static node is called '{pattern}'; there are {', '.join(names[:30]) or 'none'}")
    chosen = [name for name in names if any(fnmatchcase(name, pattern) for pattern in switches)]
    return {
        "name": plan.name,
        "description": str(plan.title or plan.name),
        "step": plan.step_ns / 1e9,
        "duration": plan.time(plan.ticks),
        "seed": loaded.scenario.run.seed,
        "outputs": {name: list(one) for name, one in outputs.items()},
        "inputs": {f"{_plain(name)}.up": name for name in chosen},
        "parameters": dict(loaded.scenario.parameters),
    }


def _values(plan: Plan, patterns: Sequence[str]) -> Iterator[tuple[str, str, str, str, str]]:
    """Signal, node, column, unit and meaning of each number that a static node has and a pattern selects."""
    from cosim.scenario.plan.catalogue import signals_of

    signals = signals_of(plan)
    written = dict.fromkeys(name for adapter in plan.adapters for name in adapter.writes)
    for name in written:
        signal = signals[name]
        if signal.rows != "node":
            continue
        for column in signal.columns:
            if column.role in ("slot", "code") or column.dtype.startswith(("str", "U")):
                continue
            for node in plan.scene.nodes:
                if any(fnmatchcase(f"{name}.{node.id}.{column.name}", pattern) for pattern in patterns):
                    yield name, node.id, column.name, column.unit, column.meaning


def _named(found: Iterator[tuple[str, str, str, str, str]], what: str) -> dict[str, tuple[str, str, str, str, str]]:
    made: dict[str, tuple[str, str, str, str, str]] = {}
    for one in found:
        name = ".".join(_plain(part) for part in one[:3])
        if name in made:
            raise SetupError(f"{what}s {'.'.join(made[name][:3])} and {'.'.join(one[:3])} would have one name, {name}")
        made[name] = one
    return made


def _plain(text: str) -> str:
    """`text` as an identifier of FMI's structured names."""
    made = re.sub(r"[^A-Za-z0-9_]", "_", text)
    return f"_{made}" if made[:1].isdigit() else made


def _copied(loaded: Loaded, plan: Plan, target: Path) -> str:
    """Copy the scenario and the files that it names; the path of the scenario file in `target`."""
    from cosim.scenario.load import load
    from cosim.scenario.named import files_named, texts
    from cosim.scenario.plan.compile import compile_plan

    root = loaded.files[0].resolve().parent
    found: dict[Path, None] = {}
    for text in texts(loaded.data):
        for file in files_named(root, text):
            if Path(text).is_absolute():
                raise SetupError(
                    f"the scenario names '{text}' by an absolute path, which is elsewhere on other machines"
                )
            found[file.resolve()] = None
    base = Path(os.path.commonpath([root, *(file.parent for file in found)]))
    for file in found:
        place = target / file.relative_to(base)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    place = target / root.relative_to(base) / FILE
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(plan.resolved, encoding="utf-8")
    again = compile_plan(load(place))
    if again.hash != plan.hash:
        raise SetupError("the copy of the scenario makes another plan: it names files that are not found beside it")
    return str(place.relative_to(target.parent))
