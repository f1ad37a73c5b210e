"""`cosim import planetlab` and its kind: from a trace to a scenario that passes the checks, or nothing at all."""

import json

import numpy as np
import pyarrow.parquet as parquet
import pytest
from typer.testing import CliRunner

from cosim.cli.main import app
from cosim.contract.errors import ScenarioError
from cosim.extensions.traces.bitbrains import RAW
from cosim.extensions.traces.importing.machines import read
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.sources.importing.write import write_scenario
from tests.extensions import needs

GOOGLE = "0,300000000,3,1,5,0.2,0.1,0.1,0,0,0.1,0,0,0.4,0,1,1,1,0,\n"
FILES = {
    "planetlab": "vm,t000,t001,t002\na,10,20,30\nb,0,50,100\n",
    "bitbrains": ";\t".join(RAW) + "\n" + ";\t".join(map(str, [1376314846, 2, 4000, 1000, 25, 2097152, 512])) + "\n",
    "google": GOOGLE,
    "azure": "0,a,1,30,10\n300,a,1,60,20\n300,b,1,5,5\n",
    "alibaba": "m_1,0,10,50,,,1,1,1\nm_1,310,20,20,,,1,1,1\n",
}


def cosim(*arguments):
    return CliRunner().invoke(app, ["import", *map(str, arguments)])


@needs("extcloudsim")
@pytest.mark.parametrize("name", FILES)
def test_every_source_becomes_a_scenario_that_compiles(tmp_path, name):
    (tmp_path / "trace.csv").write_text(FILES[name])
    done = cosim(name, tmp_path / "trace.csv", "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    reported = json.loads(done.stdout)
    assert reported["hosts"] >= 1
    assert reported["machines"] == {"planetlab": 2, "azure": 2}.get(name, 1)
    plan = compile_plan(load(tmp_path / "out" / "scenario.cosim.yaml"))
    assert len(plan.scene.nodes) == reported["hosts"]


@needs("extcloudsim")
def test_the_utilisation_of_the_trace_is_that_of_the_scenario(tmp_path):
    (tmp_path / "readings.csv").write_text(FILES["azure"])
    (tmp_path / "vmtable.csv").write_text("a,s,d,0,600,60,15,50,Interactive,4,8\nb,s,d,300,900,5,5,5,Unknown,2,4\n")
    imported = read("azure", tmp_path / "readings.csv", table=tmp_path / "vmtable.csv", hosts=3)
    scenario = load(write_scenario(tmp_path / "out", imported))
    machines = scenario.adapters["datacentre"].config.machines
    sizes = {(group.count, group.cpu, group.ram): group.traces.path for group in machines.values()}
    assert set(sizes) == {(1, 4 * 2.6e9, 8e9), (1, 2 * 2.6e9, 4e9)}
    stored = parquet.read_table(tmp_path / "out" / sizes[1, 4 * 2.6e9, 8e9])
    assert stored.column_names == ["a"]
    assert np.asarray(stored["a"]) == pytest.approx([0.1, 0.2])
    late = parquet.read_table(tmp_path / "out" / sizes[1, 2 * 2.6e9, 4e9])
    assert np.asarray(late["b"]) == pytest.approx([0.0, 0.05])
    assert [notice.key for notice in imported.notices] == ["utilisation", "clock"]


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_leaves_nothing_behind(tmp_path, name):
    (tmp_path / "trace.csv").write_text(FILES[name] + "x,y\n")
    done = cosim(name, tmp_path / "trace.csv", "--out", tmp_path / "out")
    assert done.exit_code == 2, done.output
    assert "trace.csv" in done.stderr
    assert not (tmp_path / "out").exists()
    assert cosim(name, tmp_path / "absent", "--out", tmp_path / "out").exit_code == 2


def test_limits_and_too_many_machines(tmp_path):
    rows = "".join(f"m{i},1,2\n" for i in range(30))
    (tmp_path / "day.csv").write_text("vm,t000,t001\n" + rows)
    few = read("planetlab", tmp_path / "day.csv", vms=5, periods=1)
    assert few.facts["machines"] == 5
    assert few.facts["periods"] == 1
    (tmp_path / "day.csv").write_text("vm,t000\n" + "".join(f"m{i},1\n" for i in range(20_000)))
    with pytest.raises(ScenarioError, match="--vms"):
        read("planetlab", tmp_path / "day.csv")


def test_shares_that_are_read_as_percent_are_doubted(tmp_path):
    for name, value in (("shares", "0.9"), ("percent", "90")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vm-1").write_text(f"{value}\n0.1\n")
        texts = [one.text for one in read("planetlab", tmp_path / name).notices]
        assert any("are the values shares of 1? (take --full 1)" in text for text in texts) == (name == "shares")
