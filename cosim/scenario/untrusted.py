"""Accept a scenario from an untrusted author only as data, without anything that reaches beyond its folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cosim.contract import registry, trust
from cosim.contract.errors import Problem
from cosim.scenario import tree
from cosim.scenario.model import scenario_with
from cosim.scenario.tree import Item
from cosim.scenario.wording import shorten

if TYPE_CHECKING:
    from cosim.contract.adapter import AdapterKind

HINT = "an untrusted scenario is data alone: read it, and run it without --untrusted if you trust it"


def beyond_data(root: Item, files: Sequence[Path], folder: Path) -> list[Problem]:
    """What of a scenario in `folder`, read from `files`, is more than data; nothing of it is imported.

    Values are taken whose fields are marked as harmless (`cosim.contract.trust`), and adapters that are installed.
    Other mistakes are left to the ordinary check.
    """
    found = [
        Problem("is included from outside the scenario's folder", file=name, hint=HINT)
        for name in files
        if not name.resolve().is_relative_to(folder.resolve())
    ]
    found += [tree.problem(root, keys, what, HINT) for keys, what in _reaching(tree.plain(root), folder)]
    return list(dict.fromkeys(found))


def _reaching(data: object, folder: Path) -> Iterator[tuple[trust.Keys, str]]:
    blocks = data.get("adapters") if isinstance(data, dict) else None
    kinds: dict[str, AdapterKind] = {}
    for name, block in (blocks if isinstance(blocks, dict) else {}).items():
        use = (block.get("use") or name) if isinstance(block, dict) else name
        if use not in registry.adapter_names():
            where = ("use",) if isinstance(block, dict) and block.get("use") else ()
            yield ("adapters", name, *where), f"'{shorten(str(use))}' is code, or not installed"
            continue
        kinds[name] = registry.adapter_kind(use)
        yield from trust.refused(kinds[name].load_config(), block or {}, folder, ("adapters", name))
    keys = {key: block for kind in kinds.values() for key, block in kind.node_keys().items()}
    events = {do: event for kind in kinds.values() for do, event in kind.event_kinds().items()}
    model = scenario_with(tuple(sorted(keys.items())), tuple(events[do] for do in sorted(events)))
    yield from trust.refused(model, data, folder)
