"""An adapter in a folder beside a scenario brings a node key, an event and a medium; nothing else knows of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from cosim.contract.entities import Event
from cosim.contract.errors import ScenarioError
from cosim.contract.registry import adapter_kind
from cosim.results.session import run
from cosim.scenario.plan.compile import plan_of
from cosim.scenario.plan.show import describe
from cosim.testing import check_adapter, find_faults
from tests.plans import through_text

SCENARIO = Path(__file__).parent / "lora_and_5g"


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(SCENARIO, tmp_path / "field")


def test_each_device_is_served_by_its_own_medium_and_the_event_takes_effect(folder, tmp_path):
    outcome = run(folder, out=tmp_path / "runs")
    assert outcome.status == "complete"
    seen = {
        name: pq.read_table(outcome.folder / "frames" / "link" / f"{name}.parquet").to_pydict()
        for name in ("lora", "radio")
    }
    assert set(seen["radio"]["node"]) == {"camera"}
    assert set(seen["radio"]["cell"]) == {"mast"}
    assert set(seen["lora"]["node"]) == {f"probe-{k}" for k in range(1, 5)}
    away = sorted(
        {time for time, cell in zip(seen["lora"]["time"], seen["lora"]["cell"], strict=True) if cell != "gateway"}
    )
    assert away == [float(second) for second in range(20, 40)]  # at 40 s the noise is gone
    tasks = pq.read_table(outcome.folder / "tasks.parquet").to_pydict()
    hosts = set(zip(tasks["workload"], tasks["host"], tasks["status"], strict=True))
    assert {("moisture", "gateway", "completed"), ("picture", "mast", "completed")} <= hosts


def test_a_storm_is_everywhere_and_a_medium_may_have_no_received_power(folder, tmp_path):
    file, adapter = folder / "scenario.cosim.yaml", folder / "lora" / "adapter.py"
    file.write_text(
        file.read_text().replace("do: jam, node: gateway, for: 20 s, level: -70 dBm", "do: storm, for: 10 s, loss: 60")
    )
    adapter.write_text(
        adapter.read_text().replace("reshape(-1, 10)\n", "reshape(-1, 10)\n        table[:, 1] = np.nan\n")
    )
    plan = plan_of(folder)
    storm, calm = plan.events
    assert (storm.nodes, storm.link, calm.do) == ((), None, "calm")
    kinds = adapter_kind("lora:ADAPTER").event_kinds()
    assert kinds["storm"].of(storm) == kinds["storm"].of(calm)
    assert kinds["storm"].of(storm).loss == 60.0
    assert kinds["jam"].of(storm) is None
    assert kinds["jam"].of(Event(1.0, "fail")) is None
    assert "everywhere" in describe(plan)
    outcome = run(folder, out=tmp_path / "runs")
    seen = {name: pq.read_table(outcome.folder / "frames" / "link" / f"{name}.parquet") for name in ("lora", "radio")}
    assert np.isnan(seen["lora"]["rsrp"].to_numpy()).all()
    assert np.isfinite(seen["radio"]["rsrp"].to_numpy()).all()
    away = {row["time"] for row in seen["lora"].to_pylist() if row["cell"] != "gateway"}
    assert away == {float(second) for second in range(20, 30)}


def test_a_plan_with_keys_of_adapters_travels(folder):
    plan = plan_of(folder)
    assert through_text(plan, plan.root) == plan
    assert ("lora", '{"spreading":9}') in plan.scene.nodes[0].keys


def test_the_checker_takes_nodes_with_its_keys_from_a_scenario(folder):
    plan = plan_of(folder)
    kind = adapter_kind("lora:ADAPTER")
    (folder / "lora" / "README.md").write_text(f"# lora\n\n```yaml\n{kind.example}```\n")
    assert "no node is a gateway" in "\n".join(find_faults(kind))
    check_adapter(kind, scene=plan.scene)


@pytest.mark.parametrize(
    ("written", "instead", "reported"),
    [
        ("lora: {spreading: 9}", "lora: {spreading: 13}", "nodes.probe-[1..4].lora.spreading: must be at most 12"),
        ("lora: {spreading: 9}", "lora: {spredding: 9}", "unknown key 'spredding' (did you mean 'spreading'?)"),
        ("lora: {role: gateway}", "lora: {}", "no node is a gateway"),
        ("level: -70 dBm", "level: -70 dB", "events.0.level: unknown unit 'dB'"),
        ("do: jam, node: gateway", "do: jam", "'do: jam' needs 'node'"),
        ("do: jam", "do: jamm", "events.0"),
        ("by: nr", "by: nrr", "there is no adapter 'nrr' (did you mean 'nr'?)"),
        ('lora: {use: "lora:ADAPTER", exponent: 2.7, duty_cycle: 100 %, real: true}', "wifi: {}", "unknown key 'lora'"),
    ],
)
def test_mistakes_in_what_it_brings_are_found_where_they_are(folder, written, instead, reported):
    file = folder / "scenario.cosim.yaml"
    text = file.read_text()
    assert written in text
    file.write_text(text.replace(written, instead))
    with pytest.raises(ScenarioError) as error:
        plan_of(folder)
    assert reported in str(error.value)
    assert all(problem.line for problem in error.value.problems if problem.path != "nodes")


def test_a_value_can_be_set_and_swept(folder):
    plan = plan_of(folder, ["nodes.gateway.lora.carrier=433 MHz", "defaults.lora.bandwidth=250 kHz"])
    gateway = next(node for node in plan.scene.nodes if node.id == "gateway")
    assert "433000000" in dict(gateway.keys)["lora"]
    assert "250000" in dict(gateway.keys)["lora"]
