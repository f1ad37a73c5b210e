"""Charts of jamming, and alarms set against the truth."""

from __future__ import annotations

import json
from contextlib import closing

import pyarrow as pa
import pyarrow.parquet as pq

from cosim.report import write_report
from cosim.report.folder import Folder
from cosim.report.jamming import detection_table, jamming_charts
from cosim.results.load import load
from cosim.results.metrics import measure
from tests.unit.report.folders import write_run

LOSS = {"a": 12.0, "b": 4.0, "c": 0.0}  # dB, while the jammer is on
ALARM = {"a": True, "b": False, "c": True}


def record(run, signal, columns):
    file = run / f"frames/{signal}/radio.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), file)
    manifest = json.loads((run / "manifest.json").read_text())
    about = {"origin": "simulated", "adapters": ["radio"], "rows": len(columns["time"])}
    manifest["signals"][signal] = {**about, "columns": dict.fromkeys(set(columns) - {"time", "node"}, "1")}
    (run / "manifest.json").write_text(json.dumps(manifest))


def jammed(run, alarms=True):
    """A jammer is on from 10 s to 19 s; phone c is alarmed for nothing meanwhile, and phone b is not."""
    on = {t: 10 <= t < 20 for t in range(30)}
    rows = [(float(t), phone) for t in on for phone in LOSS]
    time, node = [t for t, _ in rows], [phone for _, phone in rows]
    loss = [LOSS[phone] if on[t] else 0.0 for t, phone in rows]
    record(run, "jamming", {"time": time, "node": node, "loss": loss, "loss_down": loss, "loss_up": loss})
    record(run, "jammer", {"time": [float(t) for t in on], "node": ["van"] * 30, "on": list(on.values())})
    if alarms:
        record(run, "alarm", {"time": time, "node": node, "on": [on[t] and ALARM[phone] for t, phone in rows]})


def test_alarms_are_set_against_the_truth(tmp_path):
    run = write_run(tmp_path)
    jammed(run)
    with Folder(run) as folder:
        table = detection_table(folder)
        phones, lost = jamming_charts(folder)
    shown = [[cell.text.replace("\xa0", " ") for cell in row] for row in table.rows]
    assert shown[0] == ["a jammer is on", "10", "10", "10", "0", "50 %", "50 %", "100 %"]
    assert shown[1] == ["none is on", "0", "0", "0", "60", "–", "–", "0 %"]
    with closing(load(run, verify=False)) as loaded:
        figures = measure(loaded)["figures"]
    assert [figures[f"alarm_{name}"]["value"] for name in ("precision", "recall", "f1")] == [10 / 20, 10 / 20, 0.5]
    assert phones.title == "Phones under jamming"
    assert [label for _, label in phones.legend] == ["lose 3 dB or more", "lose 10 dB or more", "have an alarm"]
    most = dict.fromkeys(LOSS, 0.0)
    for name, _, value in (line.split(",") for line in phones.csv.splitlines()[1:]):
        most[name] = max(most.get(name, 0.0), float(value or 0.0))
    assert (most["lose 3 dB or more"], most["lose 10 dB or more"], most["have an alarm"]) == (2.0, 1.0, 2.0)
    assert lost.title == "Signal lost to jammers"
    assert "<h2>Jamming</h2>" in write_report(run).read_text()


def test_a_run_without_jammers_or_without_a_detector_has_no_table(tmp_path):
    run = write_run(tmp_path)
    with Folder(run) as folder:
        assert jamming_charts(folder) == []
        assert detection_table(folder) is None
    jammed(run, alarms=False)
    with Folder(run) as folder:
        assert detection_table(folder) is None
        assert len(jamming_charts(folder)) == 2
