"""Graphs, bags, traces, tariffs and agreements, from the scenario file to the books."""

import gzip

import numpy as np
import pytest

from cosim.adapters.continuum import ADAPTER
from cosim.adapters.continuum.books import HostLog
from cosim.adapters.continuum.tests.test_equipment import SCENARIO as EQUIPMENT
from cosim.contract.adapter import Context, Inputs
from cosim.contract.errors import ScenarioError
from cosim.report.trust import checks
from cosim.results.ledgers import ledger_faults
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.scenario.plan.show import describe
from tests.plans import through_text

HEAD = """\
apiVersion: cosim/v1
kind: Scenario
name: demand
run: {duration: 20 min, step: 10 s, seed: 3}
adapters:
  continuum: {scheduler: nearest}
nodes:
  camera-[1..2]: {tier: device, kind: sensor, cpu: 1 GHz}
  edge: {kind: server, tier: edge, cpu: 4 x 2 GHz, power: {idle: 20 W, max: 60 W}, cost: {tariff: day, cpu: 0.36 /h}}
  hub: {kind: server, tier: cloud, cpu: 8 x 3 GHz, power: {idle: 50 W, max: 100 W}, cost: {energy: 0.2 /kWh}}
kinds: {server: {}, sensor: {}}
links:
  - {between: [camera-*, edge], rate: 10 Mbit/s, delay: 5 ms}
  - {between: [edge, hub], rate: 100 Mbit/s, delay: 10 ms}
"""
GRAPH = """\
workloads:
  watch:
    from: camera-*
    arrivals: every 2 s
    input: 100 kB
    graph:
      actuate: {work: 10 Mcycles, after: [track], where: device}
      capture: {work: 50 Mcycles, output: 200 kB +- 20 %, where: device}
      detect: {work: 400 Mcycles, output: 4 kB, after: [capture]}
      describe: {work: 200 Mcycles, output: 1 kB, after: [capture]}
      track: {work: 100 Mcycles, output: 1 kB, after: [detect, describe]}
    deadline: 1 s
    sla: {response: 700 ms, target: 90 %, period: 1 min, penalty: 2 EUR, per: period}
"""
TARIFF = """\
tariffs:
  day:
    price: 0.36 /kWh
    carbon: 360 g/kWh
    repeat: 10 min
    windows:
      - {from: 2 min, to: 5 min, price: 0 /kWh, carbon: 36 g/kWh}
"""


def planned(tmp_path, text, *overrides):
    file = tmp_path / "demand.cosim.yaml"
    file.write_text(text)
    return compile_plan(load(file, overrides))


def run(plan, tmp_path):
    adapter = ADAPTER.build(ADAPTER.load_config()(**plan.adapters[0].config))
    context = Context("continuum", plan.scene, plan.step, plan.duration, (1, 2), str(tmp_path), str(tmp_path))
    adapter.start(context)
    tasks, hosts = [], None
    for tick in range(plan.ticks + 1):
        frames = {frame.signal: frame for frame in adapter.step(plan.time(tick), Inputs())}
        tasks.append(frames["task"])
        hosts = frames["host"]
    columns = {name: np.concatenate([frame[name] for frame in tasks]) for name in tasks[0].columns}
    columns["device"] = np.concatenate([frame.slot for frame in tasks])
    return columns, hosts, adapter.finish()


