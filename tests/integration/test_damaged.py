"""A damage of any kind of result is named by the commands that read it: exit code 1 or 2, no traceback, no figures.

Runs alone are in `tests/unit/results/test_damage.py`. Files that no figure comes from (pages, logs) are left out.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cosim.cli.main import app
from cosim.contract.errors import CosimError
from cosim.contract.functions import missing_extension
from cosim.contract.seals import SealedLines, sealed
from cosim.results.executor import JobResult, RunTask, carry_out
from cosim.results.folder import write_json
from cosim.results.session import run_plan
from cosim.results.sweep import SweepFolder, run_sweep
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.scenario.sweep import Variant
from cosim.twin.calibration import Calibration, Judgement, ParameterEstimate
from cosim.twin.prediction import draws
from cosim.twin.scenario.overlay import write
from tests.cli.test_calibrate import BLOCK, LINE
from tests.extensions import needs

pytestmark = needs("detection", "research_object")
for package in ("rocrate", "scipy", "sklearn"):
    pytest.importorskip(package)
SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: damaged
run: {duration: 3 s, step: 1 s}
adapters: {continuum: {scheduler: nearest}}
kinds: {camera: {tier: device}}
nodes:
  camera-1: {kind: camera, at: [0 m, 0 m]}
  edge: {kind: edge, cpu: 2 x 1 GHz}
links: [{between: [camera-1, edge], rate: 100 Mbit/s, delay: 5 ms}]
workloads: {pictures: {from: camera-1, arrivals: poisson 5 Hz, input: 1 kB, work: 50 Mcycles, deadline: 400 ms}}
"""
IGNORED = {"report.html", ".lock", ".origin"}


class Here:
    """Makes the runs of a sweep in this process."""

    def run(self, tasks: Sequence[RunTask]) -> Iterator[JobResult]:
        for task in tasks:
            found = carry_out(task)
            yield JobResult(
                task.key, task.parameters, found["status"], found["run"], found["error"], "", found["figures"], 1.0,
                task.basis,
            )  # fmt: skip


@pytest.fixture(scope="module")
def kinds(tmp_path_factory) -> Path:
    """A folder of each kind of result, all of which can be read."""
    base = tmp_path_factory.mktemp("kinds")
    (base / "s").mkdir()
    (base / "s/scenario.cosim.yaml").write_text(SCENARIO)
    seeds = [Variant({"run.seed": seed}) for seed in (1, 2)]
    made = run_sweep(base / "s/scenario.cosim.yaml", seeds, Here(), base=base / "runs").path
    shutil.move(made, base / "sweep")
    invoke("publish", base / "sweep", "--out", base / "crate")
    invoke("publish", base / "sweep", "--out", base / "packed" / "crate", "--zip")
    rng = np.random.default_rng(1)
    rows = ["time,node,site,ue_sinr,ue_pdr,label"]
    for scene in range(24):
        for t in range(30):
            bad = t % 3 == 0
            sinr = rng.normal(20.0 - 15.0 * bad, 1.0)
            rows.append(f"{t},p,{scene},{sinr:.3f},{1.0 - 0.5 * bad},{int(bad)}")
    (base / "levels.csv").write_text("\n".join(rows) + "\n")
    words = ("--label", "label", "--node", "node", "--at", "time", "--by", "site", "--drop", "site")
    invoke("dataset", base / "levels.csv", "--out", base / "data", *words)
    (base / "detector").mkdir()
    invoke("detect", "train", base / "data", "--method", "thresholds", "--out", base / "detector/d.npz")
    estimate = ParameterEstimate(
        "workloads.pictures.work", 60.0, 55.0, 70.0, 50.0, "Mcycles", members=("workloads.pictures.work",)
    )
    fit = Judgement("all", (), ())
    found = Calibration("pi", (estimate,), fit, None, "cma-es", 9, 1.0, 1.0, 1, "converged", draws=((60.0,), (61.0,)))
    (base / "calibration").mkdir()
    write(base / "calibration/pi.calibration.yaml", found)
    draws.write(base / "calibration/pi.draws.json", replace(found))
    text = "include: [../s/scenario.cosim.yaml, pi.calibration.yaml]\n"
    (base / "calibration/scenario.cosim.yaml").write_text(text)
    (base / "line").mkdir()
    (base / "line/scenario.cosim.yaml").write_text(LINE + BLOCK)
    run_plan(compile_plan(load(base / "line/scenario.cosim.yaml")), base / "line/runs")
    invoke("calibrate", base / "line", "--runs", 100, "--no-report", "--out", base / "state")
    shutil.copytree(base / "state/line", base / "posterior")
    band = {"low": 0.1, "middle": 0.2, "high": 0.3, "runs": 9, "amplification": 1.2, "by": "workloads.pictures.work"}
    bands = {"response_mean": band, "response_p95": band | {"middle": None}}
    (base / "prediction").mkdir()
    found = {"format": 1, "level": 0.9, "scenario": "damaged", "bands": bands, "runs": 9, "warnings": []}
    write_json(base / "prediction/prediction.json", sealed(found))
    for kind, file, line in (("bench", "rows.jsonl", ROW), ("claim", "d43.figure5/results.jsonl", ANSWER)):
        (base / kind / file).parent.mkdir(parents=True)
        for k in range(5):
            SealedLines(base / kind / file).append(line | {"found": {"late": 0.1 * k}} if kind == "claim" else line)
    return base


