"""Environment variables: one table, in the code and in the docs, and no other variable anywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cosim.contract import environment

ROOT = Path(__file__).resolve().parents[2]
OTHERS = {"COSIM_SWITCH_H"}  # a C header's guard


def test_every_variable_that_the_product_names_is_in_the_table():
    found = set()
    for folder, pattern in (("cosim", "*.py"), ("adapters", "*.py"), ("extensions", "*.py"), ("containers", "*")):
        for path in (ROOT / folder).rglob(pattern):
            if path.is_file() and "tests" not in path.parts and path.suffix != ".pyc":
                found |= set(re.findall(r"\bCOSIM_[A-Z0-9_]+\b", path.read_text("utf-8", "replace")))
    assert found - OTHERS == {name for name in environment.NAMES if name.startswith("COSIM_")}


def test_the_docs_show_the_table():
    page = (ROOT / "docs/environment.md").read_text("utf-8")
    for group in environment.VARIABLES.values():
        for name, meaning in group.items():
            assert f"| `{name}` | {meaning} |" in page


def test_a_variable_is_read_without_blanks_and_must_be_known():
    assert environment.text("COSIM_TOKEN", environment={"COSIM_TOKEN": " secret \n"}) == "secret"
    assert environment.text("COSIM_TOKEN", "none", {"COSIM_TOKEN": " "}) == "none"
    with pytest.raises(KeyError, match="is no variable of this product"):
        environment.text("COSIM_TOKENS")
