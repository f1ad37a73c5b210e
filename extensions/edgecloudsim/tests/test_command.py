"""`cosim import`: from foreign files to a scenario that is checked, run and reported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cosim.extensions.edgecloudsim.adapter.config import OffloadingConfig
from cosim.extensions.edgecloudsim.adapter.world import build
from cosim.extensions.edgecloudsim.importing import read, study_of
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from tests.forked import cosim
from tests.unit.sources.importing.inputs import PROPERTIES, written


def arguments(folder: Path, **changes: str) -> list[object]:
    properties, edge, applications = written(folder, **changes)
    return ["--properties", properties, "--edge-devices", edge, "--applications", applications]


@pytest.mark.slow
def test_an_import_is_checked_run_and_reported(tmp_path):
    out = tmp_path / "imported"
    done = cosim("import", "edgecloudsim", *arguments(tmp_path), "--out", out, "--logs")
    assert (done.returncode, done.stderr) == (0, "")
    took, scenario = done.stdout.splitlines()
    assert took.startswith("took      model app1, physics compatible, architecture single-tier, policy next-fit, ")
    assert scenario == f"scenario  {out / 'scenario.cosim.yaml'} - 0 notices"
    checked = cosim("check", out)
    assert checked.returncode == 0, checked.stderr
    ran = cosim("run", out, "--out", tmp_path / "runs", "--json")
    assert ran.returncode == 0, ran.stderr
    data = json.loads(ran.stdout)
    assert data["figures"]["tasks_completed"] > 0
    folder = next((tmp_path / "runs").glob("*/*"))
    assert json.loads((folder / "metrics.json").read_text())["faults"] == []
    logs = sorted(path.name for path in (folder / "logs" / "offloading").iterdir())
    assert "SIMRESULT_SINGLE_TIER_NEXT_FIT_10DEVICES_ALL_APPS_GENERIC.log" in logs
    report = (folder / "report.html").read_text()
    assert "VIDEO" in report
    assert "edge-0" in report


def test_notices_are_told_and_strict_refuses_them(tmp_path):
    given = arguments(
        tmp_path, properties=PROPERTIES.replace("wan_propagation", "wan_propogation") + "net_stability=9\n"
    )
    out = tmp_path / "a.cosim.yaml"
    done = cosim("import", "edgecloudsim", *given, "--out", out)
    assert done.returncode == 0
    assert (
        f"misspelt: {tmp_path / 'default_config.properties'}:11: wan_propogation_delay: the peer never" in done.stderr
    )
    assert done.stdout.endswith("2 notices (1 ignored, 1 misspelt)\n")
    strict = cosim("import", "edgecloudsim", *given, "--out", tmp_path / "b.cosim.yaml", "--strict")
    assert strict.returncode == 2
    assert "refused by --strict" in strict.stderr
    assert "2 problems found" in strict.stderr
    assert not (tmp_path / "b.cosim.yaml").exists()
    as_json = json.loads(cosim("import", "edgecloudsim", *given, "--out", out, "--json", "--force").stdout)
    assert {notice["level"] for notice in as_json["notices"]} == {"misspelt", "ignored"}
    assert (as_json["model"], as_json["physics"], as_json["devices"]) == ("app1", "compatible", 10)


@pytest.mark.parametrize("broken", [
    {"properties": PROPERTIES.replace("simulation_time=2\n", "")},
    {"edge_devices": '<!DOCTYPE a [<!ENTITY x "y">]><edge_devices>&x;</edge_devices>'},
    {"applications": "<applications>"},
])  # fmt: skip
def test_bad_input_ends_with_2_and_leaves_nothing(tmp_path, broken):
    out = tmp_path / "new" / "folder"
    done = cosim("import", "edgecloudsim", *arguments(tmp_path, **broken), "--out", out)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert str(tmp_path) in done.stderr
    assert not out.parent.exists()


def test_a_file_that_is_there_is_kept(tmp_path):
    given = arguments(tmp_path)
    out = tmp_path / "mine.yaml"
    out.write_text("mine")
    done = cosim("import", "edgecloudsim", *given, "--out", out)
    assert done.returncode == 2
    assert "is there already" in done.stderr
    assert out.read_text() == "mine"


def same(study, files, tmp_path, **choice):
    """Whether the imported scenario is the study, but for prices that are no part of a task's cost."""
    path = tmp_path / f"{study.model}.cosim.yaml"
    path.write_text(read(*files, **choice).text)
    plan = compile_plan(load(path))
    config = OffloadingConfig.model_validate(plan.adapters[0].config)
    made = build(config, plan.scene, "offloading", plan.duration).study
    places = tuple(replace(place, costs=(*place.costs[:2], 0.0, 0.0)) for place in study.places)
    assert made == replace(study, places=places)


@pytest.mark.parametrize("choice", [{}, {"physics": "corrected", "devices": 17, "policy": "WORST_FIT"}])
def test_the_imported_scenario_is_the_study(tmp_path, choice):
    files = written(tmp_path)
    same(study_of(*files, **choice)[0], files, tmp_path, **choice)


@pytest.mark.data
@pytest.mark.parametrize(
    "sample", ["sample_app1", "sample_app2", "sample_app3", "sample_app4", "sample_app5", "unical_sample_app6"]
)
def test_published_samples_become_the_same_study(data, tmp_path, sample):
    folder = data / "edgecloudsim" / sample
    files = [folder / name for name in ("default_config.properties", "edge_devices.xml", "applications.xml")]
    same(study_of(*files)[0], files, tmp_path)
