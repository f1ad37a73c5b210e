"""The suite is frozen, results are resumed, and what a table says follows from its rows."""

import json
import math
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from cosim.cli.main import app
from cosim.contract import plugins
from cosim.extensions.cosco.interval import Interval
from cosim.extensions.metanet.bench import suite, table
from cosim.schedulers import SchedulerError
from cosim.schedulers.state import KEEP, decides
from tests.unit.contract.test_children import alive


@decides("interval")
def first_host(state):
    """Everything on host 0, as far as it has room."""
    return np.where(state.tasks["host"] < 0, 0, KEEP)


first_host.licence = "MIT"


def row(entry, seed, energy, response, world="small"):
    figures = dict.fromkeys(suite.FIGURES, 0.0) | {"energy": energy, "response": response}
    return table.TableRow(entry, "x", "y", world, seed, figures)


def test_the_suite_is_frozen():
    """A change of any figure needs a new digest, and makes results of before those of another suite."""
    assert suite.digest() == suite.DIGEST
    assert len(suite.worlds()) == 8
    assert len(suite.SEEDS) >= 5


def test_every_world_can_be_served():
    """Under least-loaded 95 % of the containers end in every world, so the loads are no overloads."""
    for world in suite.worlds():
        found = suite.run(world, "least-loaded", 3)
        assert found.unfinished < 0.05, world.name
        assert 0.0 < found.response < (suite.ARRIVING + suite.ENDING) * world.length
        assert found.energy > 0.0


def test_figures_are_those_of_the_containers():
    """Response, late and waiting once more from the rows of the containers that ended."""
    world = suite.worlds()[0]
    found = suite.run(world, "first-fit", 5)
    assert found.unfinished == 0.0
    one: Interval = world.begin(5, "first-fit")
    one.run(suite.ARRIVING - 1)
    one.expect(0.0)
    one.run(suite.ENDING + 1)
    ended = one.drain()
    assert found.response == pytest.approx(ended["response"].mean())
    assert found.late == pytest.approx(ended["late"].mean())
    assert found.waiting == pytest.approx((ended["begun"] - ended["created"]).mean())
    assert found.energy == pytest.approx(one.world.hosts["energy"].sum() / 3.6e6)


def test_the_same_containers_come_under_every_scheduler():
    world = suite.worlds()[0]
    works = []
    for policy in ("first-fit", "random"):
        one = world.begin(7, policy)
        one.run(30)
        ended = one.drain()
        works.append(dict(zip(ended["container"].tolist(), ended["work"].tolist(), strict=True)))
    both = works[0].keys() & works[1].keys()
    assert len(both) > 10
    assert all(works[0][number] == works[1][number] for number in both)


def test_the_best_and_those_with_it():
    """b needs exactly 10 % more of both; c is better and worse by turns."""
    rows = []
    for seed in (1, 2, 3, 4):
        base = 1.0 + 0.1 * seed
        rows += [
            row("a", seed, base, base), row("b", seed, 1.1 * base, 1.1 * base),
            row("c", seed, base * (1.2 if seed % 2 else 0.85), base),
        ]  # fmt: skip
    entries = [table.TableEntry(name, "MIT", 0, "x") for name in "abc"]
    found = table.compared(rows, entries)
    cells = found["worlds"]["small"]
    assert [line["entry"] for line in found["board"]] == ["a", "c", "b"]
    assert cells["b"]["behind"] == pytest.approx(10.0)
    assert cells["b"]["behind_low"] == pytest.approx(10.0)
    assert [cells[name]["with_best"] for name in "abc"] == [True, False, True]
    assert cells["b"]["sum"] == pytest.approx(1.1)
    text = table.markdown(found)
    assert "| `b` | 1.100 " in text
    assert "| `c` * |" in text


def test_a_table_has_no_powers_of_ten():
    rows = [row("a", seed, 7e3 * seed, 2e3 * seed) for seed in (1, 2, 3)]
    assert "e+" not in table.markdown(table.compared(rows, [table.TableEntry("a", "MIT", 0, "x")]))


