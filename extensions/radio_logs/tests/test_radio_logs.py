"""Runs as text logs of srsRAN and Open5GS, read back to the figures of the run."""

import csv
import json
import re
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from typer.testing import CliRunner

import cosim
from cosim.cli.main import app
from cosim.contract.errors import ScenarioError, SetupError
from cosim.extensions.radio_logs import open5gs, srsran

SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: field
run: {duration: 20 s, step: 500 ms, seed: 3}
adapters:
  radio: {model: ci, exponent: 3.1, shadowing: 3 dB, fading: rayleigh, link_failure: {t310: 1 s}, log: true}
  continuum: {scheduler: nearest}
kinds:
  jammer: {tier: device}
nodes:
  mast: {kind: base-station, at: [0 m, 0 m], cpu: 8 x 3 GHz, cell: {power: 30 dBm}}
  pole: {kind: base-station, at: [400 m, 0 m], cpu: 8 x 3 GHz, cell: {power: 24 dBm, carrier: 3.6 GHz}}
  phone-[1..3]: {kind: device, at: [90 m, 20 m]}
  van: {kind: jammer, at: [100 m, 0 m], jammer: {power: 34 dBm, active: false}}
workloads:
  up: {from: phone-*, arrivals: poisson 2 Hz, input: 300 kB, output: 200 kB, work: 5 Mcycles}
events:
  - {at: 6 s, do: jammer-on, node: van, for: 6 s}
