"""A packed file is read by its bytes, whatever its name."""

import bz2
import gzip
import io
import lzma
import zipfile

import pyarrow as pa
import pytest

from cosim.contract.delimited import content, first_line, header, opened
from cosim.contract.errors import ScenarioError
from cosim.contract.reading.packed import plain_name
from cosim.sources.tables.table import read

TEXT = "time,load\n" + "".join(f"{k},{k % 7}\n" for k in range(500))


def zipped(names=("x.csv",), text=TEXT):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, text)
    return out.getvalue()


def zstd(raw):
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as stream:
        stream.write(raw)
    return out.getvalue().to_pybytes()


WAYS = {
    "plain": lambda: TEXT.encode(),
    "gzip": lambda: gzip.compress(TEXT.encode()),
    "bzip2": lambda: bz2.compress(TEXT.encode()),
    "xz": lambda: lzma.compress(TEXT.encode()),
    "zstd": lambda: zstd(TEXT.encode()),
    "zip": zipped,
    "zip of a Mac": lambda: zipped(("x.csv", "__MACOSX/._x.csv")),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x"])
def test_what_is_packed_is_read(tmp_path, way, name):
    path = tmp_path / name
    path.write_bytes(WAYS[way]())
    assert content(path) == TEXT
    with opened(path) as stream:
        assert stream.read().decode() == TEXT
    assert first_line(path) == "time,load"
    assert header(path) == ["time", "load"]
    assert len(read(path)) == 500


@pytest.mark.parametrize("way", [way for way in WAYS if way != "plain"])
def test_a_packed_file_that_is_cut_off_is_refused(tmp_path, way):
    path = tmp_path / "x.csv"
    path.write_bytes(WAYS[way]()[:-30])
    with pytest.raises(ScenarioError, match=r"x\.csv: cannot be read"):
        content(path)


def test_an_archive_of_several_files_and_a_workbook_are_named(tmp_path):
    path = tmp_path / "x.zip"
    path.write_bytes(zipped(("a.csv", "b.csv")))
    with pytest.raises(ScenarioError, match=r"an archive of 2 files: unpack it \(a\.csv, b\.csv\)"):
        read(path)
    path.write_bytes(zipped(("[Content_Types].xml", "xl/workbook.xml")))
    with pytest.raises(ScenarioError, match=r"workbook .* save the sheet as CSV"):
        read(path)


def test_the_name_without_the_ending_of_the_packer(tmp_path):
    assert plain_name(tmp_path / "Town.OSM.bz2") == "town.osm"
    assert plain_name(tmp_path / "cars.csv") == "cars.csv"