def test_who_is_ahead_does_not_depend_on_the_reference():
    a, b = row("a", 1, 3.0, 5.0), row("b", 1, 4.0, 3.0)
    gaps = {table.score(a, base) - table.score(b, base) for base in (row("r", 1, 1.0, 1.0), row("r", 1, 9.0, 0.2))}
    assert max(gaps) - min(gaps) < 1e-12
    assert gaps.pop() == pytest.approx(0.5 * math.log(15.0 / 12.0))


def test_results_are_resumed_and_a_cut_line_is_run_again(tmp_path):
    entries = [table.entry("first-fit"), table.entry("best-fit")]
    reported = []
    table.fill(tmp_path, entries, ["small"], [1, 2], notify=lambda done, total, row: reported.append((done, total)))
    assert reported[-1] == (4, 4)
    file = tmp_path / table.FILE
    lines = file.read_text().splitlines()
    file.write_text("\n".join(lines[:3]) + "\n" + lines[3][:40])
    reported.clear()
    again = table.fill(
        tmp_path, entries, ["small"], [1, 2], notify=lambda done, total, row: reported.append((done, total))
    )
    assert reported == [(1, 1)]
    assert [(one.entry, one.seed) for one in again] == [
        ("first-fit", 1), ("best-fit", 1), ("first-fit", 2), ("best-fit", 2)
    ]  # fmt: skip
    assert len(table.read(tmp_path)) == 4


def test_another_suite_or_other_code_is_run_anew(tmp_path, monkeypatch):
    entries = [table.entry("first-fit")]
    table.fill(tmp_path, entries, ["small"], [1])
    reported = []
    monkeypatch.setattr(suite, "DIGEST", "other")
    table.fill(tmp_path, entries, ["small"], [1], notify=lambda done, total, row: reported.append(row))
    table.fill(
        tmp_path,
        [table.TableEntry("first-fit", "", 0, "new")],
        ["small"],
        [1],
        notify=lambda done, total, row: reported.append(row),
    )
    assert len(reported) == 2


def test_the_command_takes_an_entry_of_ones_own(tmp_path):
    mine = f"{__name__}:first_host"
    arguments = ["bench", "schedulers", "--only", "best-fit", "--entry", mine, "--world", "small", "--seeds", "2"]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout[done.stdout.index("{") :])
    licences = {line["entry"]: line["licence"] for line in found["board"]}
    assert licences == {"least-loaded": "Apache-2.0", "best-fit": "Apache-2.0", mine: "MIT"}
    assert found["worlds"]["small"][mine]["response"] > found["worlds"]["small"]["best-fit"]["response"]
    assert (tmp_path / "leaderboard.md").read_text(encoding="utf-8").startswith("# Schedulers")


