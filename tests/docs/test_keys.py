"""The page of all keys is made of the models that scenarios are checked with."""

import re
from pathlib import Path

from tests.extensions import needs_all
from tools import keys

PAGE = Path(__file__).parents[2] / "docs/keys.md"


@needs_all
def test_the_page_is_the_generated_one():
    assert PAGE.read_text("utf-8") == keys.page(), "run: make schema"


def test_every_block_is_there_once_and_links_lead_to_one():
    text = PAGE.read_text("utf-8")
    titles = re.findall(r"^#+ (.+)$", text, re.M)
    anchors = {title.lower().replace(" ", "-") for title in titles}
    assert len(anchors) == len(titles)
    assert {*re.findall(r"\]\(#([^)]+)\)", text)} <= anchors


def test_units_bounds_and_defaults_are_those_of_the_declaration():
    """By hand from `cosim.contract.link` and `cosim.contract.entities`."""
    lines = PAGE.read_text("utf-8").splitlines()
    for start in (
        "`rate` \\* | rate, > 0 bit/s | `1 Gbit/s` | in each direction",
        "`loss` | fraction, >= 0 %, <= 100 % | `0 %` | added to the link's;",
        "`every` | time, > 0 s | `1 h` |",
    ):
        assert any(line.startswith(f"| {start}") for line in lines), start
