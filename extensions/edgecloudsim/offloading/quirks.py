"""Behaviour of the peer simulators that is wrong or odd, each under a name of its own.

The corrected model is the one with no quirks. A study that is to give the peer's figures takes all
quirks of its model, `compatible(model)`; single ones show what each of them is worth. `quirks.toml` lists them.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from cosim.extensions.edgecloudsim.offloading.study import Model


@dataclass(frozen=True, slots=True)
class OffloadingQuirk:
    """One behaviour: whose it is, and why it is wrong or odd."""

    models: frozenset[Model]
    why: str


QUIRKS = {
    name: OffloadingQuirk(frozenset(one["models"]), " ".join(one["why"].split()))
    for name, one in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}


def compatible(model: Model) -> frozenset[str]:
    """The quirks that together make up the peer's own behaviour in this model."""
    return frozenset(name for name, quirk in QUIRKS.items() if model in quirk.models)


def field(name: str) -> str:
    """The quirk's field in the kernel's state."""
    return name.replace("-", "_")


def table() -> str:
    """All quirks as the Markdown table of docs/benchmarks/offloading.md."""
    rows = [f"| `{name}` | {', '.join(sorted(quirk.models))} | {quirk.why} |" for name, quirk in sorted(QUIRKS.items())]
    return "\n".join(["| quirk | models | why it is wrong or odd |", "|---|---|---|", *rows])
