from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.errors import Problem
from cosim.scenario.gather import split
from cosim.scenario.reading import read_text
from cosim.scenario.tree import Item, dump, merge, plain, put

SCALARS = (
    st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.floats(allow_nan=False)
    | st.text("aZ09 .:,-_#&*!|>'\"%@`{}[]é€\U0001f600\n\t", max_size=12)
    | st.sampled_from(["yes", "1", "1e5", "20 ms", "a: b", "- x", "# no", "'", '"', "a\nb", "~", "null", "x-*", "0x1"])
)  # fmt: skip
DATA: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc .:-#1", max_size=5), inner, max_size=4),
    max_leaves=12,
)


def read(text: str) -> Item:
    problems: list[Any] = []
    item = read_text(text, None, problems)
    assert item is not None
    assert problems == []
    return item


@given(st.dictionaries(st.text("abc .:-#1", max_size=5), DATA, max_size=5))
def test_what_is_dumped_is_read_back(data: dict[str, Any]) -> None:
    assert plain(read(dump(data))) == data


def test_scalars_follow_yaml_1_2() -> None:
    text = "[yes, on, 12:30, 0o17, 0x1f, 1_000, 010, .5, 1e3, ~, null, True, '1', !!str 1]"
    assert plain(read(text)) == ["yes", "on", "12:30", 15, 31, "1_000", 10, 0.5, 1000.0, None, None, True, "1", "1"]


def test_merging_and_putting_leave_their_sources_alone() -> None:
    below, above = read("a: {b: 1, c: 2}\nd: [1]\n"), read("a: {c: 3}\nd: [2]\n")
    assert plain(merge(below, above)) == {"a": {"b": 1, "c": 3}, "d": [2]}
    assert plain(put(below, ("a", "x", "y"), Item(5, below.place))) == {"a": {"b": 1, "c": 2, "x": {"y": 5}}, "d": [1]}
    assert plain(below) == {"a": {"b": 1, "c": 2}, "d": [1]}


def test_dotted_paths_find_keys_with_dots_and_list_entries() -> None:
    root = read("nodes: {'uav-[1..3]': {at: 1}, a.b: {c: 2}}\nlinks: [{rate: 1}]\n")
    assert split(root, "nodes.uav-[1..3].at") == ("nodes", "uav-[1..3]", "at")
    assert split(root, "nodes.a.b.c") == ("nodes", "a.b", "c")
    assert split(root, "links.0.rate") == ("links", 0, "rate")
    assert split(root, "run.seed") == ("run", "seed")


def test_a_document_that_is_read_again_has_its_mistakes_again_each_in_its_file() -> None:
    found: list[Problem] = []
    for name in ("a.yaml", "a.yaml", "b.yaml"):
        root = read_text("one: 1\none: 2\n", Path(name), found)
        assert root is not None
        assert plain(root) == {"one": 1}
    assert [str(problem.file) for problem in found] == ["a.yaml", "a.yaml", "b.yaml"]