def test_a_scenario_with_a_graph_a_tariff_and_an_agreement(tmp_path):
    plan = planned(tmp_path, HEAD + GRAPH + TARIFF)
    assert [stage.name for stage in plan.scene.workloads[0].graph] == [
        "capture",
        "detect",
        "describe",
        "track",
        "actuate",
    ]
    assert "capture" in describe(plan)
    again = through_text(plan, tmp_path)
    assert again == plan
    tasks, hosts, books = run(again, tmp_path)
    # per job: 250 Mcycles at the devices, 0.2 s and more on the link; one row of `task` each
    assert len(tasks["task"]) == books["tasks"]["completed"]
    assert books["tasks"]["created"] == 1200
    assert set(tasks["host"]) == {0, 1}
    np.testing.assert_allclose(tasks["work"], 760e6)
    assert np.all(tasks["ended"] - tasks["created"] > 0.05 + 0.2 * 0.8 + 0.2 + 0.01)
    stages = books["stages"]["watch"]
    assert list(stages) == ["capture", "detect", "describe", "track", "actuate"]
    assert stages["actuate"]["completed"] == books["tasks"]["completed"]
    assert all(row["created"] == row["completed"] + row["in_flight"] for row in stages.values())
    agreed = books["agreements"]["watch"]
    slow = (tasks["ended"] - tasks["created"]) > 0.7
    assert (agreed["tasks"], agreed["violations"]) == (len(slow), slow.sum())
    assert agreed["penalty"] == 2.0 * agreed["periods_below"]
    # the edge host's power is not constant, so only bounds are known without the engine
    energy, cost = books["energy"]["by_node"]["edge"], books["cost"]["by_node"]["edge"]
    power_cost = cost - 0.36 / 3600 * energy_busy(energy)
    assert power_cost == pytest.approx(energy * 14 / 20 * 0.36 / 3.6e6, rel=0.02)
    assert books["carbon"]["by_node"]["edge"] == pytest.approx(energy * (14 * 360 + 6 * 36) / 20 / 3.6e6, rel=0.02)
    assert hosts["cost"].sum() == pytest.approx(sum(books["cost"]["by_node"].values()))


def test_green_energy_and_price_windows_are_booked(tmp_path):
    green = "    green: [{from: 0 min, to: 4 min, share: 50 %}, {from: 4 min, to: 6 min}]\n    green_carbon: 18 g/kWh\n"
    text = (HEAD + GRAPH + TARIFF + green).replace("idle: 20 W, max: 60 W", "idle: 20 W, max: 20 W")
    plan = planned(tmp_path, text)
    assert through_text(plan, tmp_path) == plan
    _, _, books = run(plan, tmp_path)
    energy = 20.0 * 1200.0
    # of each 10 min: 2 + 2 min half green, 2 min green; dear and dirty outside of minutes 2 to 5
    carbon = books["carbon"]
    assert carbon["green_energy"] == pytest.approx(energy * 0.4)
    assert carbon["brown_energy"] == pytest.approx(energy * 0.6)
    brown = 20.0 * 120.0 * (0.5 * 2 * 360 + 0.5 * 2 * 36 + 4 * 360)  # min 0-2, 2-4, 6-10; two laps
    assert carbon["grams"] == pytest.approx((brown + energy * 0.4 * 18) / 3.6e6)
    assert carbon["by_node"] == {"edge": pytest.approx(carbon["grams"])}
    assert books["energy"]["by_window"] == {"day": pytest.approx({"120..300 s": 7200.0, "otherwise": 16800.0})}
    paid = 20.0 * 120.0 * (0.5 * 2 + 4) * 0.36 / 3.6e6
    assert books["cost"]["energy_by_tariff"] == {"day": pytest.approx(paid)}
    hub = books["cost"]["energy"] - paid
    assert hub == pytest.approx(books["energy"]["by_node"]["hub"] * 0.2 / 3.6e6)


def energy_busy(energy):
    """Busy core-seconds of the edge host from its energy: idle 20 W, 10 W more per busy core."""
    return (energy - 20.0 * 1200.0) / 10.0


