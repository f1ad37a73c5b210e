"""Accept a scenario from an untrusted author only as data, without anything that reaches beyond its folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from cosim.contract import registry, trust
from cosim.contract.errors import Problem, ScenarioError
from cosim.scenario import tree
from cosim.scenario.gather import gather, scenario_file
from cosim.scenario.model import KindBlock
from cosim.scenario.parameters import filled
from cosim.scenario.tree import Item
from cosim.scenario.wording import shorten

HINT = "read it, and run it without --untrusted if you trust it"


def refuse_untrusted(path: str | Path, overrides: Sequence[str] = ()) -> None:
    """Raise `ScenarioError` with all of the scenario at `path` that is more than data; nothing of it is imported.

    These are commands and addresses that adapters mark, functions and adapters of outside modules, and files outside
    the scenario's folder. Other mistakes are left to the ordinary check.
    """
    file = scenario_file(path)
    other: list[Problem] = []
    root, files = gather(file, overrides, other)
    folder = file.parent.resolve()
    problems = [
        Problem("is included from outside the scenario's folder", file=name, hint=HINT)
        for name in files
        if not name.resolve().is_relative_to(folder)
    ]
    for whole in _variants(file, overrides, root) if root is not None else ():
        data = tree.plain(whole)
        problems += [
            tree.problem(whole, keys, f"'{shorten(text)}' is code, which an untrusted scenario may not bring", HINT)
            for keys, text in trust.code(data)
        ]
        problems += [
            tree.problem(whole, keys, f"'{shorten(text)}' is outside the scenario's folder", HINT)
            for keys, text in trust.outside(data, folder)
        ]
        problems += [
            tree.problem(whole, keys, f"{what}, which is not for an untrusted scenario", HINT)
            for keys, what in _nodes(data)
        ]
        if not problems:  # from here on installed adapters are imported, and none that the scenario brings
            problems += _reaching(whole, data)
    if problems:
        raise ScenarioError(list(dict.fromkeys(problems)))


def _variants(file: Path, overrides: Sequence[str], root: Item) -> Iterator[Item]:
    """The scenario with its parameters put in, and with each text that `sweep` has for one of them.

    A harmless text may become a path or a function where parameters are put together.
    """
    yield filled(root, [])
    sweep = tree.plain(root.value["sweep"]) if "sweep" in root.value else None
    for path, values in (sweep if isinstance(sweep, dict) else {}).items():
        if str(path).startswith("parameters."):
            for value in values if isinstance(values, list) else [values]:
                if isinstance(value, str):
                    changed, _ = gather(file, [*overrides, f"{path}={json.dumps(value)}"], [])
                    if changed is not None:
                        yield filled(changed, [])


def _nodes(data: object) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What nodes, and what they have their keys from, are given beyond the scenario."""
    sections = data if isinstance(data, dict) else {}
    yield from trust.reaching(KindBlock, sections.get("defaults"), ("defaults",))
    for section in ("kinds", "groups", "nodes"):
        blocks = sections.get(section)
        for name, block in (blocks if isinstance(blocks, dict) else {}).items():
            yield from trust.reaching(KindBlock, block, (section, name))


def _reaching(root: Item, data: object) -> list[Problem]:
    blocks = data.get("adapters") if isinstance(data, dict) else None
    found = []
    for name, block in (blocks if isinstance(blocks, dict) else {}).items():
        use = (block.get("use") or name) if isinstance(block, dict) else name
        if not isinstance(use, str) or use not in registry.adapter_names():
            continue  # the ordinary check reports it
        model = registry.adapter_kind(use).load_config()
        found += [
            tree.problem(root, ("adapters", name, *keys), f"{what}, which is not for an untrusted scenario", HINT)
            for keys, what in trust.reaching(model, block)
        ]
    return found
