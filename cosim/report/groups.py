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
from cosim.report.text import finite, shorten
from cosim.results.replications import MeanEstimate, estimate, group_warnings

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
class ReportGroup:
    """Replications of one configuration, and how the page calls them."""

    key: str  # its name: the value that sets it apart
    settings: dict[str, Any]
    runs: list[Folder] = field(default_factory=list)
    label: str = ""

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The key figures of each run."""
        return [{"figures": figures(run)} for run in self.runs]

    @property
    def seeds(self) -> list[str]:
        return [str(run.manifest.get("seed")) for run in self.runs]

    def estimate(self, figure: str) -> MeanEstimate | None:
        """The mean of a figure over the runs that have a finite one."""
        entries = (figures(run).get(figure, {}) for run in self.runs)
        return estimate(one for one in entries if finite(one.get("value")) is not None)

    def by_seed(self, figure: str) -> dict[str, float]:
        """The figure in each run that has it; a seed that is there twice counts once."""
        values = zip(self.seeds, (finite(figures(run).get(figure, {}).get("value")) for run in self.runs), strict=True)
        return {seed: value for seed, value in values if value is not None}

    @property
    def warnings(self) -> list[str]:
        """What has to be known of the figures."""
        return group_warnings([figures(run) for run in self.runs])


def group(runs: Sequence[Folder]) -> list[ReportGroup]:
    """Groups in the order in which their first run was named, labelled by what sets them apart."""
    found: dict[str, ReportGroup] = {}
    for run in runs:
        settings = configuration(run.resolved)
        kept = {k: v for k, v in settings.items() if k != SEED and not k.startswith(_SKIPPED)}
        identity = json.dumps(kept, sort_keys=True, default=str) if kept else str(run.manifest.get("plan_hash"))
        if identity not in found:
            found[identity] = ReportGroup("", kept)
        found[identity].runs.append(run)
    return named(list(found.values()))


def named(groups: list[ReportGroup]) -> list[ReportGroup]:
    """The groups with their names and with what sets them apart."""
    changed = differences(groups)
    for i, g in enumerate(groups):
        g.label = ", ".join(f"{path.rsplit('.', 1)[-1]} {values[i]}" for path, values in changed)
        g.key = _name(changed, i) or (g.runs[0].name if len(g.runs) == 1 else str(g.runs[0].manifest.get("scenario")))
    return groups


def _name(changed: Sequence[tuple[str, list[str]]], place: int) -> str:
    """The value of the first key that differs, if it names each configuration, else those of the first that do."""
    for count in range(1, len(changed) + 1):
        names = [tuple(values[i] for _, values in changed[:count]) for i in range(len(changed[0][1]))]
        if len(set(names)) == len(names):
            if count == 1 and not changed[0][1][place][:1].isdigit():
                return shorten(changed[0][1][place], 40)
            return shorten(", ".join(f"{path.rsplit('.', 1)[-1]} {v[place]}" for path, v in changed[:count]), 60)
    return ""


def differences(groups: Sequence[ReportGroup]) -> list[tuple[str, list[str]]]:
    """Paths whose values are not the same in all groups, with the value in each ("–": not there, nor has a default)."""
    paths = dict.fromkeys(path for g in groups for path in g.settings)
    rows = [(path, [str(g.settings.get(path, _UNSAID.get(path, "–"))) for g in groups]) for path in paths]
    return [(path, values) for path, values in rows if len(set(values)) > 1]


def text_diff(first: ReportGroup, second: ReportGroup) -> str:
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