def test_bags_and_traces(tmp_path):
    (tmp_path / "tasks.csv").write_text(
        "time,device,input,work\n3,camera-2,5000,1e6\n1.5,,,\n\n2,camera-1,,2e6\n4,,1,1\n"
    )
    text = (
        HEAD.replace(", cost: {tariff: day, cpu: 0.36 /h}", "")
        + """\
workloads:
  batch: {from: camera-1, arrivals: bag 3 every 5 min, work: 1 Mcycles, stop: 11 min}
  replayed: {from: camera-*, arrivals: trace tasks.csv, input: 70 B, work: 5 Mcycles, start: 10 s}
"""
    )
    plan = planned(tmp_path, text)
    assert "bag N(3, 0) every 300 s" in describe(plan)
    assert "trace tasks.csv" in describe(plan)
    tasks, _, _ = run(plan, tmp_path)
    bag = tasks["workload"] == 0
    assert sorted(tasks["created"][bag]) == [0.0] * 3 + [300.0] * 3 + [600.0] * 3
    order = np.flatnonzero(~bag)[np.argsort(tasks["created"][~bag])]
    assert tasks["created"][order].tolist() == [11.5, 12.0, 13.0, 14.0]
    assert tasks["device"][order].tolist() == [1, 0, 1, 1]  # rows 2 and 4 of the file are dealt in turn
    assert tasks["input"][order].tolist() == [70.0, 70.0, 5000.0, 1.0]
    assert tasks["work"][order].tolist() == [5e6, 2e6, 1e6, 1.0]


def test_prices_come_from_files(tmp_path):
    (tmp_path / "prices.csv").write_text("0.36\n0.72\n")
    (tmp_path / "carbon.csv").write_text("s,g/kWh\n0,360\n300,0\n")
    tariff = "tariffs: {day: {prices: prices.csv, every: 10 min, carbons: carbon.csv}}\n"
    text = (
        (HEAD + GRAPH + tariff).replace("idle: 20 W, max: 60 W", "idle: 20 W, max: 20 W").replace(", cpu: 0.36 /h", "")
    )
    _, _, books = run(planned(tmp_path, text), tmp_path)
    assert books["cost"]["by_node"]["edge"] == pytest.approx(20.0 * 600 * (0.36 + 0.72) / 3.6e6)
    assert books["carbon"]["grams"] == pytest.approx(20.0 * 300 * 360 / 3.6e6)


def test_rules_of_the_user(tmp_path, monkeypatch):
    (tmp_path / "my_rules.py").write_text("def steep(standing):\n    return standing.violations ** 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = (HEAD + GRAPH + TARIFF).replace("per: period", "per: 'my_rules:steep'").replace("700 ms", "300 ms")
    _, hosts, books = run(planned(tmp_path, text, "run.duration=1 min"), tmp_path)
    agreed = books["agreements"]["watch"]
    assert agreed["penalty"] == 2.0 * agreed["violations"] ** 2 > 0
    assert not agreed["met"]
    # hosts pay for cores, transfers and energy; what is owed for late jobs comes on top
    bill = books["cost"]
    assert hosts["cost"].sum() == pytest.approx(sum(bill["by_node"].values()))
    assert bill["penalty"] == {"total": agreed["penalty"], "by_workload": {"watch": agreed["penalty"]}}
    assert bill["total"] == pytest.approx(bill["cpu"] + bill["transfer"] + bill["energy"] + agreed["penalty"])
    assert ledger_faults(books) == []
    assert all(check.closes for check in checks({"continuum": books}))
    owed = [dict(check.parts)["penalty"].title for check in checks({"continuum": books}) if "cost" in check.name]
    assert owed == [repr(agreed["penalty"])] * 2
    with pytest.raises(ScenarioError, match="rule 'my_rules:flat' cannot be imported"):
        run(planned(tmp_path, text.replace("steep", "flat")), tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("after: [track]", "after: [trak]", "comes after 'trak', which is no stage"),
        ("after: [capture]}\n      describe", "after: [track]}\n      describe", "wait for each other"),
        ("deadline: 1 s", "work: 5 Mcycles", "give 'work' or 'graph', not both"),
        ("per: period", "per: month", "sla.per"),
        ("period: 1 min, ", "", "'per: period' needs 'period'"),
        ("tariff: day", "tariff: dai", "there is no tariff 'dai' (did you mean 'day'?"),
        ("to: 5 min", "to: 1 min", "'to' is not after 'from'"),
        ("repeat: 10 min", "repeat: 4 min", "a window ends after 'repeat'"),
        ("repeat: 10 min", "green: [{from: 1 s, to: 9 s}, {from: 4 s, to: 10 s}]", "the windows of 'green' overlap"),
        ("repeat: 10 min", "prices: none.csv", "give 'windows' or files, not both"),
        ("every 2 s", "trace none.csv", "there is no file 'none.csv'"),
        ("every 2 s", "bag many every 2 s", "is not an arrival law"),
        ("200 kB +- 20 %", "200 kB +- 120 %", "from 0 % to 100 %"),
    ],
)
def test_mistakes_are_found_when_the_file_is_read(tmp_path, old, new, message):
    text = HEAD + GRAPH + TARIFF
    assert old in text
    with pytest.raises(ScenarioError) as error:
        planned(tmp_path, text.replace(old, new))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("when\n1\n", "tasks.csv:1: workloads.watch.arrivals: the first line names the columns ['when']"),
        ("time,work\n1\n", "tasks.csv:2: workloads.watch.arrivals: 1 values in 2 columns"),
        ("time,work\n1,x\n", "could not convert"),
        ("time,device\n1,hub\n", "'hub' does not make workload 'watch'"),
        ("time,input\n1,-4\n", "negative"),
        ("time,input\n,4\n", "a time is missing"),
    ],
)
def test_mistakes_in_traces_are_found(tmp_path, content, message):
    (tmp_path / "tasks.csv").write_text(content)
    with pytest.raises(ScenarioError) as error:
        planned(tmp_path, (HEAD + GRAPH + TARIFF).replace("every 2 s", "trace tasks.csv"))
    assert message in str(error.value)


