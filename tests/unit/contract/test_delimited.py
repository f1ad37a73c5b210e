"""One reader of CSV: a file is what its bytes say, and mistakes have a line."""

import gzip

import pytest

from cosim.contract.delimited import CellsError, batches, content, header, line_of, opened, records, sheet
from cosim.contract.errors import ScenarioError

PLAIN = 'name;load\n\n"a\n;b";1\nc;2\n'


@pytest.mark.parametrize(
    "raw",
    [
        PLAIN.encode(),
        PLAIN.encode("utf-8-sig"),
        PLAIN.encode("utf-16"),
        gzip.compress(PLAIN.encode("utf-16"), mtime=0),
        PLAIN.replace(";", "\t").encode(),
        PLAIN.replace("\n", "\r\n").encode(),
        PLAIN.replace("\n", "\r").encode(),
    ],
    ids=["plain", "marked", "UTF-16", "packed", "tabs", "Windows", "CR"],
)
def test_cells_and_lines_are_those_of_the_file(tmp_path, raw):
    path = tmp_path / "cells.csv"
    path.write_bytes(raw)
    found = sheet(content(path), path)
    assert found.names == ["name", "load"]
    assert found.columns()["load"] == ["1", "2"]
    assert found.rows[0][0].translate({9: ";", 13: None, 10: None}) == "a;b"
    assert found.lines == [4, 5]


def test_a_line_of_excel_names_the_mark():
    assert list(records("sep=|\na,b|c\n")) == [(2, ["a,b", "c"])]


def test_a_row_of_another_length_has_its_line(tmp_path):
    with pytest.raises(ScenarioError, match=r"x\.csv:4: .*data row 2 has 1 cells, and there are 2 columns"):
        sheet("a,b\n1,2\n\n3\n", tmp_path / "x.csv")


def test_large_files_come_in_blocks_with_lines(tmp_path):
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "x.csv"
    path.write_bytes("a,b\n1,2\n\n3,x\n".encode("utf-16"))
    wanted = {"a": pa.float64()}
    (batch,) = batches(path, wanted, names=header(path))
    assert batch.to_pydict() == {"a": [1.0, 3.0]}
    assert line_of(path, 1, 1) == 4
    with pytest.raises(ScenarioError, match=r"x\.csv:4: .*invalid value 'x'"):
        list(batches(path, {"b": pa.float64()}, names=header(path)))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"\xff", "is not text in UTF-8"),
        (b"\xff\xfe\x00", "is not text"),
        (gzip.compress(b"a,b\n" * 99, mtime=0)[:-9], "cannot be read"),
    ],
)
def test_what_is_no_text_is_named(tmp_path, raw, said):
    (tmp_path / "x.csv").write_bytes(raw)
    with pytest.raises(ScenarioError, match=rf"x\.csv: {said}"):
        content(tmp_path / "x.csv")


def test_a_path_may_be_text(tmp_path):
    """As users write it; an error still has the file."""
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    assert content(str(path)) == content(path)
    assert header(str(path)) == ["a", "b"]
    with pytest.raises(CellsError) as caught:
        opened(str(tmp_path / "none.csv"))
    assert caught.value.problems[0].file == tmp_path / "none.csv"
