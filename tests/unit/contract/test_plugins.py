"""What installed packages add: one file each, found by its entry point, and an error where it is not there."""

import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cosim.adapters.continuum.config import ContinuumConfig
from cosim.cli import main
from cosim.contract import plugins, registry
from cosim.contract.errors import ScenarioError, SetupError
from cosim.contract.functions import missing_extension
from cosim.scenario.load import load
from cosim.schedulers import (
    ScheduledModel,
    SchedulerError,
    known_models,
    list_schedulers,
    needs_branch,
    scheduler,
    takes,
)
from cosim.twin import jobs
from cosim.twin.fitting.methods import method_names
from tests.environments import PROJECT

THEIRS = """
import typer
from cosim.scenario.load import load
from cosim.schedulers import ScheduledModel
from cosim.schedulers.state import decides

@decides("interval")
class Policy:
    '''Everything to the first host.'''
    branches = True
    def __call__(self, state):
        return [0] * len(state.tasks)

def greet(name: str = "you"):
    '''Say hello.'''
    typer.echo(f"hello {name}")

MODEL = ScheduledModel(frozenset(("task",)), {"theirs-own": "what their model does by itself"})
SETTINGS = ("scale",)

def problems(data, settings):
    return [settings["scale"]]
"""
POINTS = """
[cosim.commands]
greet = theirs:greet
bench-of-others = cosim.extensions.nothing:app
[cosim.importers]
their-format = theirs:greet
[cosim.agents]
their-agent = theirs
lost-agent = cosim.extensions.nothing
[cosim.schedulers]
their-first = theirs:Policy
not-there = cosim.extensions.nothing:Policy
[cosim.models]
their-model = theirs:MODEL
lost-model = cosim.extensions.nothing:MODEL
[cosim.jobs]
their-job = theirs
lost-job = cosim.extensions.nothing
[cosim.calibrations]
their-method = theirs:greet
[cosim.scenarios]
their-farm = their_farms
lost-farm = cosim.extensions.nothing
[cosim.adapters]
lost = cosim.extensions.nothing:ADAPTER
"""
ABSENT = "it belongs to the extension 'nothing', which is not there"
ROOT = Path(__file__).resolve().parents[3]
CACHES = (plugins.settle, plugins.installed, plugins.load, main._whole, known_models)


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package: one module and its metadata."""

    def install(module, text, points):
        (tmp_path / f"{module}.py").write_text(text)
        folder = tmp_path / f"{module}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(points)
        monkeypatch.syspath_prepend(tmp_path)
        for one in CACHES:
            one.cache_clear()

    yield install
    monkeypatch.undo()
    for one in CACHES:
        one.cache_clear()


@pytest.fixture
def theirs(install):
    install("theirs", THEIRS, POINTS)


def said(*words):
    done = CliRunner().invoke(main.app, [*words])
    return done.exit_code, done.output


def test_each_kind_is_found_by_its_name(theirs):
    assert said("greet", "--name", "all") == (0, "hello all\n")
    assert said("import", "their-format") == (0, "hello you\n")
    listed = {one.name: one for one in list_schedulers()}
    assert listed["their-first"].models == tuple(one for one in ("continuum", "interval") if one in known_models())
    assert listed["their-first"].summary == "Everything to the first host."
    assert takes("their-first", "interval")
    assert not takes("their-first", "task")
    assert needs_branch("their-first")
    assert listed["their-agent"].models == ("continuum",)
    assert ContinuumConfig(scheduler="their-agent").scheduler == "their-agent"
    assert listed["theirs-own"].models == ("their-model",)
    assert jobs.load("their-job")(None, {"scale": 3}) == [3]
    assert "their-method" in method_names()
    assert isinstance(plugins.load("models", "their-model"), ScheduledModel)


def test_a_scenario_of_theirs_is_found_by_its_name(theirs, tmp_path, monkeypatch):
    folder = tmp_path / "their_farms/scenarios/their-farm"
    shutil.copytree(ROOT / "scenarios/hello", folder)
    (tmp_path / "their_farms/__init__.py").write_text("1 / 0  # finding imports nothing")
    code, text = said("scenarios", "--json")
    found = {one["name"]: one["folder"] for one in json.loads(text)["scenarios"]}
    assert (code, found["their-farm"], "lost-farm" in found) == (0, str(folder), False)
    assert said("check", "their-farm")[0] == 0
    assert "did you mean 'their-farm'?" in said("check", "their-far")[1]
    assert "name it 'their-farm'" in said("check", "scenarios/their-farm")[1]
    assert ABSENT in said("check", "lost-farm")[1]
    assert ABSENT in said("new", "--from", "lost-farm", "--in", str(tmp_path))[1]
    (tmp_path / "their-farm").mkdir()
    monkeypatch.chdir(tmp_path)  # what is here comes first
    assert "folder has no scenario.cosim.yaml" in said("check", "their-farm")[1]


def test_what_is_not_there_names_the_extension_that_it_belongs_to(theirs):
    code, text = said("bench-of-others", "schedulers", "--only", "x")
    assert (code, ABSENT in " ".join(text.split())) == (2, True)
    assert "bench-of-others" in said("--help")[1]
    with pytest.raises(SchedulerError, match=ABSENT):
        scheduler("not-there")
    with pytest.raises(SetupError, match=ABSENT):
        registry.adapter_kind("lost")
    with pytest.raises(ScenarioError, match=ABSENT):
        jobs.load("lost-job")
    assert "lost-model" not in known_models()
    listed = {one.name: one for one in list_schedulers()}
    assert listed["not-there"].models == listed["lost-agent"].models == ()
    assert ABSENT in listed["lost-agent"].summary


@pytest.mark.parametrize("group", PROJECT["entry-points"])
def test_what_comes_with_this_package_is_where_its_entry_point_says(group):
    kind = group.removeprefix("cosim.")
    for name, place in PROJECT["entry-points"][group].items():
        if kind.endswith("environments"):
            pytest.importorskip("gymnasium")
        assert plugins.installed(kind)[name] == place
        if extension := missing_extension(place):
            with pytest.raises(SetupError, match=f"the extension '{extension}', which is not there"):
                plugins.load(kind, name)
        else:
            assert plugins.load(kind, name) is not None


def test_the_example_of_the_documentation_works(install, tmp_path):
    page = (ROOT / "docs/extend.md").read_text("utf-8")
    blocks = dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```', page, re.M | re.S))
    groups = tomllib.loads(blocks["pyproject.toml"])["project"]["entry-points"]
    lines = [f"[{group}]\n{name} = {place}\n" for group, points in groups.items() for name, place in points.items()]
    install("farm_tools", blocks["farm_tools.py"], "".join(lines))
    (tmp_path / "sensors").write_text("north\nsouth\n")
    scenario = tmp_path / "field.cosim.yaml"
    code, text = said("import", "fields", str(tmp_path / "sensors"), "--out", str(scenario))
    assert code == 0, text
    assert set(load(scenario).scenario.nodes) == {"north", "south"}
    assert {"task", "interval"} == scheduler("fastest").decisions
    assert jobs.load("farm")(tmp_path, {"season": "dry"}) == []
    assert all(f"`{group}`" in page for group in PROJECT["entry-points"])


def test_every_kind_of_the_package_is_documented():
    for group in PROJECT["entry-points"]:
        assert f"    {group} " in plugins.__doc__
