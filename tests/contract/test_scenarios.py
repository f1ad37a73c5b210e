"""Every shipped scenario: valid by the schema, documented, and with its golden figures."""

from __future__ import annotations

import json
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from cosim.scenario.gallery import examples
from cosim.scenario.load import load
from cosim.scenario.sweep import expand
from tests.forked import cosim

jsonschema = pytest.importorskip("jsonschema")

pytestmark = pytest.mark.xdist_group("kernels")  # after an edit these compile for a minute: one worker does it
ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = [one.folder for one in examples()]
SCHEMA = json.loads((ROOT / "docs/schema/scenario.v1.json").read_text())
OTHER_VERSION = 0.10  # relative; another SUMO or numpy moves single vehicles and tasks, not the picture


def marks(folder: Path):
    return [pytest.mark.sumo, pytest.mark.slow] if "sumo:" in (folder / "scenario.cosim.yaml").read_text() else []


every = pytest.mark.parametrize("folder", [pytest.param(f, id=f.name) for f in SCENARIOS])
runnable = pytest.mark.parametrize("folder", [pytest.param(f, id=f.name, marks=marks(f)) for f in SCENARIOS])


def installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@every
def test_is_valid_by_the_schema(folder):
    jsonschema.Draft202012Validator(SCHEMA).validate(YAML(typ="safe").load(folder / "scenario.cosim.yaml"))


def test_parameters_stand_for_any_value():
    """${NAME} is no number and no quantity, and an editor does not underline it."""
    found = jsonschema.Draft202012Validator(SCHEMA)
    radio = {"model": "${MODEL}", "background": "${LOAD}", "log": "${LOG}"}
    swept = {
        "apiVersion": "cosim/v1", "kind": "Scenario", "name": "swept", "run": {"duration": "${T}", "seed": "${SEED}"},
        "adapters": {"radio": radio, "continuum": {}}, "nodes": {"edge-[1..N]": {"kind": "edge"}},
    }  # fmt: skip
    assert list(found.iter_errors(swept)) == []
    for place, wrong in (("background", "half"), ("model", "unm"), ("log", "maybe")):
        assert list(found.iter_errors({**swept, "adapters": {"radio": {**radio, place: wrong}}})), place


@every
def test_says_what_it_asks_needs_and_shows(folder):
    text = (folder / "README.md").read_text()
    for heading in ("**Question.**", "**Needs.**", "**What to look at.**", "**Origin of the numbers.**"):
        assert heading in text, heading


@every
def test_the_sweep_that_its_readme_names_has_several_runs(folder):
    named = re.search(
        rf"cosim sweep (?:scenarios/)?{folder.name}\b(?! --set)", (folder / "README.md").read_text("utf-8")
    )
    assert named is None or len(expand(load(folder))) > 1


@runnable
def test_reaches_its_golden_figures(folder, tmp_path):
    if "mlsysops:" in (folder / "scenario.cosim.yaml").read_text():
        pytest.importorskip("pandas")
    expected = json.loads((folder / "expected.json").read_text())
    done = cosim("run", folder, "--out", tmp_path, "--json", "--no-report", "--driver", "loop")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)["figures"]
    same = all(installed(name) == found for name, found in expected["versions"].items())
    tolerance = expected["tolerance"] if same else OTHER_VERSION
    for name, value in expected["figures"].items():
        assert figures[name] == pytest.approx(value, rel=tolerance), name
