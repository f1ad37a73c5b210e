"""The page on offloading says what the code has."""

from pathlib import Path

from cosim.extensions.edgecloudsim.offloading.choosing import POLICIES
from cosim.extensions.edgecloudsim.offloading.quirks import table

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "offloading.md").read_text("utf-8")


def test_the_table_of_quirks_is_that_of_the_code():
    page = (DOCS / "benchmarks/offloading.md").read_text("utf-8")
    assert table() in page, "replace the table by what cosim.extensions.edgecloudsim.offloading.quirks.table() gives"


def test_every_model_and_policy_is_named():
    for model, policies in POLICIES.items():
        assert f"| `{model}` |" in PAGE
        assert all(f"`{policy}`" in PAGE for policy in policies)
