"""Tables of telemetry as they were written, and what their columns hold."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.contract.errors import ScenarioError
from cosim.sources.tables.cells import numbers, stamps
from cosim.sources.tables.table import read
from cosim.twin.judgement.course import Course, decimal_step, rounded
from cosim.twin.judgement.table import TABLE
from cosim.twin.problem import MeasuredSignal
from cosim.twin.telemetry.hygiene import examine

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "edge_power" / "simtune"


def written(folder: Path, lines: list[str], name: str = "power.csv") -> Path:
    path = folder / name
    text = "\n".join(lines) + "\n"
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def rows(count: int = 40) -> list[str]:
    random = np.random.default_rng(1)
    load = random.uniform(0, 100, count)
    power = 2000 + 30 * load + random.normal(0, 20, count)
    return [
        "t_ms,node,cpu,p_mw",
        *(f"{1000 * (k // 2) + 5000},{'ab'[k % 2]},{load[k]:.3f},{power[k]:.3f}" for k in range(count)),
    ]


@pytest.mark.parametrize("name", ["power.csv", "power.csv.gz"])
def test_columns_are_read(tmp_path, name):
    table = read(written(tmp_path, rows(), name))
    assert numbers(table.column("t_ms"), "t_ms", [])[:4].tolist() == [5000.0, 5000.0, 6000.0, 6000.0]
    assert stamps(table.column("t_ms"), "t_ms", "ms", []).seconds[:4].tolist() == [5.0, 5.0, 6.0, 6.0]
    assert table.column("node")[:2].tolist() == ["a", "b"]
    assert table.source.startswith(f"{name}: 40 rows, sha256 ")
    with pytest.raises(ScenarioError, match=r"no column 'p_nw'.*did you mean 'p_mw'"):
        table.column("p_nw")


def test_dates_of_any_usual_form_are_times(tmp_path):
    lines = ["at,v", "2024-03-01T12:00:00Z,1", "2024-03-01T13:00:10+01:00,2", "2024-03-01 12:01:00,3", "soon,4"]
    findings = []
    found = stamps(read(written(tmp_path, lines)).column("at"), "at", None, findings).seconds
    assert (found[:3] - found[0]).tolist() == [0.0, 10.0, 60.0]
    assert np.isnan(found[3])
    assert [finding.kind for finding in findings] == ["missing values", "time order"]


def test_percent_has_two_ends():
    values = np.array([*(0.2 + 0.01 * (k % 7) for k in range(40)), 1.8, -0.03])
    observed, findings = examine({"load": MeasuredSignal(values, "1")})
    assert np.isfinite(observed["load"].values).all()  # a bare number knows no bounds
    observed, findings = examine({"load": MeasuredSignal(100.0 * values, "%")})
    assert np.isnan(observed["load"].values[-2:]).all()
    assert [finding.kind for finding in findings] == ["impossible values"]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "it is empty"),
        (["a,b", "1,2", "3"], "data row 2 has 1 cells, and there are 2 columns"),
        (["a,a", "1,2"], "two columns are called 'a'"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path, lines, words):
    path = tmp_path / "power.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(ScenarioError, match=words):
        read(path)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    written(tmp_path, rows())
    with pytest.raises(ScenarioError, match=r"did you mean 'power\.csv'"):
        read(tmp_path / "powr.csv")


PLAIN = "t;v\n1,5;1.234,5\n2,5;2.345\n3,5;999,5\n"


@pytest.mark.parametrize(
    "raw",
    [
        PLAIN.encode("utf-16"),
        b"sep=;\r\n" + PLAIN.replace("\n", "\r\n").encode(),
        PLAIN.replace(";", "|").encode("utf-8-sig"),
        gzip.compress(PLAIN.encode(), mtime=0),
    ],
    ids=["UTF-16", "sep=", "bars", "packed"],
)
def test_what_a_file_is_its_bytes_say(tmp_path, raw):
    path = tmp_path / "power.csv"
    path.write_bytes(raw)
    table = read(path)
    assert table.column("t").astype(float).tolist() == [1.5, 2.5, 3.5]
    assert table.column("v").astype(float).tolist() == [1234.5, 2345.0, 999.5]


def test_a_point_is_a_mark_of_thousands_only_where_all_cells_have_it_there(tmp_path):
    table = read(written(tmp_path, ["t;v", "1,5;1.234", "2,5;0.75", "3,5;2.345"]))
    assert table.column("v").astype(float).tolist() == [1.234, 0.75, 2.345]


@pytest.mark.parametrize("begin", [b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"\x28\xb5\x2f\xfd", b"BZh"])
def test_workbooks_and_damaged_archives_are_refused(tmp_path, begin):
    path = tmp_path / "power.csv"
    path.write_bytes(begin + bytes(40))
    with pytest.raises(ScenarioError, match=r"CSV|cannot be read"):
        read(path)


def test_parquet_is_known_by_its_bytes_and_durations_are_seconds(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    took = pa.array([1_500_000, None, 250_000]).cast(pa.duration("us"))
    parquet.write_table(pa.table({"took": took}), tmp_path / "tasks.bin")
    values = numbers(read(tmp_path / "tasks.bin").column("took"), "took", [])
    assert values[[0, 2]].tolist() == [1.5, 0.25]
    assert np.isnan(values[1])


def test_k6_writes_a_row_per_metric(tmp_path):
    lines = ["metric_name,timestamp,metric_value,check,method"]
    lines += [f"{name},19000000{k},{value},,GET" for k in (10, 11) for name, value in (("reqs", 1), ("taken", 2.5 + k))]
    table = read(written(tmp_path, lines))
    assert table.column("taken")[1::2].tolist() == [12.5, 13.5]
    assert np.isnan(table.column("taken")[::2]).all()
    assert table.column("time")[0] == 1900000010.0


def test_times_of_another_unit_are_none(tmp_path):
    lines = ["at,v", *(f"{1.9e15 + 1e6 * k:.0f},{k}" for k in range(9)), "1900000009000,9"]
    findings = []
    stamps(read(written(tmp_path, lines)).column("at"), "at", None, findings)
    assert "1 cells are no times, such as '1900000009000'" in findings[0].message


@given(cells=st.lists(st.sampled_from(["nan", "", "n/a", "inf", "-5", "1e999", "error"]), min_size=1, max_size=12))
@settings(deadline=None)
def test_cells_that_are_no_measurement_are_told(tmp_path_factory, cells):
    good = [line.split(",")[3] for line in rows()[1:]]
    path = written(tmp_path_factory.mktemp("cells"), ["x,p", *(f"0,{cell}" for cell in good + cells)])
    findings = []
    values = numbers(read(path).column("p"), "power", findings)
    observed, more = examine({"power": MeasuredSignal(1e-3 * values, "W")})
    assert findings or more
    left = observed["power"].values
    assert np.isfinite(left).sum() <= len(good)
    assert np.nanmin(left) > 0.0


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the SimTune files")
def test_the_published_trace_is_read_without_a_header():
    table = read(DATA / "real_energytotalinterval_intervals_000_099.csv", header=["energy"])
    values = numbers(table.column("energy"), "energy", [])
    assert len(values) == 100
    assert 6000 < values.mean() < 6450


def test_how_many_digits_a_column_has():
    values = np.random.default_rng(3).exponential(0.05, 400)
    assert decimal_step(np.round(values, 4)) == pytest.approx(1e-4)
    assert decimal_step(1e3 * np.round(values, 6)) == pytest.approx(1e-3)
    since_1970 = 1.9e9 + np.round(values, 6)
    assert decimal_step(since_1970 - 1.9e9) == pytest.approx(1e-6)  # though such times have no more digits
    assert decimal_step(values) == 0.0
    assert rounded(values, 0.0) is values


def test_equal_values_of_a_coarse_clock_are_no_rows_written_again():
    random = np.random.default_rng(4)
    values, other = 0.05 + 0.02 * random.random((2, 2500))
    step = decimal_step(np.round(values, 6))
    twice = [Course(rounded(one, step), scale=0.06).twice for one in (values, other, np.append(values, values[::8]))]
    assert twice[0] == pytest.approx(twice[1], abs=0.02)
    assert twice[2] > twice[1] + 0.1


def test_values_that_are_all_alike_have_no_shape_of_their_own():
    """Half of the values of a server of constant speed differ by rounding alone."""
    values = np.append(np.full(300, 0.058), 0.06 + np.arange(200) / 1e3)
    noise = values * (1.0 + 1e-16 * np.random.default_rng(5).integers(-3, 4, len(values)))
    (lower,) = [one for one in TABLE if one.name == "lower half"]
    assert np.isnan([lower.of(Course(one, scale=0.06)) for one in (values, noise)]).all()