def test_a_module_in_the_folder_that_the_command_is_run_in_is_found(tmp_path, monkeypatch):
    (tmp_path / "lying_here.py").write_text(
        "from cosim.schedulers.state import decides\n\n\n"
        "@decides('interval')\ndef stay(state):\n    return state.tasks['host'].astype(int)\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    arguments = ["--only", "best-fit,first-fit", "--only", "random", "--entry", "lying_here:stay", "--world", "small",
                 "--seeds", "1"]  # fmt: skip
    done = CliRunner().invoke(app, ["bench", "schedulers", *arguments])
    sys.modules.pop("lying_here", None)
    assert done.exit_code == 0, done.output
    page = (tmp_path / "bench/schedulers/leaderboard.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in ("lying_here:stay", "best-fit", "first-fit", "random"))


def test_what_is_not_there_is_said(tmp_path):
    done = CliRunner().invoke(app, ["bench", "schedulers", "--world", "nowhere", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert "there are small" in done.output
    with pytest.raises(SchedulerError, match="decides per task"):
        table.entry("fuzzy")


def test_one_seed_has_no_interval():
    assert table.band({"low": 0.9, "high": 1.1}) == "0.900 - 1.100"
    assert table.band({"low": math.nan, "high": math.nan}) == "-"
    rows = [row("a", 1, 1.0, 1.0), row("b", 1, 1.1, 1.1)]
    found = table.compared(rows, [table.TableEntry(name, "MIT", 0, "x") for name in "ab"])
    assert "| `b` | 1.100 | 10.0 | 1.1 | 1.1 |" in table.markdown(found)
    assert [found["worlds"]["small"][name]["with_best"] for name in "ab"] == [True, False]


def _own(tmp_path, monkeypatch, text):
    """A module `theirs` in an empty folder, forgotten afterwards."""
    (tmp_path / "theirs.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "theirs", raising=False)
    monkeypatch.delitem(sys.modules, "helper", raising=False)


POLICY = """
import numpy as np
from cosim.schedulers.state import decides

@decides("interval")
def policy(state):
    {}

@decides("interval")
class Policy:
    def __init__(self):
        raise KeyError("w1")
"""


@pytest.mark.parametrize(("answer", "said"), [
    ("return np.full(len(state.tasks), np.nan)", "answered float64"),
    ("raise KeyError('w1')", "theirs.py:7, in policy"),
    ("return np.full(len(state.tasks), 99)", r"expected 0\.\.11"), ("return np.full(len(state.tasks), -2)", "-2"),
    ("return np.zeros(99, int)", "one integer each"), ("raise SystemExit(3)", "SystemExit: 3"),
])  # fmt: skip
def test_an_entry_that_fails_is_named_with_the_world_and_the_seed(tmp_path, monkeypatch, answer, said):
    _own(tmp_path, monkeypatch, POLICY.format(answer))
    with pytest.raises(SchedulerError, match=f"entry 'theirs:policy' fails in world small, seed 11: .*{said}"):
        table.fill(tmp_path / "out", [table.entry("theirs:policy")], ["small"], [11])


@pytest.mark.parametrize("limits", [None, table.EntryLimits()])
def test_an_entry_that_fails_is_left_out_and_the_others_go_on(tmp_path, monkeypatch, limits):
    _own(tmp_path, monkeypatch, POLICY.format("raise KeyError('w1')"))
    failed, entries = [], [table.entry("theirs:policy"), table.entry("least-loaded")]
    rows = table.fill(tmp_path / "out", entries, ["small"], [11, 12], limits=limits, failed=failed.append)
    assert [(row.entry, row.seed) for row in rows] == [("least-loaded", 11), ("least-loaded", 12)]
    assert [(one.entry, one.seed) for one in failed] == [("theirs:policy", 11)]


def test_an_entry_that_cannot_be_made_and_weights_that_are_no_file_are_refused(tmp_path, monkeypatch):
    _own(tmp_path, monkeypatch, POLICY.format("pass") + 'policy.weights = "there.npz"\n')
    with pytest.raises(SchedulerError, match=r"cannot be made: KeyError: 'w1' \(.*theirs.py:12, in __init__\)"):
        table.entry("theirs:Policy")
    with pytest.raises(SchedulerError, match=r"weights = 'there\.npz', and there is no such file"):
        table.entry("theirs:policy")
    (tmp_path / "there.npz").write_bytes(b"12345")
    assert table.entry("theirs:policy").weights == 5
    for wrong in (None, 3, " ", "MIT | GPL", "MIT\nGPL"):
        monkeypatch.setattr(sys.modules["theirs"].policy, "licence", wrong, raising=False)
        with pytest.raises(SchedulerError, match="expected its name in one line"):
            table.entry("theirs:policy")
    monkeypatch.setattr(sys.modules["theirs"].policy, "weights", np.zeros(2))
    with pytest.raises(SchedulerError, match="has a ndarray as weights; expected the path of a file"):
        table.entry("theirs:policy")
    outcome = CliRunner().invoke(app, ["bench", "schedulers", "--only", "least-loaded", "--entry", "theirs:Policy"])
    assert outcome.exit_code == 2
    assert "cannot be made" in outcome.output
    assert "Traceback" not in outcome.output


def test_an_installed_policy_takes_part_by_the_name_of_its_entry_point(tmp_path, monkeypatch):
    _own(tmp_path, monkeypatch, POLICY.format("return np.where(state.tasks['host'] < 0, 0, -1)"))
    folder = tmp_path / "theirs-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[cosim.schedulers]\ntheir-first = theirs:policy\n")
    plugins.settle.cache_clear()
    plugins.installed.cache_clear()
    try:
        arguments = ["bench", "schedulers", "--only", "least-loaded", "--world", "small", "--seeds", "1", "--json"]
        done = CliRunner().invoke(app, [*arguments, "--entry", "their-first", "--out", str(tmp_path / "out")])
    finally:
        monkeypatch.undo()
        plugins.settle.cache_clear()
        plugins.installed.cache_clear()
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout[done.stdout.index("{") :])
    assert {line["entry"] for line in found["board"]} == {"least-loaded", "their-first"}


@pytest.mark.parametrize("changed", ["helper.py", "net.npz"])
def test_other_helpers_or_weights_beside_an_entry_are_another_entry(tmp_path, monkeypatch, changed):
    """Results of before a training must not stand for those after it."""
    (tmp_path / "helper.py").write_text("")
    (tmp_path / "net.npz").write_bytes(b"1")
    (tmp_path / "unused.py").write_text("")
    _own(tmp_path, monkeypatch, "import helper\n" + POLICY.format("pass"))
    before = table.entry("theirs:policy").digest
    (tmp_path / "unused.py").write_text("1")
    assert table.entry("theirs:policy").digest == before
    (tmp_path / changed).write_bytes(b"2")
    assert table.entry("theirs:policy").digest != before


SLOW = """
import ctypes, os, subprocess, time
from pathlib import Path
from cosim.schedulers.state import decides

@decides("interval")
class Stuck:
    def __init__(self):
        self.decided = 0

    def __call__(self, state):
        self.decided += 1
        if self.decided == 3:
            Path(__file__).with_name("pid").write_text(str(subprocess.Popen(["sleep", "600"]).pid))
            ctypes.PyDLL(None).pause()  # in C, with the interpreter's lock
        return state.tasks["host"].astype(int)

@decides("interval")
def slow(state):
    time.sleep(0.2)  # 80 times
    return state.tasks["host"].astype(int)

@decides("interval")
def quick(state):
    return state.tasks["host"].astype(int)

@decides("interval")
def crash(state):
    os.abort()

@decides("interval")
class Unmade:
    def __init__(self):
        time.sleep(600.0)
"""


@pytest.mark.slow
def test_an_entry_that_does_not_return_is_ended_and_named_and_the_others_go_on(tmp_path, monkeypatch):
    """A decision that never ends, in code that hears no exception, and an entry after it."""
    _own(tmp_path, monkeypatch, SLOW)
    arguments = ["--only", "least-loaded", "--entry", "theirs:Stuck", "--entry", "theirs:quick", "--world", "small"]
    out = tmp_path / "out"
    limits = ["--seeds", "2", "--limit", "3 s", "--json", "--out", str(out)]
    done = CliRunner().invoke(app, ["bench", "schedulers", *arguments, *limits])
    assert done.exit_code == 1, done.output
    found = json.loads(done.stdout[done.stdout.index("{") :])
    assert {line["entry"] for line in found["board"]} == {"least-loaded", "theirs:quick"}
    said = "entry 'theirs:Stuck' fails in world small, seed 11: a decision took more than 3 s"
    assert found["failed"] == [said]
    assert said in (out / "leaderboard.md").read_text(encoding="utf-8")
    assert {one.entry for one in table.read(out)} == {"least-loaded", "theirs:quick"}
    assert not alive(int((tmp_path / "pid").read_text()))  # what it had started has ended with it


@pytest.mark.slow
def test_a_run_of_slow_decisions_an_entry_that_ends_its_process_and_one_that_is_never_made(tmp_path, monkeypatch):
    _own(tmp_path, monkeypatch, SLOW)
    ended = []
    limits, slow = table.EntryLimits(decision=60.0, run=1.0), [table.entry("theirs:slow")]
    assert table.fill(tmp_path, slow, ["small"], [11, 12], limits=limits, failed=ended.append) == []
    assert [str(one) for one in ended] == [
        "entry 'theirs:slow' fails in world small, seed 11: a run took more than 1 s"
    ]
    with pytest.raises(SchedulerError, match=r"entry 'theirs:crash' fails in world small, seed 11: .* by SIGABRT"):
        table.fill(tmp_path, [table.entry("theirs:crash")], ["small"], [11], limits=table.EntryLimits())
    with pytest.raises(SchedulerError, match=r"cannot be made: TimeoutError: not made within 0\.1 s"):
        table.entry("theirs:Unmade", table.EntryLimits(decision=0.1))