def test_a_trace_of_another_time_is_told(tmp_path):
    text = (HEAD + GRAPH + TARIFF).replace("every 2 s", "trace tasks.csv")
    (tmp_path / "tasks.csv").write_text("time\n1900000000\n1900000001\n")
    (warning,) = [one for one in planned(tmp_path, text).warnings if "first task" in one]
    assert "workloads.watch.arrivals: the first task of the file comes at 1.9e+09 s, and the run ends at" in warning
    (tmp_path / "tasks.csv").write_text("time\n1\n1900000001\n")
    assert not [one for one in planned(tmp_path, text).warnings if "first task" in one]


def test_a_trace_that_is_cut_off_is_named(tmp_path):
    (tmp_path / "tasks.csv.gz").write_bytes(gzip.compress(b"time\n1\n2\n")[:-9])
    with pytest.raises(ScenarioError, match=r"tasks.csv.gz: workloads.watch.arrivals: cannot be read"):
        planned(tmp_path, (HEAD + GRAPH + TARIFF).replace("every 2 s", "trace tasks.csv.gz"))


def test_a_device_without_a_processor_cannot_run_its_stages(tmp_path):
    with pytest.raises(ScenarioError, match="stage 'capture' runs on the device, but source 'camera-1' has no cpu"):
        planned(tmp_path, (HEAD + GRAPH + TARIFF).replace(", cpu: 1 GHz", ""))


@pytest.mark.parametrize("text", [HEAD + GRAPH + TARIFF, EQUIPMENT])
def test_rows_at_the_end_of_a_run_are_those_of_its_frames(tmp_path, text):
    plan = planned(tmp_path, text)
    adapter = ADAPTER.build(ADAPTER.load_config()(**plan.adapters[0].config))
    adapter.start(Context("continuum", plan.scene, plan.step, plan.duration, (1, 2), str(tmp_path), str(tmp_path)))
    log, frames = HostLog(adapter._engine, adapter._world, plan.scene), []
    for tick in range(plan.ticks + 1):
        frames += [one for one in adapter.step(plan.time(tick), Inputs()) if one.signal == "host"]
        log.look()
    rows = log.rows()
    assert max(frames[-1]["cost"].max(), frames[-1]["energy"].max()) > 0.0
    assert np.array_equal(rows["slot"], np.concatenate([frame.slot for frame in frames]))
    assert np.array_equal(rows["time"], np.repeat([frame.time for frame in frames], len(frames[0])))
    for name in frames[0].columns:
        assert np.array_equal(rows[name], np.concatenate([frame[name] for frame in frames])), name
