"""A sweep's folder: what is kept, what is made again, who may write."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.errors import RunError, ScenarioError, SetupError
from cosim.results.executor import JobResult, RunTask
from cosim.results.replications import groups_of_sweep, main_figures
from cosim.results.sweep import SweepFolder, run_sweep
from cosim.scenario.sweep import Variant

HELLO = Path(__file__).resolve().parents[3] / "tests/scenarios/hello"
SEEDS = [Variant({"run.seed": seed}) for seed in (1, 2, 3)]


class Made:
    """An executor that makes empty run folders; runs whose seed is in `bad` fail."""

    def __init__(self, bad: Sequence[int] = (), interrupt_after: int = -1) -> None:
        self.bad = bad
        self.seeds: list[int] = []
        self.closed = False
        self._interrupt_after = interrupt_after

    def run(self, tasks: Sequence[RunTask]) -> Iterator[JobResult]:
        try:
            for task in tasks:
                if len(self.seeds) == self._interrupt_after:
                    os.kill(os.getpid(), signal.SIGTERM)
                seed = task.parameters["run.seed"]
                self.seeds.append(seed)
                status = "partial" if seed in self.bad else "complete"
                number = len(list(Path(task.base).glob("runs/hello/*")))
                folder = Path(task.base) / "runs/hello" / f"{number}-{task.key[:8]}"
                folder.mkdir(parents=True)
                manifest = {"format": 1, "plan_hash": task.key, "status": status}
                (folder / "manifest.json").write_text(json.dumps(manifest))
                figures = {"energy_total": float(seed), "odd": None}
                run = str(folder.relative_to(task.base))
                yield JobResult(task.key, task.parameters, status, run, "", "", figures, 1.0, task.basis)
        finally:
            self.closed = True


def sweep(base: Path, executor: Made, scenario: Path = HELLO / "scenario.cosim.yaml", variants=SEEDS) -> SweepFolder:
    return run_sweep(scenario, variants, executor, base=base)


def test_only_missing_runs_are_made_again(tmp_path):
    first, second = Made(), Made()
    folder = sweep(tmp_path, first)
    assert sweep(tmp_path, second).path == folder.path
    assert (first.seeds, second.seeds) == ([1, 2, 3], [])
    third = Made()
    shutil.rmtree(folder.path / folder.results()[1].run)
    sweep(tmp_path, third)
    assert third.seeds == [2]


def test_failed_runs_are_made_again_and_their_first_attempt_goes(tmp_path):
    folder = sweep(tmp_path, Made(bad=[2]))
    assert [r.status for r in folder.results()] == ["complete", "partial", "complete"]
    assert len(list(folder.path.glob("runs/*/*"))) == 3
    again = Made()
    sweep(tmp_path, again)
    assert again.seeds == [2]
    assert {r.status for r in folder.results()} == {"complete"}
    assert len(list(folder.path.glob("runs/*/*"))) == 3
    assert len(folder.results_file.read_text().splitlines()) == 4


def test_runs_from_other_data_are_made_again(tmp_path):
    scenario = tmp_path / "s"
    shutil.copytree(HELLO, scenario)
    sweep(tmp_path / "out", Made(), scenario / "scenario.cosim.yaml")
    with (scenario / "data/tracks.csv").open("a") as file:
        file.write("\n")
    again = Made()
    sweep(tmp_path / "out", again, scenario / "scenario.cosim.yaml")
    assert again.seeds == [1, 2, 3]


@pytest.mark.parametrize("changed", ["tasks.csv", "mine.py"])
def test_runs_of_another_trace_or_policy_are_made_again(changed, tmp_path):
    (tmp_path / "tasks.csv").write_text("time\n1\n2\n")
    (tmp_path / "mine.py").write_text("def soonest(request, reach, hosts):\n    return 0\n")
    scenario = tmp_path / "scenario.cosim.yaml"
    scenario.write_text(
        "{apiVersion: cosim/v1, kind: Scenario, name: hello, run: {duration: 5 s, step: 1 s},\n"
        "adapters: {continuum: {scheduler: 'mine:soonest'}},\n"
        "nodes: {cam: {kind: device}, edge: {kind: edge, cpu: 1 x 1 GHz}},\n"
        "links: [{between: [cam, edge], rate: 10 Mbit/s}],\n"
        "workloads: {w: {from: cam, arrivals: trace tasks.csv, input: 1 kB, work: 1 Mcycles}}}\n"
    )
    sweep(tmp_path / "out", Made(), scenario)
    kept, again = Made(), Made()
    sweep(tmp_path / "out", kept, scenario)
    with (tmp_path / changed).open("a") as file:
        file.write("\n")
    sweep(tmp_path / "out", again, scenario)
    assert (kept.seeds, again.seeds) == ([], [1, 2, 3])


def test_variants_with_the_same_plan_are_one_run(tmp_path):
    made = Made()
    same = [Variant({"run.seed": 1, "run.step": text}) for text in ("500 ms", "0.5 s")]
    assert len(sweep(tmp_path, made, variants=same).results()) == 1
    assert made.seeds == [1]


def test_a_wrong_variant_is_told_before_the_first_run(tmp_path):
    made = Made()
    with pytest.raises(ScenarioError):
        sweep(tmp_path, made, variants=[*SEEDS, Variant({"run.seed": "many"})])
    assert made.seeds == []
    assert not list(tmp_path.iterdir())


def test_two_sweeps_of_the_same_folder_do_not_meet(tmp_path):
    folder = sweep(tmp_path, Made())
    with folder.held(), pytest.raises(RunError, match=f"process {os.getpid()} is making the sweep"):
        sweep(tmp_path, Made())
    sweep(tmp_path, Made())


def test_a_signal_keeps_what_is_done_and_the_next_call_makes_the_rest(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    made = Made(interrupt_after=2)
    with pytest.raises(RunError, match=r"stopped by SIGTERM: 2 of 3 runs are complete .* the same command"):
        sweep(tmp_path, made)
    assert made.closed
    assert signal.getsignal(signal.SIGTERM) is before
    rest = Made()
    folder = sweep(tmp_path, rest)
    assert rest.seeds == [3]
    assert len(folder.results()) == 3


def test_an_error_while_appending_stops_the_runs(tmp_path, monkeypatch):
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    made = Made()
    monkeypatch.setattr("cosim.results.sweep.os.fsync", full)
    monkeypatch.setattr(SweepFolder, "describe", lambda *_: [])
    with pytest.raises(RunError, match="No space left on device"):
        sweep(tmp_path, made)
    assert made.seeds == [1]
    assert made.closed


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "hello").write_text("a file")
    with pytest.raises(SetupError, match="cannot make the sweep's folder"):
        sweep(tmp_path, Made())


@given(st.integers(0, 400))
def test_a_line_that_was_cut_off_costs_only_itself(tmp_path_factory, cut):
    folder = SweepFolder(tmp_path_factory.mktemp("sweep"))
    (folder.path / "sweep.json").write_text('{"runs": []}')
    results = [JobResult(key, {"a": "ü"}, "complete", "runs/x", "", "", {"f": 1.0}, 2.0) for key in "abc"]
    for result in results[:2]:
        folder.append(result)
    data = folder.results_file.read_bytes()
    second = data.index(b"\n") + 1
    kept = min(len(data), second + cut)
    folder.results_file.write_bytes(data[:kept])
    folder.append(results[2])
    whole = kept >= len(data) - 1  # only its newline is missing
    assert folder.results() == [results[0], *([results[1]] if whole else []), results[2]]


def test_groups_have_units_and_leave_out_what_failed(tmp_path):
    folder = sweep(tmp_path, Made(bad=[3]))
    first = folder.path / folder.results()[0].run
    (first / "metrics.json").write_text(json.dumps({"figures": {"energy_total": {"value": 1.0, "unit": "J"}}}))
    (some,) = groups_of_sweep(folder.path, folder.results())
    estimate = some.estimates()["energy_total"]
    assert (estimate.mean, estimate.runs, estimate.unit) == (1.5, 2, "J")
    assert main_figures([some]) == ["energy_total"]
