"""Charts of what third-party adapters record."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq

from cosim.report import write_report
from cosim.report.folder import Folder
from cosim.report.own import own_charts
from tests.unit.report.folders import write_run


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
