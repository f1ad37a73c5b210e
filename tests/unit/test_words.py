"""One noun per idea: what the glossary names is defined where it says, and nowhere else."""

from __future__ import annotations

import re

from tools import house

CLASS = re.compile(r"`((?:cosim|adapters)\.[\w.]+)\.(\w+)`")

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


def glossary() -> dict[str, set[str]]:
    """Modules by the classes that the glossary names."""
    found: dict[str, set[str]] = {}
    for module, name in CLASS.findall((house.ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")):
        found.setdefault(name, set()).add(module)
    return found


def test_the_glossary_names_the_nouns_of_the_project():
    assert {"Scenario", "Node", "Link", "Workload", "Plan", "Adapter", "Frame", "Signal"} <= glossary().keys()


def test_a_noun_of_the_glossary_has_one_home_and_a_word_with_many_uses_says_which_one_it_means():
    classes = house.classes()
    homes = {noun: ({*classes.get(noun, ())}, reported) for noun, reported in glossary().items()}
    assert not {noun: found for noun, found in homes.items() if found[0] != found[1]}
    assert not {noun: classes[noun] for noun in QUALIFIED if len(classes.get(noun, ())) > 1}
