"""Runs of the same configuration belong together: they differ in nothing but the seed."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from cosim.report.folder import Folder
from cosim.report.tables import figures, flatten
from cosim.report.text import finite

SEED = "run.seed"
_UNSAID = {"run.nodes": "process"}  # defaults for keys that a scenario leaves out
_SKIPPED = ("sweep.", "title", "description")


def configuration(resolved: str) -> dict[str, Any]:
    """The resolved scenario as dotted keys with plain values; empty when it is no mapping."""
    try:
        data = YAML(typ="safe", pure=True).load(resolved)
    except (YAMLError, ValueError, RecursionError):
        return {}
    return flatten(_named(data)) if isinstance(data, dict) else {}


def _named(data: Mapping[str, Any]) -> dict[str, Any]:
    """Lists of blocks become mappings by position, so that they can be compared key by key."""
    out: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, list) and any(isinstance(v, dict) for v in value):
            value = {str(k): v for k, v in enumerate(value)}
        out[str(key)] = _named(value) if isinstance(value, dict) else value
    return out


@dataclass
class Group:
    """Replications of one configuration, and how the page calls them."""

    key: str  # "A", "B", ...
    settings: dict[str, Any]
    runs: list[Folder] = field(default_factory=list)
    label: str = ""

    def values(self, figure: str) -> list[float]:
        """The figure in each replication that has it."""
        found = (finite(figures(run).get(figure, {}).get("value")) for run in self.runs)
        return [v for v in found if v is not None]

    def pairs(self, other: Group, figure: str) -> list[tuple[float, float]]:
        """The figure here and in `other`, in runs of equal seeds; [] when a seed is there twice."""
        sides: list[dict[str, float]] = []
        for one in (self, other):
            seeds = [str(run.manifest.get("seed")) for run in one.runs]
            found = [finite(figures(run).get(figure, {}).get("value")) for run in one.runs]
            if len(set(seeds)) != len(seeds):
                return []
            sides.append({seed: value for seed, value in zip(seeds, found, strict=True) if value is not None})
        return [(value, sides[1][seed]) for seed, value in sides[0].items() if seed in sides[1]]

    @property
    def name(self) -> str:
        """Letter and, where it is short, the label: for the rows of charts."""
        return f"{self.key} · {self.label}" if 0 < len(self.label) <= 15 else self.key


def group(runs: Sequence[Folder]) -> list[Group]:
    """Groups in the order in which their first run was named, labelled by what sets them apart."""
    found: dict[str, Group] = {}
    for run in runs:
        settings = configuration(run.resolved)
        kept = {k: v for k, v in settings.items() if k != SEED and not k.startswith(_SKIPPED)}
        identity = json.dumps(kept, sort_keys=True, default=str) if kept else str(run.manifest.get("plan_hash"))
        if identity not in found:
            found[identity] = Group(_letter(len(found)), kept)
        found[identity].runs.append(run)
    groups = list(found.values())
    changed = differences(groups)
    for g in groups:
        few = changed[:2] if len(groups) > 1 else []
        g.label = ", ".join(f"{path.rsplit('.', 1)[-1]} {values[groups.index(g)]}" for path, values in few)
        g.label = g.label or (g.runs[0].name if len(g.runs) == 1 else str(g.runs[0].manifest.get("scenario")))
    return groups


def _letter(index: int) -> str:
    return chr(65 + index) if index < 26 else f"Z{index - 25}"


def differences(groups: Sequence[Group]) -> list[tuple[str, list[str]]]:
    """Paths whose values are not the same in all groups, with the value in each ("–": not there, nor has a default)."""
    paths = dict.fromkeys(path for g in groups for path in g.settings)
    rows = [(path, [str(g.settings.get(path, _UNSAID.get(path, "–"))) for g in groups]) for path in paths]
    return [(path, values) for path, values in rows if len(set(values)) > 1]


def text_diff(first: Group, second: Group) -> str:
    """The two resolved scenarios as a unified diff."""
    lines = difflib.unified_diff(
        first.runs[0].resolved.splitlines(),
        second.runs[0].resolved.splitlines(),
        first.key,
        second.key,
        lineterm="",
        n=2,
    )
    return "\n".join(lines)