"""
DAY = datetime(2026, 5, 4, 3, 2, 1)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("logs")
    (root / "s.cosim.yaml").write_text(SCENARIO)
    return cosim.load(cosim.run(root / "s.cosim.yaml", out=root / "runs", driver="loop").folder)


@pytest.fixture(scope="module")
def written(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    for name in ("srsran", "open5gs"):
        command = ["export", name, str(run.path), "--out", str(out / name), "--epoch", DAY.isoformat(), "--json"]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["lines"]
    return out


@pytest.fixture(scope="module")
def truth(run):
    """Rows of the run by (s, cell, rnti)."""
    names = ("time", "node", "cell", "rnti", "cqi", "ri", "mcs", "bler", "rate", "prbs", "rsrp", "sinr")
    up = ("sinr", "mcs", "bler", "rate", "prbs", "buffer", "nack")
    query = f"SELECT {', '.join('u.' + name for name in names)}, {', '.join('g.' + name for name in up)}, l.pathloss"
    rows = run.sql(f"{query} FROM ue u LEFT JOIN gnb g USING (time, node) LEFT JOIN link l USING (time, node)")
    heads = [*names, *(f"up_{name}" for name in up), "pathloss"]
    return [dict(zip(heads, row, strict=True)) for row in rows.fetchall()]


def test_a_base_stations_log_reads_back_to_the_figures_of_the_run(written, truth):
    known = {(row["time"], row["cell"], row["rnti"]): row for row in truth if row["rnti"]}
    seen = sent = 0
    for cell in ("mast", "pole"):
        path = written / "srsran" / f"gnb-{cell}.log"
        for line in srsran.read_log(path) if path.exists() else ():
            row = known.pop(((line["time"] - DAY).total_seconds(), cell, line["rnti"]))
            assert (line["cqi"], line["dl_ri"]) == (row["cqi"], row["ri"])
            assert (line["dl_mcs"], line["ul_mcs"]) == (row["mcs"], row["up_mcs"])
            assert line["pusch_snr_db"] == pytest.approx(row["up_sinr"], abs=0.051)
            for way, end, part in (("dl", "", 0.75), ("ul", "up_", 0.25)):
                rate = row[f"{end}rate"] if row[f"{end}prbs"] else 0.0
                assert line[f"{way}_brate"] == pytest.approx(rate, rel=6e-3)
                blocks = 2000 * part * row[f"{end}prbs"] / 51 * 0.5
                assert line[f"{way}_nof_ok"] + line[f"{way}_nof_nok"] == pytest.approx(blocks, abs=0.51)
                assert line[f"{way}_nof_nok"] == pytest.approx(blocks * row[f"{end}bler"], abs=1.01)
                sent += line[f"{way}_nof_ok"]
            assert line["ul_nof_nok"] == pytest.approx(0.5 * row["up_nack"], abs=1.01)
            assert line["bsr"] == pytest.approx(row["up_buffer"], rel=6e-3, abs=1.0)
            seen += 1
    assert seen > 50
    assert sent > 1000
    assert not known  # every phone with a cell is in a log at every moment


def test_the_consoles_trace_says_what_the_log_says(written):
    log, trace = (
        read(written / "srsran" / f"gnb-mast.{end}")
        for read, end in ((srsran.read_log, "log"), (srsran.read_trace, "txt"))
    )
    assert len(log) == len(trace) > 50
    for line, row in zip(log, trace, strict=True):
        for name in (
            "pci",
            "rnti",
            "cqi",
            "dl_mcs",
            "ul_mcs",
            "dl_nof_ok",
            "ul_nof_nok",
            "pusch_snr_db",
            "dl_error_rate",
        ):
            assert line[name] == row[name], name
        assert row["dl_brate"] == pytest.approx(line["dl_brate"], rel=0.06)
        assert row["ul_brate"] == pytest.approx(line["ul_brate"])


def test_a_trace_of_another_version_is_read_by_its_header(tmp_path):
    """Columns came and went: no rsrp and no rank in the uplink, then both; times in us, ns or not at all."""
    (tmp_path / "old.txt").write_text(
        "--== gNB started ==---\n"
        "          |--------------------DL---------------------|-------------------UL------------------\n"
        " pci rnti | cqi  ri  mcs  brate   ok  nok  (%)  dl_bs | pusch  mcs  brate   ok  nok  (%)    bsr    ta  phr\n"
        "   1 4601 |  14   2   26    11M  310    7   2%   9.5k |  24.1   25   3.2M  120    4   3%  1.20k   0us   17\n"
        "   1 4601 |  14   2    0      0    0    0   0%      0 |   n/a    0      0    0    0   0%      0   n/a  n/a\n"
    )
    first, second = srsran.read_trace(str(tmp_path / "old.txt"))
    assert (first["rnti"], first["dl_ri"], first["dl_brate"], first["ul_nof_ok"]) == (0x4601, 2.0, 11e6, 120)
    assert (first["bsr"], first["last_phr"], first["ta"]) == (1200.0, 17.0, 0.0)
    assert second["pusch_snr_db"] is None
    assert second["last_phr"] is None


def test_the_metrics_of_phones_read_back(written, truth):
    for node in ("phone-1", "phone-2", "phone-3"):
        rows = srsran.read_ue(written / "srsran" / f"ue-{node}.csv")
        mine = [row for row in truth if row["node"] == node]
        assert len(rows) == len(mine) == 41
        for row, true in zip(rows, sorted(mine, key=lambda one: one["time"]), strict=True):
            assert row["time"] == true["time"]
            assert row["rsrp"] == pytest.approx(true["rsrp"], abs=0.0051)
            assert row["dl_snr"] == pytest.approx(true["sinr"], abs=0.0051)
            assert row["pl"] == pytest.approx(true["pathloss"], abs=0.0051)
            assert row["dl_mcs"] == true["mcs"]
            assert row["is_attached"] == (true["rnti"] > 0)
            assert row["rf_o"] == 0
            assert row["earfcn"] is None


def test_the_cores_log_counts_who_is_there(written, truth):
    log = open5gs.read(written / "open5gs" / "open5gs.log", DAY.year)
    with (written / "open5gs" / "subscribers.csv").open() as file:
        who = {row["imsi"]: row["node"] for row in csv.DictReader(file, delimiter=";")}
    assert sorted(who.values()) == ["phone-1", "phone-2", "phone-3"]
    times = sorted({row["time"] for row in truth})
    for time in times:
        connected = sum(row["rnti"] > 0 for row in truth if row["time"] == time)
        until = [event for event in log if event.time <= DAY + timedelta(seconds=time)]
        now = {event.what: event.now for event in until if event.now is not None}
        assert now.get("gNB-UEs", 0) == connected, time
        assert now["gNBs"] == 2
    came = [event for event in log if event.what == "Registration complete"]
    again = [event for event in log if event.what == "Service request"]
    assert sorted(who[event.who] for event in came) == sorted(who.values())
    ordered = sorted(truth, key=lambda one: (one["node"], one["time"]))
    gained = sum(
        b["rnti"] > 0 and (a["rnti"] == 0 or (a["cell"] == b["cell"] and a["rnti"] != b["rnti"]))
        for a, b in pairwise(ordered)
        if a["node"] == b["node"]
    )
    assert len(again) == gained > 0  # the jammer's radio link failures


def test_a_core_that_a_phone_leaves_has_one_session_less(tmp_path):
    core = open5gs._Core(DAY)
    rows = [(0.0, "a", "mast", 17921), (0.0, "b", "mast", 17922), (1.0, "b", "pole", 17921), (2.0, "b", "-", 0)]
    open5gs._report(core, rows, {"mast", "pole"}, {"a": "001010000000001", "b": "001010000000002"})
    assert core.now == {
        "gNBs": 0, "gNB-UEs": 0, "AMF-UEs": 1, "AMF-Sessions": 1, "SMF-UEs": 1, "SMF-Sessions": 1,
    }  # fmt: skip
    path = tmp_path / "core.log"
    path.write_text("".join(f"{line}\n" for line in core.lines))
    assert [event.now for event in open5gs.read(path, DAY.year) if event.what == "gNB-UEs"] == [1, 2, 1, 2, 1, 0]


def test_a_line_of_a_core_with_the_line_number_of_its_source_is_read(tmp_path):
    (tmp_path / "amf.log").write_text(
        "11/05 09:08:07.654: [amf] INFO: [Added] Number of AMF-Sessions is now 3 (../src/amf/context.c:2683)\n"
        "11/05 09:08:07.655: [sbi] WARNING: something else (../lib/sbi/path.c:7)\n"
    )
    [event] = open5gs.read(tmp_path / "amf.log", 2026)
    assert (event.time, event.part) == (datetime(2026, 11, 5, 9, 8, 7, 654000), "amf")
    assert (event.what, event.now) == ("AMF-Sessions", 3)


def kept(line, how):
    """A line of a log as others keep it."""
    return {
        "plain": line,
        "colour": re.sub(r"([\d:/. ]+\d): \[(\w+)\]", "\x1b[32m\\1\x1b[0m: [\x1b[33m\\2\x1b[0m]", line),
        "compose": f"core-1  | {line}",
        "coloured compose": f"\x1b[36mcore-1  |\x1b[0m {line}",
        "journald": f"Aug 30 14:45:33 host open5gs-amfd[12]: {line}",
        "short-iso": f"2030-08-30T14:45:33+0200 host open5gs-amfd[12]: {line}",
        "docker -t": f"2030-08-30T14:45:33.368000000Z {line}",
        "kubernetes": f"2030-08-30T14:45:33.368000000Z stdout F {line}",
    }[how]


WAYS = ["plain", "colour", "compose", "coloured compose", "journald", "short-iso", "docker -t", "kubernetes"]


@pytest.mark.parametrize("how", WAYS)
def test_a_core_s_log_is_read_however_it_was_kept(tmp_path, how):
    lines = [
        "08/30 14:45:33.368: [amf] INFO: InitialUEMessage (../src/amf/ngap-handler.c:361)",
        "08/30 14:45:33.368: [amf] INFO: [Added] Number of gNB-UEs is now 5 (../src/amf/context.c:2087)",
        "08/30 14:45:33.593: [gmm] INFO: [imsi-001010000000005] Registration complete (../src/amf/gmm-sm.c:1116)",
    ]
    (tmp_path / "c.log").write_text("\n".join(kept(line, how) for line in lines))
    count, who = open5gs.read(tmp_path / "c.log", 2030)
    assert (count.what, count.now, who.who) == ("gNB-UEs", 5, "001010000000005")


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("bars", ["two", "one", "none"])
def test_a_trace_is_read_by_its_heads_however_it_was_kept(tmp_path, how, bars):
    head = " pci rnti | cqi  mcs  brate   ok  nok  (%) | pusch  mcs  brate   ok  nok  (%)    bsr"
    row = "   1 4601 |  14   27   9.0M  610    2   0% |  22.5   20   600k  110   30  21%    745"
    if bars != "two":
        head, row = (text.replace(" |", "", 1) for text in (head, row))
    if bars == "none":
        head, row = (text.replace(" |", "") for text in (head, row))
    (tmp_path / "t.txt").write_text("\n".join(kept(line, how) for line in (head, row)))
    (found,) = srsran.read_trace(tmp_path / "t.txt")
    assert (found["dl_mcs"], found["dl_brate"], found["dl_nof_ok"]) == (27.0, 9e6, 610.0)
    assert (found["ul_mcs"], found["ul_brate"], found["ul_nof_nok"], found["rnti"]) == (20.0, 6e5, 30.0, 0x4601)


def test_a_log_of_which_nothing_is_understood_is_refused(tmp_path):
    (tmp_path / "x.log").write_text("something else\n")
    for read in (open5gs.read, srsran.read_log, srsran.read_trace):
        with pytest.raises(ScenarioError, match=r"x\.log: has no"):
            read(tmp_path / "x.log")
    (tmp_path / "x.log").write_text(" pci rnti cqi mcs\n 1 4601 15\n")
    with pytest.raises(ScenarioError, match=r"x\.log:2: has 3 cells below 4 heads"):
        srsran.read_trace(tmp_path / "x.log")


def test_what_cannot_be_written_is_refused(run, written, tmp_path):
    with pytest.raises(SetupError, match="is there already"):
        srsran.export(run.path, written / "srsran")
    srsran.export(run.path, written / "srsran", epoch=DAY, force=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="name a folder"):
        open5gs.export(run.path, tmp_path / "file")
    (tmp_path / "s.cosim.yaml").write_text(SCENARIO.replace(", log: true", "").replace("20 s", "1 s"))
    silent = cosim.run(tmp_path / "s.cosim.yaml", out=tmp_path / "runs", driver="loop").folder
    for export in (srsran.export, open5gs.export):
        with pytest.raises(SetupError, match="log: true"):
            export(silent, tmp_path / "logs")


def test_a_log_of_a_core_in_lines_of_json_is_read_or_refused_by_name(tmp_path):
    line = "03/01 10:00:00.000: [amf] INFO: [Added] Number of gNBs is now 1 (../src/amf/context.c:1)"
    path = tmp_path / "core.log"
    path.write_text(json.dumps({"log": line + "\n", "stream": "stdout"}) + "\n" + json.dumps({"MESSAGE": line}) + "\n")
    assert [(event.what, event.now) for event in open5gs.read(path)] == [("gNBs", 1), ("gNBs", 1)]
    path.write_text(line + "\n" + json.dumps({"level": "info", "msg": "Number of gNBs is now 2"}) + "\n")
    with pytest.raises(ScenarioError, match=r"core\.log:2: .*is a line of JSON"):
        open5gs.read(path)