ROW = {"row": {"entry": "first-fit", "digest": "0", "suite": "0", "world": "w", "seed": 1, "figures": {"energy": 1.5}}}
ANSWER = {"case": "a", "code": "0", "found": {}}
# kind -> commands that read it, the folder being {}
READ = {
    "sweep": (
        ("compare", "{}", "{}"),
        ("report", "{}"),
        ("publish", "{}", "--out", "{}/../new"),
        ("again", "{}"),
        ("figure", "{}", "--x", "run.seed", "--y", "response_mean", "--out", "{}/../new.svg"),
        ("dataset", "{}", "--signals", "host", "--label", "task.late >= 0.5", "--out", "{}/../new"),
    ),
    "crate": (("rerun", "{}"),),
    "packed": (("rerun", "{}/crate.zip"),),
    "data": (
        ("detect", "train", "{}", "--method", "thresholds", "--out", "{}/../d.npz"),
        ("detect", "judge", "{base}/detector/d.npz", "{}"),
    ),
    "detector": (("detect", "judge", "{}/d.npz", "{base}/data"),),
    "calibration": (("check", "{}"),),
    "draws": (("predict", "{base}/s", "--twin", "{}", "--draws", "10", "--out", "{}/../new"),),
    "state": (("calibrate", "{base}/line", "--runs", "100", "--no-report", "--resume", "--out", "{}"),),
    "posterior": (("whatif", "{base}/line", "--run", "{base}/line/runs", "--twin", "{}"),),
    "prediction": (("report", "{}"),),
}
if not missing_extension("cosim.extensions.metanet"):
    READ["bench"] = (("bench", "schedulers", "--only", "first-fit", "--seeds", "1", "--out", "{}"),)
if not any(map(missing_extension, ("cosim.extensions.reproduce", "cosim.extensions.mlsysops"))):
    READ["claim"] = (("reproduce", "d43.figure5", "--quick", "--out", "{}"),)
ONLY = {
    "calibration": "pi.calibration.yaml", "draws": "pi.draws.json", "state": "state.npz",
    "posterior": "calibration.json", "prediction": "prediction.json",
}  # fmt: skip


def invoke(*words: object) -> None:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output


def flipped(rng: random.Random, file: Path, _: Path) -> None:
    data = bytearray(file.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    file.write_bytes(data)


def truncated(rng: random.Random, file: Path, _: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: rng.randrange(len(data))])


def gone(_rng: random.Random, file: Path, _: Path) -> None:
    file.unlink()


def swapped(_rng: random.Random, file: Path, other: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(other.read_bytes() if other.read_bytes() != data else data[::-1])
    other.write_bytes(data)


def added(_rng: random.Random, file: Path, _: Path) -> None:
    shutil.copy(file, file.with_stem(f"{file.stem}-2"))


def lost(rng: random.Random, file: Path, _: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    del lines[rng.randrange(len(lines) - 1)]
    file.write_bytes(b"".join(lines))


def files_of(folder: Path, kind: str) -> list[Path]:
    found = [path for path in folder.rglob("*") if path.is_file() and path.name not in IGNORED]
    found = [path for path in found if "logs" not in path.parts]
    return sorted(path for path in found if path.name == ONLY.get(kind, path.name))


def judge(kinds: Path, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    kind = list(READ)[seed % len(READ)]
    folder = tmp_path / kind
    shutil.copytree(kinds / ("calibration" if kind == "draws" else kind), folder)
    shutil.copytree(kinds / "s", tmp_path / "s")
    files = files_of(folder, kind)
    file, damage = rng.choice(files), rng.choice([flipped, flipped, truncated, gone, swapped, added])
    if damage is added and kind not in ("data", "crate") and file.parent.parent.name != "frames":
        damage = flipped  # a further file changes nothing there
    if len(files) == 1 and damage is swapped:
        damage = truncated
    if kind in ("bench", "claim") and damage in (truncated, gone):
        damage = lost  # what is gone from its end is made again
    if kind in ("state", "prediction") and damage is gone:
        damage = truncated  # nothing refers to it
    damage(rng, file, rng.choice([one for one in files if one != file] or files))
    command = rng.choice(READ[kind])
    if command[0] == "again":  # what `cosim sweep` does
        seeds = [Variant({"run.seed": n}) for n in (1, 2)]
        with pytest.raises(CosimError):
            run_sweep(kinds / "s/scenario.cosim.yaml", seeds, Here(), base=tmp_path, folder=SweepFolder(folder))
        return
    words = [word.format(str(folder), base=kinds) if word != "{}" else str(folder) for word in command]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, SystemExit), (damage.__name__, file, words, done.exception)
    assert done.exit_code in (1, 2), (damage.__name__, file.relative_to(tmp_path), words, done.output)
    assert "Traceback" not in done.output
    named = file.name in done.output or "damaged" in done.output or "draws of a posterior" in done.output
    assert named, (damage.__name__, file.relative_to(tmp_path), words, done.output)


def test_all_can_be_read(kinds, tmp_path):
    for kind in ("data", "detector", "calibration", "crate", "state", "prediction"):
        for command in READ[kind]:
            folder = tmp_path / kind
            if not folder.exists():
                shutil.copytree(kinds / kind, folder)
                shutil.copytree(kinds / "s", tmp_path / "s", dirs_exist_ok=True)
            if command[0] != "rerun":
                invoke(*(word.format(str(folder), base=kinds) for word in command))
    assert json.loads((kinds / "sweep/sweep.json").read_text())["last"]


@pytest.mark.parametrize("seed", range(21))
def test_a_damage_is_named(kinds, tmp_path, seed, monkeypatch):
    monkeypatch.chdir(tmp_path)
    judge(kinds, tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(21, int(os.environ.get("COSIM_FUZZ", "200"))))
def test_200_damages_are_named(kinds, tmp_path, seed, monkeypatch):
    monkeypatch.chdir(tmp_path)
    judge(kinds, tmp_path, seed)
