"""`cosim import ifogsim|cloudsim`: from a file to a scenario that is checked and run, or to what is wrong with it."""

import json

import pytest
from typer.testing import CliRunner

from cosim.cli.main import app
from cosim.extensions.importers.tests import test_cloudsim, test_ifogsim
from cosim.scenario.load import load
from tests.forked import cosim


def imported(*arguments):
    return CliRunner().invoke(app, ["import", *map(str, arguments)])


def test_a_topology_is_imported_checked_and_run(tmp_path):
    source = test_ifogsim.written(tmp_path)
    said = ["--work", "EEG=4 Mcycles", "--work", "1 Mcycles", "--input", "0 B", "--output", "0 B", "--duration", "4 s"]
    done = imported("ifogsim", source, "--out", tmp_path / "out", *said, "--json")
    assert done.exit_code == 0, done.output
    reported = json.loads(done.stdout)
    assert (reported["devices"], reported["sensors"], reported["actuators"]) == (3, 1, 1)
    assert {notice["file"] for notice in reported["notices"]} == {str(source)}
    ran = cosim("run", tmp_path / "out", "--out", tmp_path / "runs", "--json")
    assert ran.returncode == 0, ran.stderr
    figures = json.loads(ran.stdout)["figures"]
    assert figures["tasks_created"] == 8
    assert figures["response_mean"] == pytest.approx(2 * 0.006 + 4e6 / 1e9)


def test_a_scenario_of_cloudsim_is_imported(tmp_path):
    source = test_cloudsim.written(tmp_path)
    done = imported("cloudsim", source, "--out", tmp_path / "out.yaml", "--duration", "30 s", "--json")
    assert done.exit_code == 0, done.output
    reported = json.loads(done.stdout)
    assert (reported["vms"], reported["cloudlets"]) == (6, 14)
    scenario = load(tmp_path / "out.yaml")
    assert scenario.scenario.run.duration == 30.0


def test_mistakes_end_with_2_and_leave_nothing(tmp_path):
    source = test_ifogsim.written(tmp_path, test_ifogsim.changed(2, mips=-1))
    out = tmp_path / "new" / "out"
    done = imported("ifogsim", source, "--out", out)
    assert done.exit_code == 2
    assert f"{source}:" in done.stderr.replace("\n", "")
    assert "nodes[2].mips" in done.stderr
    assert not out.parent.exists()
    good = test_ifogsim.written(tmp_path)
    strict = imported("ifogsim", good, "--out", out, "--strict")  # the actuator is ignored
    assert strict.exit_code == 2
    assert "refused by --strict" in strict.stderr
    unknown = imported("ifogsim", good, "--out", out, "--scheduler", "nearst")
    assert unknown.exit_code == 2
    assert "there is no scheduler 'nearst'" in unknown.stderr
