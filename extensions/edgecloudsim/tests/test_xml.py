"""XML with line numbers, and what is refused."""

from contextlib import suppress
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.errors import ScenarioError
from cosim.extensions.edgecloudsim.importing.xml import DEEPEST, Element, parse_xml


def test_elements_have_lines_attributes_and_text():
    root = parse_xml(b'<a>\n <b n="1">x</b>\n <b n="2"/>\n</a>')
    assert (root.name, root.line) == ("a", 1)
    assert [(child.line, child.attributes["n"], child.text) for child in root.all("b")] == [(2, "1", "x"), (3, "2", "")]
    assert root.first("b").text == "x"
    assert root.first("c") is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<a>", "1: is not well-formed XML"),
        (b"", "no element found"),
        (b"<a>\n<b></a>", "2: is not well-formed XML: mismatched tag"),
        (b'<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', "an entity is defined"),
        (b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "an entity is defined"),
        (b'<!DOCTYPE a [<!ENTITY % x SYSTEM "http://e/x.dtd"> %x;]><a/>', "an entity is defined"),
        (b'<?xml version="1.0" encoding="klingon"?><a/>', "unknown encoding"),
        (b"<a>" * (DEEPEST + 1), "nested deeper"),
    ],
)
def test_what_is_no_safe_xml_is_refused_with_its_line(content, message):
    with pytest.raises(ScenarioError, match=message):
        parse_xml(content)


names = st.text("abcdefgXYZ_", min_size=1, max_size=8)
texts = st.text(st.characters(min_codepoint=32, max_codepoint=0xFFFD, exclude_categories=("Cs",)), max_size=12)
trees = st.recursive(
    st.builds(lambda n, a, t: (n, a, t, []), names, st.dictionaries(names, texts, max_size=2), texts),
    lambda inner: st.builds(
        lambda n, a, c: (n, a, "", c), names, st.dictionaries(names, texts, max_size=2), st.lists(inner, max_size=3)
    ),
    max_leaves=8,
)


def written(tree):
    name, attributes, text, children = tree
    inside = escape(text) + "".join(map(written, children))
    return f"<{name}{''.join(f' {key}={quoteattr(value)}' for key, value in attributes.items())}>{inside}</{name}>"


def plain(element: Element):
    return element.name, element.attributes, element.text, [plain(child) for child in element.children]


@given(trees)
def test_what_is_written_is_read_back(tree):
    assert plain(parse_xml(written(tree).encode())) == tree


@given(st.one_of(st.binary(max_size=60), st.text("<>/ab='\"&;!?[]\n", max_size=60).map(str.encode)))
def test_any_bytes_are_read_or_refused(content):
    with suppress(ScenarioError):
        assert parse_xml(content).name
