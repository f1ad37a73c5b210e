"""A copy of EdgeCloudSim, stood in for by a program `java` that answers with our own model's logs."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

pytest.importorskip("scipy")

from benchmarks.golden import DataError

from benchmarks import edgecloudsim, edgecloudsim_peer
from cosim.extensions.edgecloudsim.offloading.logs import write_logs
from cosim.extensions.edgecloudsim.offloading.simulation import simulate
from tests.unit.sources.importing.inputs import PROPERTIES, written

JAVA = f"""\
#!{sys.executable}
import sys
from pathlib import Path
from cosim.extensions.edgecloudsim.importing import study_of
from cosim.extensions.edgecloudsim.offloading.logs import write_logs
from cosim.extensions.edgecloudsim.offloading.simulation import simulate
flag, classes, main, properties, devices, applications, out, iteration = sys.argv[1:]
assert flag == "-cp" and classes.endswith("lib/*") and main.endswith("sample_app1.MainApp"), sys.argv
study, _ = study_of(Path(properties), Path(devices), Path(applications), physics="compatible")
write_logs(Path(out), simulate(study, 4000 + int(iteration)), "edgecloudsim")
"""


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folders of a copy, whose only sample application is a small study of ours."""
    copy = tmp_path / "copy"
    config = copy / "scripts" / "sample_app1" / "config"
    for folder in (copy / "bin", copy / "lib", config, tmp_path / "programs"):
        folder.mkdir(parents=True)
    for made, name in zip(written(tmp_path), edgecloudsim_peer._FILES, strict=True):
        (config / name).write_bytes(made.read_bytes())
    java = tmp_path / "programs" / "java"
    java.write_text(JAVA)
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(java.parent), prepend=":")
    few = ((50, 50), (2, 2), ("TWO_TIER_WITH_EO",), ("NEXT_FIT", "WORST_FIT"))
    monkeypatch.setattr(edgecloudsim_peer, "SAMPLES", {1: few})
    return copy


def test_its_logs_say_what_our_metrics_say(peer: Path, tmp_path: Path) -> None:
    """The logs are those of one outcome, so that every figure read from them is the outcome's own."""
    drawn = edgecloudsim_peer.draw(peer, 3, tmp_path / "drawn")
    outcome = simulate(drawn.study, 11)
    write_logs(tmp_path, outcome, "edgecloudsim")
    ours = outcome.metrics()
    for name in ("ALL_APPS", *(one.name for one in drawn.study.applications)):
        (file,) = tmp_path.glob(f"*DEVICES_{name}_GENERIC.log")
        end = "" if name == "ALL_APPS" else f"[{name}]"
        reported = edgecloudsim_peer.figures(file.read_text())
        known = {metric: value for metric, value in reported.items() if metric + end in ours}
        assert len(known) >= len(reported) - (3 if end else 0)  # loads of machines are of no application
        assert known == pytest.approx({metric: ours[metric + end] for metric in known}, nan_ok=True)


def test_a_number_gives_the_same_configuration_and_another_gives_another(peer: Path, tmp_path: Path) -> None:
    texts = [
        edgecloudsim_peer.draw(peer, number, tmp_path / place).files[0].read_text()
        for number, place in ((1, "a"), (1, "b"), (2, "c"))
    ]
    assert texts[0] == texts[1] != texts[2]
    assert "wlan_bandwidth=" in texts[0]
    assert texts[0].count("simulation_time=") == PROPERTIES.count("simulation_time=") == 1


@pytest.mark.slow
def test_the_same_model_behind_it_is_not_different(
    peer: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["edgecloudsim", "--peer", str(peer), "--drawn", "1", "--iterations", "2", "--runs", "4", "--json"]
    monkeypatch.setattr("sys.argv", words)
    assert edgecloudsim.main() == 0
    data = json.loads(capsys.readouterr().out)
    (one,) = data["configurations"]
    assert data["summary"]["different"] == 0
    assert {row["their_runs"] for row in one["metrics"]} == {2}
    assert one["reference_cpu_s_per_iteration"] > 0.0


def test_a_copy_that_cannot_run_is_told(peer: Path, tmp_path: Path) -> None:
    drawn = edgecloudsim_peer.draw(peer, 1, tmp_path / "drawn")
    (tmp_path / "programs" / "java").write_text("#!/bin/sh\necho 'class not found' >&2; exit 1\n")
    with pytest.raises(DataError, match="class not found"):
        edgecloudsim_peer.run(peer, drawn, 1)
    (peer / "bin").rmdir()
    with pytest.raises(DataError, match="no folder 'bin'"):
        edgecloudsim_peer.look(peer)
    with pytest.raises(DataError, match="no general log"):
        edgecloudsim_peer.figures("#comment\n1;2;3\n")
