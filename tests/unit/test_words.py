"""One noun per idea: what the glossary names is defined where it says, and nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLASS = re.compile(r"`((?:cosim|adapters)\.[\w.]+)\.(\w+)`")
PUBLIC = re.compile(r"^class ([^\W_]\w*)", re.M)  # at the left margin; to parse all sources takes twenty times as long

# Words that have stood for several ideas at once: at most one class each may bear them alone.
QUALIFIED = (
    "World",
    "Books",
    "Member",
    "Service",
    "Station",
    "Roster",
    "Session",
    "Listing",
    "Place",
    "Slot",
    "Result",
)


def defined() -> dict[str, set[str]]:
    """Modules by the public classes that they define."""
    found: dict[str, set[str]] = {}
    for package in ("cosim", "adapters", "extensions"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if "tests" in path.parts:
                continue
            parts = path.relative_to(ROOT).with_suffix("").parts
            module = ".".join(parts if parts[0] == "cosim" else ("cosim", *parts))
            for name in PUBLIC.findall(path.read_text(encoding="utf-8")):
                found.setdefault(name, set()).add(module)
    return found


def glossary() -> dict[str, set[str]]:
    """Modules by the classes that the glossary names."""
    found: dict[str, set[str]] = {}
    for module, name in CLASS.findall((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")):
        found.setdefault(name, set()).add(module)
    return found


def test_the_glossary_names_the_nouns_of_the_project():
    assert {"Scenario", "Node", "Link", "Workload", "Plan", "Adapter", "Frame", "Signal"} <= glossary().keys()


def test_a_noun_of_the_glossary_has_one_home_and_a_word_with_many_uses_says_which_one_it_means():
    classes = defined()
    homes = {noun: (classes.get(noun, set()), told) for noun, told in glossary().items()}
    assert not {noun: found for noun, found in homes.items() if found[0] != found[1]}
    assert not {noun: classes[noun] for noun in QUALIFIED if len(classes.get(noun, ())) > 1}
