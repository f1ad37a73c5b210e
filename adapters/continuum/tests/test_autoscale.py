"""Hosts that start and stop by their load: who runs when, what it takes and costs, and that no task is lost."""

from __future__ import annotations

import numpy as np
import pytest

import cosim
from cosim.contract.errors import ScenarioError
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan

BUSY, SPAN = 100.0, 300.0  # s with tasks, s in all
SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: scales
run: {duration: 300 s, step: 1 s, seed: 3}
adapters:
  continuum:
    scheduler: least-loaded
    autoscale: {vm: {start: 1, stop: 0.3, every: 10 s}}
    signals: [machine]
    trace: {workloads: []}
kinds:
  vm:
    kind: cloud
    cpu: 1 x 1 GHz
    power: {idle: 10 W, max: 20 W}
    boot: {time: 7 s, power: 15 W, off: 1 W}
    cost: {own: 3.6 /h}
nodes:
  vm-[1..4]: {kind: vm}
  camera: {kind: device}
links:
  - {between: [camera, "vm-*"], rate: 1 Gbit/s, delay: 0 s}
workloads:
  look: {from: camera, arrivals: every 100 ms, input: 0 B, work: 320 Mcycles, stop: 100 s}
"""


def ran(tmp_path, text=SCENARIO):
    file = tmp_path / "scales.cosim.yaml"
    file.write_text(text)
    return cosim.load(cosim.run(file, out=tmp_path / "runs").folder)


def test_as_many_run_as_the_load_asks_for_and_only_they_are_paid(tmp_path):
    """10 tasks/s of .32 s keep 3.2 cores busy: 4 hosts carry that, 3 do not; afterwards one is left."""
    run = ran(tmp_path)
    book = run.manifest["adapters"][0]["summary"]
    assert book["tasks"]["completed"] == book["tasks"]["created"] > 990
    assert book["autoscale"] == {"vm": {"starts": 3, "stops": 3}}
    assert [run.metrics["figures"][name]["value"] for name in ("host_starts", "host_stops")] == [3.0, 3.0]
    events = run.sql("SELECT node, event, node_event.at FROM node_event ORDER BY 3, node").fetchall()
    assert [(node, event, at) for node, event, at in events if event in ("boot", "ready")] == [
        ("vm-2", "boot", 10.0), ("vm-2", "ready", 17.0), ("vm-3", "boot", 20.0), ("vm-3", "ready", 27.0),
        ("vm-4", "boot", 30.0), ("vm-4", "ready", 37.0),
    ]  # fmt: skip
    tasks = run.sql("SELECT host, min(started) AS first, max(ended) AS last FROM task GROUP BY host ORDER BY host")
    first, last = (dict(zip(*(tasks.fetchnumpy()[name] for name in ("host", at)), strict=True))
                   for at in ("first", "last"))  # fmt: skip
    for number, ready in ((2, 17.0), (3, 27.0), (4, 37.0)):  # none runs anything before it is ready
        assert ready <= first[f"vm-{number}"] < ready + 1.0
    off = {node: book["states"]["off"].get(node, 0.0) for node in (f"vm-{k}" for k in (1, 2, 3, 4))}
    assert off["vm-1"] == 0.0
    done = max(last.values())
    for number, begin in ((4, 0.0), (3, 10.0), (2, 20.0)):  # one at a look, from the first one without load on
        stopped = 10.0 * np.ceil(done / 10.0) + begin
        boot = 40.0 - 10.0 * (5 - number)
        assert off[f"vm-{number}"] == pytest.approx(boot + SPAN - stopped)
    paid = sum(SPAN - seconds for seconds in off.values()) * 3.6 / 3600.0
    assert book["cost"]["own"] == pytest.approx(paid)
    assert run.sql("SELECT sum(cost) FROM host WHERE time = 300").fetchall()[0][0] == pytest.approx(paid)
    work = sum(run.sql("SELECT count(*) FROM task").fetchall()[0]) * 0.32
    booting = 3 * 7.0
    on = 4 * SPAN - sum(off.values()) - booting
    joules = 10.0 * on + 10.0 * work + 15.0 * booting + 1.0 * sum(off.values())
    assert book["energy"]["total"] == pytest.approx(joules)


def test_hosts_that_always_run_are_as_if_nothing_scaled(tmp_path):
    bound = SCENARIO.replace("start: 1, stop: 0.3", "least: 3, start: 1000, stop: 0")
    without = SCENARIO.replace("    autoscale: {vm: {start: 1, stop: 0.3, every: 10 s}}\n", "")
    events = 'events:\n  - {at: 0 s, do: fail, node: "vm-4"}\n'
    ours, plain = (ran(tmp_path, text) for text in (bound, without + events))
    rows = [run.sql("SELECT * FROM task ORDER BY created").fetchnumpy() for run in (ours, plain)]
    for name in ("created", "started", "ended", "host"):
        assert rows[0][name].tolist() == rows[1][name].tolist()
    assert ours.manifest["adapters"][0]["summary"]["autoscale"] == {"vm": {"starts": 0, "stops": 0}}


def test_a_host_that_stops_finishes_what_it_has_and_one_that_is_needed_goes_on(tmp_path):
    """Tasks of 35 s: after the burst each host runs on until its own are done."""
    text = SCENARIO.replace("every 100 ms", "every 12.5 s").replace("320 M", "35 G").replace("stop: 0.3", "stop: 0.99")
    run = ran(tmp_path, text)
    book = run.manifest["adapters"][0]["summary"]
    assert set(book["tasks"]["failed"]) == set()
    assert book["tasks"]["completed"] == book["tasks"]["created"] == 8
    assert book["autoscale"]["vm"]["stops"] >= 3


def test_one_that_fails_is_left_alone_and_serves_when_it_is_back(tmp_path):
    text = SCENARIO + "events:\n  - {at: 25 s, do: fail, node: vm-2, for: 20 s}\n"
    run = ran(tmp_path, text)
    book = run.manifest["adapters"][0]["summary"]
    assert book["autoscale"]["vm"]["stops"] == 3
    failed = book["tasks"]["failed"]
    assert set(failed) == {"node-failed"}
    again = run.sql("SELECT min(started) AS first FROM task WHERE host = 'vm-2' AND started > 25").fetchall()[0][0]
    assert 52.0 <= again < 54.0  # it boots first


@pytest.mark.parametrize(
    ("old", "new", "path", "words"),
    [
        ("{vm: {", "{vn: {", "autoscale.vn", "there is no kind of node 'vn'"),
        ("{vm: {", "{vm: {least: 4, ", "autoscale.vm.least", "4 of 4 hosts always run"),
        ("{vm: {", "{vm: {least: 0, ", "autoscale.vm.least", "least"),
        ("stop: 0.3", "stop: 1", "autoscale.vm", "'stop' is 1, not below 'start', 1"),
        ("every: 10 s", "every: 0 s", "autoscale.vm.every", "0 s"),
        (
            "    boot: {time: 7 s, power: 15 W, off: 1 W}\n",
            "",
            "autoscale.vm",
            "'vm-1' cannot be started and stopped",
        ),
        ("from: camera", "from: [camera, vm-2]", "autoscale.vm", "'vm-2' cannot be started and stopped"),
        ("signals: [machine]", "deciding: {on: vm-1, as: 1 ms}", "deciding.on", "'vm-1' may be off"),
    ],
)
def test_what_cannot_be_is_refused_before_the_run(tmp_path, old, new, path, words):
    file = tmp_path / "scales.cosim.yaml"
    file.write_text(SCENARIO.replace(old, new))
    with pytest.raises(ScenarioError, match=words) as wrong:
        compile_plan(load(file))
    assert [problem.path for problem in wrong.value.problems] == [f"adapters.continuum.{path}"]
