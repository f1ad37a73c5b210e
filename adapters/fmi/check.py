"""For what the adapter refuses a scene: the unit's own description against the block."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from cosim.adapters.fmi.backend import TEXT, ModelUnit, UnitFaultError, read_unit
from cosim.adapters.fmi.config import FmiConfig
from cosim.contract.adapter import Context
from cosim.contract.block import Selector
from cosim.contract.entities import Scene
from cosim.contract.errors import Problem
from cosim.contract.hints import did_you_mean
from cosim.contract.selector import selects


def problems(config: FmiConfig, context: Context) -> list[Problem]:
    """A unit that cannot be read, names that it does not have, and nodes that nothing selects."""
    at = f"adapters.{context.name}"
    found = []
    if not slots(context.scene, config.nodes):
        names = ", ".join(node.id for node in context.scene.nodes[:20])
        found.append(Problem(f"no static node matches '{config.nodes}'", f"{at}.nodes", hint=f"nodes: {names}"))
    with tempfile.TemporaryDirectory(prefix="cosim-fmi-") as scratch:
        try:
            unit = read_unit(context.path(config.unit), Path(scratch), validate=config.checked)
        except UnitFaultError as error:
            return [*found, Problem(f"'{config.unit}' {error}", f"{at}.unit")]
    count = len(slots(context.scene, config.nodes))
    if unit.once and count > 1:
        text = f"'{config.unit}' can be instantiated once in a process, and {count} nodes are selected"
        hint = "select one node; write a block for each node, with isolated: true"
        found.append(Problem(text, f"{at}.nodes", hint=hint))
    if unit.tool:
        text = f"'{config.unit}' needs {unit.tool} on this machine to run"
        found.append(Problem(text, f"{at}.unit", fatal=False))
    return [*found, _took(config, unit, at, count), *_names(config, unit, at)]


def _took(config: FmiConfig, unit: ModelUnit, at: str, count: int) -> Problem:
    """What there is in the unit, and which of its inputs nothing sets."""
    outputs = [unit.variables[part.source] for part in config.outputs if part.source in unit.variables]
    given = ", ".join(f"{one.name} [{one.unit}]" if one.unit else one.name for one in outputs)
    set_here = {*config.params, *(part.to for part in config.inputs)}
    free = [one.name for one in unit.variables.values() if one.causality == "input" and one.name not in set_here]
    kept = f"; its inputs {', '.join(free[:8])} keep their start values" if free else ""
    text = f"'{config.unit}' is {unit.name}, a unit of FMI {unit.version}, and gives {given}{kept}"
    return Problem(text, at, fatal=False, note=True, memory=unit.memory(count))


def slots(scene: Scene, selector: Selector) -> list[int]:
    """The static nodes that are selected, in the order of the file."""
    mine = selects(selector)
    return [slot for slot, node in enumerate(scene.nodes) if mine(node.id, node)]


def _names(config: FmiConfig, unit: ModelUnit, at: str) -> Iterator[Problem]:
    wanted = [(f"{at}.params.{name}", name) for name in config.params]
    wanted += [(f"{at}.inputs.{n}.to", part.to) for n, part in enumerate(config.inputs)]
    wanted += [(f"{at}.outputs.{n}.from", part.source) for n, part in enumerate(config.outputs)]
    for n, part in enumerate(config.outputs):
        said = unit.variables[part.source].unit if part.source in unit.variables else ""
        if part.unit and said and part.unit != said:
            text = f"'{part.source}' is in '{said}' in the unit, and the column is said to be in '{part.unit}'"
            hint = "values are not converted: write the unit's own"
            yield Problem(text, f"{at}.outputs.{n}.unit", hint=hint, fatal=False)
    for where, name in wanted:
        if name not in unit.variables:
            yield Problem(
                f"the unit has no variable '{name}'", where, hint=did_you_mean(name, unit.variables, otherwise="it has")
            )
        elif ".params." in where:
            if reason := unit.variables[name].refusal(config.params[name]):
                yield Problem(f"'{name}' {reason}", where)
        elif unit.variables[name].ending in ("", TEXT):
            yield Problem(f"'{name}' is no single number", where, hint="numbers and booleans can be wired")
        elif ".inputs." in where and not unit.settable(name):
            one = unit.variables[name]
            free = [other for other in unit.variables if unit.settable(other)]
            hint = f"inputs: {', '.join(free) or 'none'}"
            yield Problem(
                f"'{name}' is a {one.variability} {one.causality}, no input".replace("  ", " "), where, hint=hint
            )
