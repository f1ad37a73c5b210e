"""The pages form a tree by task, and the page at the head of each branch leads to all of it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"^( +)- (?:[^:\n]+: )?([\w/-]+\.md)$", re.M)


def branches():
    """The first page of each section of the navigation, with the pages below it."""
    tree = (ROOT / "mkdocs.yml").read_text("utf-8").partition("nav:")[2].partition("\nvalidation:")[0]
    for part in re.split(r"^  - ", tree, flags=re.M)[1:]:
        head, *pages = [match[2] for match in LINE.finditer(part)]
        yield pytest.param(head, pages, id=head)


@pytest.mark.parametrize(("head", "below"), [*branches()])
def test_the_head_of_a_branch_links_its_pages(head, below):
    text = (ROOT / "docs" / head).read_text("utf-8")
    assert len(below) >= 3
    assert [page for page in below if f"]({page}" not in text] == []


def test_the_first_page_leads_into_every_branch():
    text = (ROOT / "docs/index.md").read_text("utf-8")
    assert [branch.values[0] for branch in branches() if f"]({branch.values[0]}" not in text] == ["index.md"]


def test_the_reference_of_python_has_every_public_name():
    import cosim

    text = (ROOT / "docs/api.md").read_text("utf-8")
    assert set(re.findall(r"^::: cosim\.(\w+)$", text, re.M)) == set(cosim.__all__)
    assert set(cosim.__all__) <= set(dir(cosim))
    assert all(getattr(cosim, name).__doc__ for name in cosim.__all__)


def test_every_page_is_in_the_tree():
    tree = (ROOT / "mkdocs.yml").read_text("utf-8").partition("nav:")[2]
    named = set(re.findall(r"[\w/-]+\.md", tree))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} - named == set()
