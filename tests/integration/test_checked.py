"""What `cosim check` accepts, `cosim run` runs: shipped scenarios with one or two changes that an author might make."""

from __future__ import annotations

import copy
import os
import random
import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from cosim.cli.main import app
from cosim.scenario.gather import shipped
from tests.extensions import scenarios
from tests.mutations import vary
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = [
    *(folder / "scenario.cosim.yaml" for folder in shipped().values()),
    ROOT / "tests/integration/lora_and_5g/scenario.cosim.yaml",
    *(ROOT / "extensions/metanet/bench/worlds").glob("fifty.cosim.yaml"),
]
SUMO = [file for file in SCENARIOS if "sumo:" in file.read_text()]  # each run starts SUMO, which takes seconds
STEPS = 6
ACCEPTED = int(os.environ.get("COSIM_FUZZ", "4"))  # of each scenario; 25: 600 of all
SUMO_ACCEPTED = int(os.environ.get("COSIM_FUZZ", "1"))  # 50: 100 of both
KNOWN = {
    "shadowing": ("adapters", "radio", "shadowing", "4e12 dB"),
    "telemetry": ("adapters", "second", None, {"use": "telemetry", "prometheus": 9100}),
    "sweep": ("sweep", "run.seed", None, [1, 2, 1]),
}  # what was accepted and failed once

REPORTED = {
    "shadowing": "adapters.radio.shadowing: '4e12 dB' must be at most 300 dB",
    "telemetry": "TCP port 9102 is that of",
    "sweep": "sweep.run.seed: the value 1 stands there twice",
}


def made_short(file: Path) -> dict[str, object]:
    """The scenario's data, with a run of some steps."""
    data = YAML(typ="safe").load(file.read_text())
    number, unit = str(data["run"]["step"]).split()
    data["run"]["duration"] = f"{float(number) * STEPS:g} {unit}"
    data["adapters"].get("offloading", {}).pop("warm_up", None)  # longer than these steps
    return data


def call(*words: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*map(str, words)])
    raised = "" if done.exception is None or isinstance(done.exception, SystemExit) else repr(done.exception)
    return done.exit_code, done.output + raised


def is_run(folder: Path, file: Path, accepted: int, seed: str) -> None:
    """Vary `file` until `accepted` changed scenarios have passed the check, and run each of these."""
    copied = Path(shutil.copytree(file.parent, folder / file.parent.name)) / file.name
    base, done = made_short(file), 0
    for number in range(20 * accepted):
        rng, tree = random.Random(f"{seed} {number}"), copy.deepcopy(base)
        changes = [vary(tree, rng) for _ in range(rng.randint(1, 2))]
        with copied.open("w") as text:
            YAML(typ="safe").dump(tree, text)
        code, said = call("check", copied)
        assert code in (0, 2), (number, changes, said)
        if code == 2:
            continue
        code, said = call("run", copied, "--no-report", "--quiet", "--driver", "loop", "--out", folder / "runs")
        assert code == 0, (number, changes, said)
        shutil.rmtree(folder / "runs")
        done += 1
        if done == accepted:
            return
    pytest.fail(f"of {20 * accepted} changed scenarios only {done} were accepted")


@pytest.mark.parametrize("name", scenarios("hello", "edge-inference", "sla-aware"))
def test_what_is_accepted_is_run(tmp_path, name):
    is_run(tmp_path, shipped()[name] / "scenario.cosim.yaml", 2, f"sample {name}")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("file", [f for f in SCENARIOS if f not in SUMO], ids=lambda file: file.parent.name)
def test_of_each_scenario_what_is_accepted_is_run(tmp_path, file):
    is_run(tmp_path, file, ACCEPTED, f"all {file.parent.name}")


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.sumo
@pytest.mark.parametrize("file", SUMO, ids=lambda file: file.parent.name)
def test_of_scenarios_with_sumo_what_is_accepted_is_run(tmp_path, file):
    is_run(tmp_path, file, SUMO_ACCEPTED, f"sumo {file.parent.name}")


@pytest.mark.parametrize("case", KNOWN)
def test_what_once_failed_in_the_run_is_refused_at_the_check(tmp_path, case):
    data = made_short(ROOT / "scenarios" / "hello" / "scenario.cosim.yaml")
    block, key, inner, value = KNOWN[case]
    data["adapters"]["telemetry"] = {"prometheus": 9102}  # three nodes before the first of the second
    part = data.setdefault(block, {})
    if inner is None:
        part[key] = value
    else:
        part[key][inner] = value
    file = tmp_path / "scenario.cosim.yaml"
    with file.open("w") as text:
        YAML(typ="safe").dump(data, text)
    code, said = call("check", file)
    assert code == 2
    assert REPORTED[case] in said
    assert "1 problem found" in said


@pytest.mark.parametrize(("host", "accepted"), [("127.0.0.1", False), ("127.0.0.2", True), ("0.0.0.0", False)])
def test_one_port_at_two_loopback_addresses_is_two(tmp_path, host, accepted):
    data = made_short(ROOT / "scenarios" / "hello" / "scenario.cosim.yaml")
    port = free_port()
    data["adapters"]["telemetry"] = {"prometheus": port, "nodes": ["cloud"]}
    data["adapters"]["second"] = {"use": "telemetry", "prometheus": port, "host": host, "nodes": ["cloud"]}
    file = tmp_path / "scenario.cosim.yaml"
    with file.open("w") as text:
        YAML(typ="safe").dump(data, text)
    code, said = call("check", file)
    assert code == (0 if accepted else 2), said
    assert ("is that of" in said) != accepted
    if accepted:
        code, said = call("run", file, "--no-report", "--quiet", "--driver", "loop", "--out", tmp_path / "runs")
        assert code == 0, said
