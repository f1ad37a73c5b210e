"""Worlds of the table that are scenario files: figures of the run, as `cosim run` makes it."""

import json

import pytest
from typer.testing import CliRunner

from cosim.cli.main import app
from cosim.contract.errors import SetupError
from cosim.extensions.metanet.bench import scenarios, suite, table
from cosim.results import session
from cosim.schedulers import SchedulerError

WORLD = "fifty for 2 s"


def test_a_row_has_the_figures_of_the_run(tmp_path):
    found = scenarios.run(WORLD, "edf", 3)
    path, overrides = scenarios.place(WORLD)
    outcome = session.run(path, overrides=[*overrides, "run.seed=3", "adapters.continuum.scheduler=edf"], out=tmp_path)
    assert found.energy == outcome.figures["energy_total"] / 3.6e6
    assert found.tasks == outcome.figures["tasks_created"] > 20
    assert found.response == pytest.approx(outcome.figures["response_mean"], rel=1e-12)  # none failed
    assert found.cpu > 0.0
    assert scenarios.run(WORLD, "least-loaded", 3).cpu == 0.0  # a part of the engine


@pytest.mark.slow
def test_a_scenario_of_ones_own_and_a_policy_of_ones_own_make_a_table(tmp_path, monkeypatch):
    mine = tmp_path / "mine.cosim.yaml"
    mine.write_text(scenarios.place(WORLD)[0].read_text(encoding="utf-8").replace("name: fifty", "name: mine"), "utf-8")
    (tmp_path / "own_policy.py").write_text(
        "import numpy as np\nfrom cosim.schedulers.state import decides\n\n\n@decides('task')\n"
        "def first(state):\n    return np.where(np.isfinite(state.reach), 0, -1)[:, 0]\n",
        "utf-8",
    )
    monkeypatch.chdir(tmp_path)
    arguments = ["bench", "schedulers", "--world", "mine.cosim.yaml for 2 s", "--only", "edf", "--seeds", "1"]
    done = CliRunner().invoke(app, [*arguments, "--entry", "own_policy:first", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    cells = found["worlds"]["mine.cosim.yaml for 2 s"]
    assert list(cells) == ["least-loaded", "edf", "own_policy:first"]
    assert cells["edf"]["energy"] == scenarios.run(WORLD, "edf", suite.SEEDS[0]).energy
    assert cells["own_policy:first"]["response"] > cells["edf"]["response"]  # all at one Raspberry Pi
    kept = (tmp_path / "bench/schedulers/rows.jsonl").read_text("utf-8")
    CliRunner().invoke(app, [*arguments, "--entry", "own_policy:first"])
    assert (tmp_path / "bench/schedulers/rows.jsonl").read_text("utf-8") == kept  # nothing is run twice
    assert "Fifty hosts of four kinds" in (tmp_path / "bench/schedulers/leaderboard.md").read_text("utf-8")


def test_worlds_have_the_schedulers_of_their_model():
    assert scenarios.model("smart-farm") == "continuum"
    assert scenarios.model("fog-interval") == "interval"
    assert set(table.entries_of("continuum")) >= {"search", "rollout", "gobi", "edf", "nearest"}
    with pytest.raises(SchedulerError, match="no adapter continuum or interval"):
        scenarios.model("job-types")
    with pytest.raises(SetupError, match="there is no world 'nowhere'; there are small, fog"):
        scenarios.place("nowhere")
    done = CliRunner().invoke(app, ["bench", "schedulers", "--world", "small,city-edge"])
    assert done.exit_code == 2
    assert "worlds of one model at a time" in done.output
