"""Charts of what third-party adapters record."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cosim.contract.plugins import installed, settle
from cosim.contract.registry import beside
from cosim.report import write_report
from cosim.report.folder import Folder
from cosim.report.own import own_charts, sections
from tests.unit.report.folders import write_run

ROOT = Path(__file__).resolve().parents[3]


def record(run, nodes):
    times = [float(t) for t in range(61) for _ in nodes]
    columns = {
        "time": times,
        "node": list(nodes) * 61,
        "level": [0.1 * t for t in times],
        "open": [t > 30 for t in times],
        "word": ["x"] * len(times),
    }
    file = run / "frames/tank/water.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(pa.table(columns), file)
    manifest = json.loads((run / "manifest.json").read_text())
    units = {"level": "m", "open": "", "word": ""}
    manifest["signals"]["tank"] = {"origin": "simulated", "adapters": ["water"], "rows": len(times), "columns": units}
    (run / "manifest.json").write_text(json.dumps(manifest))


def test_every_number_of_an_unknown_signal_has_a_chart(tmp_path):
    run = write_run(tmp_path)
    with Folder(run) as folder:
        assert own_charts(folder) == []
    record(run, ["tank-'a", "tank-b"])
    with Folder(run) as folder:
        level, is_open = own_charts(folder)
    assert (level.title, is_open.title) == ("tank: level", "tank: open")
    assert [label for _, label in level.legend] == ["tank-'a", "tank-b"]
    rows = [line.split(",") for line in level.csv.splitlines()[1:]]
    assert {row[0] for row in rows} == {"tank-'a", "tank-b"}
    assert all(abs(float(value) - 0.1 * float(time)) < 0.1 for _, time, value in rows)
    page = write_report(run).read_text("utf-8")
    assert "Signals of adapters" in page


def test_many_nodes_are_taken_together(tmp_path):
    run = write_run(tmp_path)
    record(run, [f"tank-{k}" for k in range(9)])
    with Folder(run) as folder:
        level, _ = own_charts(folder)
    assert [label for _, label in level.legend] == ["highest", "mean", "lowest"]
    assert level.note == "Over 9 nodes."


@pytest.fixture
def soil(tmp_path, monkeypatch):
    """Install the package of an adapter `soil`, with nothing in it besides the section that the documentation shows."""
    page = (ROOT / "docs/extend.md").read_text("utf-8")
    (text,) = re.findall(r'^```python title="soil/report.py"\n(.*?)^```', page, re.M | re.S)
    for file, content in {
        "soil/__init__.py": "",
        "soil/report.py": text,
        "soil-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: soil\nVersion: 1.0\n",
        "soil-1.0.dist-info/entry_points.txt": "[cosim.adapters]\nsoil = soil:ADAPTER\nplain = json.tool:ADAPTER\n",
    }.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    settle.cache_clear()
    installed.cache_clear()
    yield
    monkeypatch.undo()
    settle.cache_clear()
    installed.cache_clear()
    for name in ("soil", "soil.report"):
        sys.modules.pop(name, None)


def test_a_file_beside_an_adapter_is_a_section_of_the_page(tmp_path, soil):
    run = write_run(tmp_path)
    file = run / "frames/soil/field.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(pa.table({"time": [0.0, 9.0], "node": ["a", "a"], "moisture": [30.0, 12.5]}), file)
    manifest = json.loads((run / "manifest.json").read_text())
    about = {"origin": "simulated", "adapters": ["field"], "rows": 2, "columns": {"moisture": "%"}}
    manifest["signals"]["soil"] = about
    manifest["adapters"] = [{"name": "field", "use": "soil"}]
    (run / "manifest.json").write_text(json.dumps(manifest))
    page = write_report(run).read_text("utf-8")
    assert '<section id="soil"><h2>Soil</h2>' in page
    assert "Signals of adapters" not in page
    manifest["adapters"] = [{"name": "field", "use": "soil:ADAPTER"}]  # by its place: any folder could name any code
    (run / "manifest.json").write_text(json.dumps(manifest))
    with Folder(run) as folder:
        assert sections(folder) == {}
        (chart,) = own_charts(folder)
    assert chart.title == "soil: moisture"


def test_adapters_without_the_file_have_no_section(soil):
    assert beside("soil", "report") is not None
    assert [beside(name, "report") for name in ("plain", "radio", "nothing", "soil:ADAPTER")] == [None] * 4
