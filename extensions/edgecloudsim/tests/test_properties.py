"""Property files, as java.util.Properties reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.errors import ScenarioError
from cosim.extensions.edgecloudsim.importing.properties import parse_properties, read_properties


def values(text):
    return {key: entry.value for key, entry in parse_properties(text).items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a : 1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a\t=\t1 ", {"a": "1 "}),
        ("a==1", {"a": "=1"}),
        ("a", {"a": ""}),
        ("=1", {"": "1"}),
        ("# a=1\n! b=2\n  # c=3\n\n \t\f\nd=4", {"d": "4"}),
        ("a=1,\\\n   2,\\\r\n\t3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        (r"a\ b\=c=\u0041\tx\q", {"a b=c": "A\txq"}),
        ("a=1\rb=2\r\nc=3\nd=4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("a=1\na=2", {"a": "2"}),
    ],
)
def test_lines_are_read_as_java_reads_them(text, expected):
    assert values(text) == expected


def test_lines_are_numbered_from_where_a_key_stands():
    found = parse_properties("# head\na=1,\\\n2\nb=3\na=4")
    assert (found["b"].line, found["a"].line, found["a"].earlier) == (4, 5, (2,))


def test_a_malformed_character_is_an_error_with_its_line():
    with pytest.raises(ScenarioError, match=r"2: '\\u00g' is not a character"):
        parse_properties("a=1\nb=\\u00g")


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(ScenarioError, match=r"none\.properties: cannot be read: No such file"):
        read_properties(tmp_path / "none.properties")


def escaped(text, key):
    """`text` as java.util.Properties.store writes it."""
    out = []
    for at, mark in enumerate(text):
        if mark in "\t\n\r\f":
            out.append({"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}[mark])
        elif mark in "\\=:#!" or (mark == " " and (key or at == 0)):
            out.append("\\" + mark)
        elif not " " <= mark <= "~":
            out.append(f"\\u{ord(mark):04x}")
        else:
            out.append(mark)
    return "".join(out)


texts = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=("Cs",)))


@given(st.dictionaries(texts.filter(bool), texts), st.sampled_from(["=", ":", " ", " = ", "\t:\f"]))
def test_what_java_stores_is_read_back(entries, between):
    text = "#stored\n" + "".join(
        f"{escaped(key, True)}{between}{escaped(value, False)}\n" for key, value in entries.items()
    )
    assert values(text) == entries


@given(st.text("ab=: \\u0\n\r\t#!", max_size=40))
def test_any_text_is_read_or_refused(text):
    try:
        found = parse_properties(text)
    except ScenarioError:
        return
    lines = 1 + text.count("\n") + text.count("\r")
    assert all(1 <= entry.line <= lines for entry in found.values())
