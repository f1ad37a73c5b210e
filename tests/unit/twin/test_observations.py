"""Telemetry from files: units, windows, groups, and refusals that say what is missing."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.contract.errors import ScenarioError
from cosim.twin.fitting.predictive import FIGURES
from cosim.twin.scenario.handling import _unlike
from cosim.twin.telemetry.observations import Measured, between, observe
from cosim.twin.telemetry.tables import decimal_step, numbers, read, rounded
from tests.unit.results import synthetic

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
def test_units_and_groups_are_read(tmp_path, name):
    table = read(written(tmp_path, rows(), name))
    told = observe(
        table, {"power": Measured("p_mw", "mW", weight=2.0)},
        time="t_ms", time_unit="ms", group="node", load={"power": "cpu"}, conditions={"load": ("cpu", "%")},
    )  # fmt: skip
    signal = told.observed["power"]
    assert signal.unit == "W"
    assert signal.weight == 2.0
    assert signal.values.min() > 1.9
    assert signal.values.max() < 5.2
    assert signal.times[:4].tolist() == [0.0, 0.0, 1.0, 1.0]
    assert signal.groups[:2] == ("a", "b")
    assert told.findings == ()
    assert 0.0 <= told.conditions["load"].low < 0.2 < 0.8 < told.conditions["load"].high <= 1.0
    assert told.source.startswith(f"{name}: 40 rows, sha256 ")


def test_parquet_is_read(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as parquet

    path = tmp_path / "power.parquet"
    parquet.write_table(pa.table({"p": [1.0, 2.0, None], "node": ["a", "b", "a"]}), path)
    told = observe(read(path), {"power": Measured("p", "kW")}, group="node")
    assert told.observed["power"].values[:2].tolist() == [1000.0, 2000.0]
    assert {finding.kind for finding in told.findings} == {"few rows", "missing values"}


def test_missing_columns_are_all_refused_with_the_nearest_names(tmp_path):
    table = read(written(tmp_path, rows()))
    with pytest.raises(ScenarioError) as refused:
        observe(table, {"power": Measured("p_nw", "mW")}, time="time", group="nodes")
    first, second, third = refused.value.problems
    assert "no column 'p_nw'" in first.message
    assert first.hint == "did you mean 'p_mw'?"
    assert "no column 'time'" in second.message
    assert third.hint == "did you mean 'node'?"


def test_dates_count_from_the_first_row(tmp_path):
    lines = ["at,v", "2024-03-01T12:00:00Z,1", "2024-03-01T13:00:10+01:00,2", "2024-03-01 12:01:00,3", "soon,4"]
    told = observe(read(written(tmp_path, lines)), {"v": Measured("v")}, time="at")
    assert told.observed["v"].times[:3].tolist() == [0.0, 10.0, 60.0]
    assert np.isnan(told.observed["v"].times[3])
    assert np.isnan(told.observed["v"].values[3])
    assert {"missing values", "time order"} <= {finding.kind for finding in told.findings}


def test_a_window_keeps_its_rows_and_an_empty_one_is_refused(tmp_path):
    table = read(written(tmp_path, rows()))
    told = observe(table, {"power": Measured("p_mw", "mW")}, time="t_ms", time_unit="ms", window=(5.0, 10.0))
    assert told.observed["power"].times.tolist() == [5.0, 5.0, 6.0, 6.0, 7.0, 7.0, 8.0, 8.0, 9.0, 9.0]
    inner = between(told.observed, 6.0, 8.0)["power"]
    assert inner.times.tolist() == [6.0, 6.0, 7.0, 7.0]
    with pytest.raises(ScenarioError, match=r"no rows between 50 s and 60 s.*reach from 0 s to 19 s"):
        observe(table, {"power": Measured("p_mw", "mW")}, time="t_ms", time_unit="ms", window=(50.0, 60.0))


def test_a_unit_nobody_knows_is_told(tmp_path):
    told = observe(read(written(tmp_path, rows())), {"power": Measured("p_mw", "mw")})
    assert [finding.kind for finding in told.findings] == ["unit"]


def test_percent_has_two_ends(tmp_path):
    lines = ["load", *(str(20 + k % 7) for k in range(40)), "180", "-3"]
    told = observe(read(written(tmp_path, lines)), {"load": Measured("load", "%")})
    assert np.isnan(told.observed["load"].values[-2:]).all()
    assert [finding.kind for finding in told.findings] == ["impossible values"]


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


def test_a_file_that_is_not_there_or_not_packed_is_refused(tmp_path):
    written(tmp_path, rows())
    with pytest.raises(ScenarioError, match=r"did you mean 'power\.csv'"):
        read(tmp_path / "powr.csv")
    (tmp_path / "power.csv.gz").write_bytes(b"not packed")
    with pytest.raises(ScenarioError, match="cannot be read"):
        read(tmp_path / "power.csv.gz")


PLAIN = "t;v\n1,5;1.234,5\n2,5;2.345\n3,5;999,5\n"


@pytest.mark.parametrize(
    "raw",
    [
        PLAIN.encode("utf-16"),
        b"sep=;\r\n" + PLAIN.replace("\n", "\r\n").encode(),
        PLAIN.replace(";", "|").encode("utf-8-sig"),
        gzip.compress(PLAIN.encode()),
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


@pytest.mark.parametrize("begin", [b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"\x28\xb5\x2f\xfd"])
def test_workbooks_and_archives_are_refused_as_such(tmp_path, begin):
    path = tmp_path / "power.csv"
    path.write_bytes(begin + bytes(40))
    with pytest.raises(ScenarioError, match=r"no table .*(CSV|unpack)"):
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


def test_times_of_another_unit_and_dates_without_a_zone_are_told(tmp_path):
    lines = ["at,v", *(f"{1.9e15 + 1e6 * k:.0f},{k}" for k in range(9)), "1900000009000,9"]
    told = observe(read(written(tmp_path, lines)), {"v": Measured("v")}, time="at")
    assert any("1 cells are no times, such as '1900000009000'" in line for line in told.warnings)
    lines = ["at,v", "2030-03-01T12:00:00Z,1", "2030-03-01 12:00:10,2", "2030-03-01T12:00:20Z,3"]
    told = observe(read(written(tmp_path, lines)), {"v": Measured("v")}, time="at")
    assert any("1 dates name no time zone" in line for line in told.warnings)


@given(cells=st.lists(st.sampled_from(["nan", "", "n/a", "inf", "-5", "1e999", "error"]), min_size=1, max_size=12))
@settings(deadline=None)
def test_cells_that_are_no_measurement_are_told_or_refused(tmp_path_factory, cells):
    good = [line.split(",")[3] for line in rows()[1:]]
    path = written(tmp_path_factory.mktemp("cells"), ["x,p", *(f"0,{cell}" for cell in good + cells)])
    try:
        told = observe(read(path), {"power": Measured("p", "mW")})
    except ScenarioError:
        return
    assert told.findings
    left = told.observed["power"].values
    assert np.isfinite(left).sum() <= len(good)
    assert np.nanmin(left) > 0.0


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the SimTune files")
def test_the_published_trace_is_read_without_a_header():
    table = read(DATA / "real_energytotalinterval_intervals_000_099.csv", header=["energy"])
    told = observe(table, {"energy": Measured("energy", "J", origin="modelled")})
    assert len(told.observed["energy"].values) == 100
    assert 6000 < told.observed["energy"].values.mean() < 6450


def test_the_table_of_a_run_knows_its_units(tmp_path):
    run = synthetic.write_run(tmp_path, ticks=60)
    told = observe(
        read(run, "host"), {"power": Measured("power"), "running": Measured("running")}, time="time", group="node"
    )
    power = told.observed["power"]
    assert power.unit == "W"
    assert set(power.groups) == {"edge-1", "edge-2", "edge-3", "cloud"}
    assert power.values.min() >= 20.0
    with pytest.raises(ScenarioError, match=r"no table 'hosts'.*did you mean 'host'"):
        read(run, "hosts")


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
    values, rows = 0.05 + 0.02 * random.random(2500), [0.05 + 0.02 * random.random(2500) for _ in range(24)]
    assert not list(_unlike(np.round(values, 6), rows, []))
    assert any("once more" in text for text in _unlike(np.round(np.append(values, values[::8]), 6), rows, []))


def test_values_that_are_all_alike_have_no_shape_of_their_own():
    """Half of the values of a server of constant speed differ by rounding alone."""
    values = np.append(np.full(300, 0.058), 0.06 + np.arange(200) / 1e3)
    noise = values * (1.0 + 1e-16 * np.random.default_rng(5).integers(-3, 4, len(values)))
    assert FIGURES["lower half"][0](values) == FIGURES["lower half"][0](noise) == 0.0
