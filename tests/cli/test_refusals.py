"""What a run or a verb that cannot begin says, and that it leaves nothing behind."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cosim.cli import main
from cosim.cli.console import errors
from cosim.cli.main import app
from cosim.contract.errors import SetupError
from cosim.results.session import Outcome
from tests.extensions import needs

SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: still
run: {duration: 1 s}
adapters:
  replay: {file: tracks.csv}
nodes:
  cars: {kind: vehicle, fleet: replay, capacity: 2}
  edge-1: {kind: edge, at: [0 m, 0 m]}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """A scenario whose nodes are all simulated."""
    (tmp_path / "tracks.csv").write_text("time,id,x,y\n0,car-1,0,0\n1,car-1,5,0\n")
    file = tmp_path / "scenario.cosim.yaml"
    file.write_text(SCENARIO)
    return file


def test_an_address_in_use_is_named_and_leaves_no_folder(scenario: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        done = CliRunner().invoke(app, ["run", str(scenario), "--out", str(tmp_path / "runs"), "--publish-at", address])
    assert done.exit_code == 2
    assert f"cannot listen at {address}: Address already in use" in done.output
    assert list((tmp_path / "runs").glob("*/*")) == []


@pytest.mark.parametrize("nodes", ["netns", "containers"])
def test_real_nodes_without_a_node_that_runs_something_are_refused(scenario: Path, tmp_path: Path, nodes: str) -> None:
    done = CliRunner().invoke(app, ["run", str(scenario), "--out", str(tmp_path / "runs"), "--nodes", nodes])
    assert done.exit_code == 2
    assert "no node has 'runs'" in done.output
    assert list((tmp_path / "runs").glob("*/*")) == []


def test_containers_without_an_engine_are_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    file = tmp_path / "scenario.cosim.yaml"
    file.write_text(
        "apiVersion: cosim/v1\nkind: Scenario\nname: lonely\nrun: {duration: 1 s}\nadapters: {wifi: {}}\nnodes:\n"
        "  one: {kind: edge, at: [0 m, 0 m], wifi: {}, runs: vedgenode}\n"
    )
    done = CliRunner().invoke(app, ["run", str(file), "--out", str(tmp_path / "runs"), "--nodes", "containers"])
    assert done.exit_code == SetupError.exit_code
    assert "there is no `docker`" in done.output
    assert "--nodes netns" in done.output
    assert list((tmp_path / "runs").glob("*/*")) == []


def test_nodes_that_no_namespace_can_have_are_all_named_before_anything_is_made(tmp_path: Path) -> None:
    file = tmp_path / "scenario.cosim.yaml"
    file.write_text(
        "apiVersion: cosim/v1\nkind: Scenario\nname: foreign\nrun: {duration: 1 s}\nadapters: {wifi: {}, network: {}}\n"
        "nodes:\n  n-[1..2]: {kind: edge, at: [0 m, 0 m], wifi: {}, runs: nginx}\n"
    )
    done = CliRunner().invoke(app, ["run", str(file), "--out", str(tmp_path / "runs"), "--nodes", "netns"])
    assert done.exit_code == 2
    assert "nodes.n-1.runs: image 'nginx' needs a container engine" in done.output
    assert "nodes.n-2.runs" in done.output
    assert "running foreign" not in done.output
    assert not (tmp_path / "runs").exists()


def test_render_makes_the_folder_it_is_told(scenario: Path, tmp_path: Path) -> None:
    target = tmp_path / "new" / "compose.yaml"
    done = CliRunner().invoke(app, ["render", str(scenario), "--out", str(target)])
    assert done.exit_code == 0, done.output
    assert "orchestrator:" in target.read_text()


def test_render_says_how_to_start_and_where_ports_will_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.cosim.yaml").write_text(
        "apiVersion: cosim/v1\nkind: Scenario\nname: s\nrun: {duration: 1 s}\n"
        "adapters: {wifi: {}, network: {}}\nnodes:\n"
        "  uav-1: {kind: edge, at: [0 m, 0 m], wifi: {}, runs: {image: vuav, ports: [5760]}}\n"
    )
    Path("shared.yaml").touch()
    Path("compose.yaml").symlink_to("shared.yaml")
    done = CliRunner().invoke(app, ["render", "s.cosim.yaml"])
    assert Path("shared.yaml").read_text() == ""
    assert "1 real node\n" in done.output
    assert "docker compose -f compose.yaml up" in done.output
    assert "docker compose -f compose.yaml port uav-1-net 5760" in done.output


@pytest.mark.parametrize(
    ("adapter", "nodes", "said"),
    [
        ("radio: {}", "a: {kind: uav, at: [0 m, 0 m]}", ":6:1: nodes: the radio has no base station"),
        ("wifi: {}", "a: {kind: uav, at: [0 m, 0 m]}", ":6:1: nodes: no node of the scenario has a 'wifi' block"),
        ("wifi: {}", "a: {kind: cloud, wifi: {}}", ":7:3: nodes.a.at: 'a' has a Wi-Fi interface but no position"),
        ("vehicle: {}", "a: {kind: edge}", ":6:1: nodes: no node of the scenario has a 'vehicle' block"),
        ("continuum: {}", "a: {kind: cloud}", ":6:1: nodes: no node can run tasks"),
        (
            "live: {offload: {w: {}}}",
            "a: {kind: edge, live: {key: k, lease: 1 ms}}",
            "nodes.a.live.lease: 0.001 s is not",
        ),
    ],
)
def test_what_a_run_would_refuse_is_found_by_a_check(tmp_path: Path, adapter: str, nodes: str, said: str) -> None:
    file = tmp_path / "scenario.cosim.yaml"
    file.write_text(
        "apiVersion: cosim/v1\nkind: Scenario\nname: wrong\nrun: {duration: 1 s}\n"
        f"adapters: {{{adapter}}}\nnodes:\n  {nodes}\n"
        "workloads:\n  w: {from: a, arrivals: every 1 s, input: 1 kB, output: 1 kB, work: 1 Mcycles, deadline: 1 s}\n"
    )
    for command in (["check", str(file)], ["run", str(file), "--out", str(tmp_path / "runs")]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 2, done.output
        assert said in done.output.replace("\n", "")
    assert not (tmp_path / "runs").exists()


def test_a_file_that_cannot_be_written_is_named(scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    target = tmp_path / "file" / "compose.yaml"
    done = CliRunner().invoke(app, ["render", str(scenario), "--out", str(target)])
    assert done.exit_code == 2
    assert str(tmp_path / "file") in done.output


def test_ports_of_a_node_with_wires_are_refused_for_containers(tmp_path: Path) -> None:
    file = tmp_path / "scenario.cosim.yaml"
    file.write_text(
        "apiVersion: cosim/v1\nkind: Scenario\nname: wired\nrun: {duration: 1 s}\nadapters: {network: {}}\nnodes:\n"
        "  one: {kind: edge, at: [0 m, 0 m], runs: {image: vedgenode, ports: [8500]}}\n"
        "  two: {kind: edge, at: [5 m, 0 m], runs: vedgenode}\n"
        "links: [{between: [one, two], rate: 1 Gbit/s, delay: 1 ms}]\n"
    )
    done = CliRunner().invoke(app, ["render", str(file)])
    assert done.exit_code == 2
    assert "node 'one' has a wired link and 'ports'" in done.output
    assert not (tmp_path / "compose.yaml").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seed", "1..2"], "there is no `docker`"),  # and not a simulation of what should be real
        (["--control"], "a run in containers publishes inside them only"),
    ],
)
def test_what_is_asked_of_containers_is_not_simulated_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    file = tmp_path / "scenario.cosim.yaml"
    file.write_text(
        "apiVersion: cosim/v1\nkind: Scenario\nname: real\nrun: {duration: 1 s}\nadapters: {network: {}, wifi: {}}\n"
        "nodes: {one: {kind: edge, at: [0 m, 0 m], wifi: {}, runs: vedgenode}}\n"
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    runs = tmp_path / "runs"
    done = CliRunner().invoke(app, ["run", str(file), "--nodes", "containers", "--out", str(runs), *words])
    assert done.exit_code == 2
    assert said in done.output
    assert not list(runs.glob("*/*"))


@pytest.mark.parametrize(("reached", "said"), [(600.0, "(60 x real time)"), (4.0, "(0.4 x real time)")])
def test_the_pace_of_a_slow_run_is_not_rounded_to_nothing(reached: float, said: str) -> None:
    outcome = Outcome(Path(), "complete", None, {}, wall_seconds=10.0, reached=reached)
    assert outcome.summary.endswith(said)


def test_a_run_behind_the_wall_clock_says_so() -> None:
    def reported(**figures: float | None) -> str:
        return Outcome(Path(), "complete", None, figures, wall_seconds=10.0, reached=10.0).lateness

    assert reported(late_ticks=31.0, lag_max=14.26).startswith("31 ticks were late, by 14.3 s at most")
    assert reported(late_ticks=1.0, lag_max=0.2).startswith("1 tick was late")
    assert reported(late_ticks=0.0, lag_max=0.001) == reported() == ""


def test_a_warning_has_its_place(scenario: Path) -> None:
    with scenario.open("a") as file:
        file.write("events:\n  - {at: 2 s, do: fail, node: edge-1}\n")
    done = CliRunner().invoke(app, ["check", str(scenario)])
    assert done.exit_code == 0
    assert f"warning: {scenario}:11:10: events.0.at: is after the end of the run" in done.output


@pytest.mark.parametrize("out", ["", "folder"])
def test_a_report_needs_the_name_of_a_file(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    assert CliRunner().invoke(app, ["run", str(scenario)]).exit_code == 0
    (run,) = Path("runs").glob("*/*")
    done = CliRunner().invoke(app, ["report", str(run), "--out", out])
    assert done.exit_code == 2
    assert "is a folder; name a file, for example" in done.output
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["new", "--from", "hello", "scenario", "x"], "--from is for copies"),
        (["new", "--in", "there", "scenario", "x"], "cosim new scenario NAME --in there"),
        (["new", "adapter", "json"], "there is a Python module 'json' already"),
        (["new", "adapter", "radio"], "there is an adapter 'radio' already"),
        (["live-key", "a b"], "is no name of a key"),
        (["new", "scenario", "x", "--in", "a-file"], "remove it, or name another one"),
        pytest.param(
            *(["bench", "schedulers", "--only", "gaa"], "there is no entry 'gaa' (did you mean 'ga'?)"),
            marks=needs("metanet"),
        ),
        pytest.param(
            *(["bench", "schedulers", "--only", "ga", "--seeds", "9"], "the suite has 5 seeds, not 9"),
            marks=needs("metanet"),
        ),
        (["calibrate", "--busy"], "write --here --busy"),
        pytest.param(
            *(["cluster", "next", "nowhere.json"], "nowhere.json: cannot be read: No such file"),
            marks=needs("gpu_cluster"),
        ),
        pytest.param(*(["cluster", "next", "list.json"], "list.json:1: must be a mapping"), marks=needs("gpu_cluster")),
        pytest.param(
            *(["cluster", "timeline", "list.json", "--out", "t.prom"], "it is a file"), marks=needs("gpu_cluster")
        ),
        pytest.param(
            *(["cluster", "timeline", "list.json", "--out", "t.prom", "--period", "inf"], "less than or equal to"),
            marks=needs("gpu_cluster"),
        ),
    ],
)
def test_wrong_words_behind_a_command_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list.json").write_text("[1]")
    Path("a-file").write_text("")
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert said in " ".join(done.output.replace("\u2502", " ").split())
    assert {path.name for path in tmp_path.iterdir()} == {"list.json", "a-file"}


@pytest.mark.parametrize("as_json", [True, False])
def test_an_interrupted_command_says_so(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    with pytest.raises(typer.Exit) as left, errors(as_json):
        raise KeyboardInterrupt
    assert left.value.exit_code == 130
    reported = capsys.readouterr()
    said = json.loads(reported.out)["error"]["message"] if as_json else reported.err
    assert "stopped by Ctrl-C" in said


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [(["run", "--bogus"], 2, "--bogus"), (["check"], 2, "scenario"), (["check", "nowhere"], 2, "nowhere")],
)
def test_with_json_also_wrong_words_are_one_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], status: int, said: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["cosim", *words, "--json"])
    monkeypatch.setattr(main, "_leave", lambda code: left.append(code))
    left: list[int] = []
    main.main()
    assert left == [status]
    assert said in json.loads(capsys.readouterr().out)["error"]["message"]


@pytest.mark.parametrize("words", [["doctor"], ["new", "scenario", "x"]])
def test_a_folder_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "the folder that this was started in is gone" in done.output
