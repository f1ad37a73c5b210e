"""What `cosim check` finds: whatever would end a run before its first tick, and loads that no machine holds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cosim.bus.steering import event_kinds, read_event
from cosim.cli.main import app
from cosim.contract.errors import ScenarioError
from cosim.contract.node_keys import Battery
from cosim.scenario.plan.compile import checked, plan_of
from cosim.scenario.plan.estimate import Machine, estimate
from cosim.scenario.plan.variants import wrong_values
from tests.extensions import needs

BASE = """\
apiVersion: cosim/v1
kind: Scenario
name: farm
run: {duration: 10 s, step: 1 s}
adapters:
  continuum: {scheduler: nearest}
nodes:
  cam-[1..3]: {kind: device}
  edge: {kind: edge, cpu: 2 x 1 GHz}
  cloud: {kind: cloud, cpu: 4 x 2 GHz}
links:
  - {between: [cam-*, edge], rate: 10 Mbit/s}
  - {between: [edge, cloud], rate: 1 Gbit/s}
workloads:
  film: {from: cam-*, arrivals: every 1 s, input: 1 kB, output: 1 kB, work: 1 Mcycles}
"""


@pytest.fixture
def write(tmp_path: Path):
    def made(*changes: tuple[str, str], more: str = "") -> Path:
        text = BASE
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        file = tmp_path / "farm.cosim.yaml"
        file.write_text(text + more)
        return file

    return made


def problems(file: Path, *overrides: str):
    try:
        loaded, _ = checked(file, overrides)
    except ScenarioError as error:
        return error.problems
    return wrong_values(loaded)


def test_the_base_is_right(write):
    assert plan_of(write()).warnings == ()


@pytest.mark.parametrize(
    ("old", "new", "path", "reported"),
    [
        ("scheduler: nearest", "scheduler: mypolicy:soonest", "adapters.continuum.scheduler", "mypolicy"),
        ("scheduler: nearest", "scheduler: math:pi", "adapters.continuum.scheduler", "not a function"),
        ("[edge, cloud]", "[cloud, cloud]", "links.1.between.1", "links 'cloud' to itself"),
        ("[cam-*, edge]", "[cam-1, edge]", "workloads.film.from", ""),
        ("2 x 1 GHz}", "2 x 1 GHz, memory: 0 B}", "nodes.edge.memory", "must be more than 0 B"),
        ("kind: device}", "kind: device, battery: 5000 mAh}", "nodes.cam-[1..3].battery", "is a charge"),
        ("every 1 s", "poisson 1e300 Hz", "workloads.film.arrivals", "this machine has"),
        ("every 1 s", "every 1e-12 s", "workloads.film.arrivals", "tasks in one step"),
        ("every 1 s", "bag 1000000000 every 1 s", "workloads.film.arrivals", "this machine has"),
        ("duration: 10 s, step: 1 s", "duration: 1000 s, step: 1 ns", "run.duration", "would take"),
        ("continuum: {", "sumo: {server: '127.0.0.1:1'}\n  continuum: {", "adapters.sumo", "fleet"),
        ("continuum: {", "more: {use: 'nowhere:ADAPTER'}\n  continuum: {", "adapters.more.use", "cannot be used"),
    ],
)
def test_what_would_end_a_run_is_found_with_its_line(write, old, new, path, reported):
    file = write((old, new))
    if "cam-1" in new:  # two of three have no way: a warning
        assert "cannot reach any host" in plan_of(file).warnings[0]
        return
    found = problems(file)
    (mine,) = [one for one in found if one.path == path]
    assert reported in str(mine)
    assert mine.line


@pytest.mark.parametrize(
    ("old", "new", "path", "reported"),
    [
        ("duration: 10 s", "duration: 2026-05-12", "run.duration", "how long after the start"),
        ("duration: 10 s", "duration: 1:30", "run.duration", "write how long it is"),
        ("duration: 10 s", "duration: 10\u00a0s", "run.duration", "ordinary space"),
        ("10 Mbit/s", "10 mbit/s", "links.0.rate", "did you mean 'Mbit/s'?"),
        ("10 Mbit/s", "'1,5 Mbit/s'", "links.0.rate", "decimals have a point"),
        ("rate: 10 Mbit/s", "rate: 10 Mbit/s, loss: 0,5 %", "links.0.5 %", "text with a comma needs quotes"),
        ("2 x 1 GHz", "99999999 x 1 GHz", "nodes.edge.cpu", "more than 999,999 cores"),
        ("cam-[1..3]: {", "cam-[1..99999999999]: {", "nodes.cam-[1..99999999999]", "stands for more than"),
        ("kind: edge,", "kind: edge, at: [1e12 m, 0 m],", "nodes.edge.at.0", "at most 100000000 m"),
        ("name: farm", "name: farm\ninclude: ['.']", "include.0", "is a folder"),
        ("name: farm", "name: farm\ninclude: ['https://example.com/a.yaml']", "include.0", "copy it beside"),
        ("name: farm", "name:farm", "", "write a space after ':'"),
        ("rate: 10 Mbit/s", "rate: 10 Mbit/s, burst: 3", "links.0", "'burst' needs a 'loss'"),
        ("rate: 10 Mbit/s", "rate: 10 Mbit/s, loss: 80 %, burst: 3", "links.0", "4 at least are lost in a row"),
        ("rate: 10 Mbit/s", "rate: 10 Mbit/s, loss: 10 %, burst: 0.5", "links.0.burst", "must be at least 1"),
        ("rate: 10 Mbit/s", "rate: 10 Mbit/s, reorder: 1 %", "links.0", "'reorder' needs a 'delay'"),
        ("{duration: 10 s,", "{duration: 10 s", "", "a comma is missing"),
    ],
)
def test_usual_slips_are_told_with_the_remedy(write, old, new, path, reported):
    found = problems(write((old, new)))
    assert any(one.path == path and reported in str(one) for one in found), [str(one) for one in found]
    assert not any("selects no node" in str(one) for one in found if "cam-[1..9" not in new)


def test_other_encodings_are_told(tmp_path):
    file = tmp_path / "farm.cosim.yaml"
    for encoding, reported in (("utf-16", "the file is UTF-16; save it as UTF-8"), ("latin-1", "save it as UTF-8")):
        file.write_bytes(BASE.replace("name: farm", "name: farm\ntitle: Caf\u00e9").encode(encoding))
        (found,) = problems(file)
        assert reported in str(found)


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        ("every 1 s", "every 1 s, start: 10 s", "workloads.film.start: is not before the end of the run"),
        ("links:", "links:\n  - {between: [cloud, edge], rate: 1 Mbit/s}", "a second time, beside links.0"),
        (
            "rate: 10 Mbit/s",
            "rate: 10 Mbit/s, delay: 1 ms, jitter: 2 ms",
            "links.0.jitter: is above the delay of 0.001",
        ),
    ],
)
def test_what_has_no_effect_is_warned_of(write, old, new, warning):
    assert any(warning in one for one in plan_of(write((old, new))).warnings)


def test_ends_without_a_beginning_are_warned_of(write):
    plan = plan_of(write(more="events: [{at: 1 s, do: recover, node: edge}, {at: 2 s, do: fail, node: edge}]\n"))
    assert "events.0.do: ends what no event has begun before 1 s" in plan.warnings[0]


@pytest.mark.parametrize(
    ("event", "reported"),
    [
        ("do: set-scheduler, scheduler: edf", ""),
        ("do: set-scheduler, scheduler: edff", "events.0.do: there is no scheduler 'edff'"),
        ("do: set-scheduler, scheduler: edf, node: edge", "events.0.do: a scheduler decides for all nodes"),
        ("do: set-scheduler, scheduler: local", "events.0.do: scheduler 'local', but source 'cam-1' has no cpu"),
        ("do: scale, component: film, node: edge, count: 1", "events.0.do: only the scheduler 'mlsysops'"),
        ("do: deploy, component: film", "'do: deploy' needs 'node'"),
        ("do: deploy, component: film, node: edge, for: 5 s", "'do: deploy' has no end"),
    ],
)
def test_events_that_no_adapter_can_carry_out_are_refused_at_their_line(write, event, reported):
    file = write(more=f"events: [{{at: 1 s, {event}}}]\n")
    if not reported:
        assert plan_of(file).events[0].do == "set-scheduler"
        return
    found = problems(file)
    assert reported in "\n".join(map(str, found))
    assert all(one.line for one in found)


def test_a_scheduler_without_hosts_or_tasks_to_decide_about_cannot_come(write):
    event = "events: [{at: 1 s, do: set-scheduler, scheduler: cloud}]\n"
    edges = ("  cloud: {kind: cloud", "  cloud: {kind: edge")
    (found,) = problems(write(edges, more=event))
    assert (found.path, found.message) == ("events.0.do", "scheduler 'cloud' has no cloud node with a cpu")
    idle = ("workloads:\n  film: {from: cam-*, arrivals: every 1 s, input: 1 kB, output: 1 kB, work: 1 Mcycles}\n", "")
    assert "events.0.do: the scenario has no workloads" in "\n".join(map(str, problems(write(idle, more=event))))
    plan = plan_of(write(edges))
    with pytest.raises(ScenarioError, match="scheduler 'cloud' has no cloud node with a cpu"):
        read_event({"do": "set-scheduler", "scheduler": "cloud"}, plan, event_kinds(plan))


@needs("mlsysops")
def test_components_that_are_not_there_cannot_be_placed(write, tmp_path):
    pytest.importorskip("pandas")
    (tmp_path / "p.py").write_text("def initialize():\n    return {}\n")
    policies = ("{scheduler: nearest}", "{scheduler: mlsysops, mlsysops: {policies: [p.py]}}")
    for event, why in (
        ("do: deploy, component: fil, node: edge", "there is no component 'fil': there is film"),
        ("do: deploy, component: film, node: cam-1", "'cam-1' has no cpu, so it holds no component"),
    ):
        said = "\n".join(map(str, problems(write(policies, more=f"events: [{{at: 1 s, {event}}}]\n"))))
        assert f"events.0.do: {why}" in said, said


JAMMED = ("links:", """\
  a: {kind: device, at: [0 m, 0 m], wifi: {}}
  b: {kind: device, at: [9 m, 0 m], wifi: {}}
  j: {kind: device, at: [5 m, 0 m], jammer: {carrier: 5.18 GHz, active: false}}
links:""")  # fmt: skip


@pytest.mark.parametrize(
    ("events", "silent"),
    [
        ("[]", True),
        ("[{at: 11 s, do: jammer-on, node: j}]", True),
        ("[{at: 1200 ms, do: jammer-on, node: j, for: 300 ms}]", True),  # between two steps
        ("[{at: 1200 ms, do: jammer-on, node: j, for: 900 ms}]", False),
        ("[{at: 10 s, do: jammer-on, node: 'kind:device'}]", False),
    ],
)
def test_jammers_that_never_send_are_warned_of(write, events, silent):
    file = write(JAMMED, ("continuum: {", "wifi: {}\n  continuum: {"), ("device}", "device, at: [9 m, 9 m]}"))
    said = plan_of(file, [f"events={events}"]).warnings
    assert any("nodes.j.jammer: is never on" in one for one in said) == silent


@needs("cosco")
@pytest.mark.parametrize(
    ("node", "reported"), [("edge", ""), ("'*'", ""), ("cam-1", "interval has no such node to fail; name one of edge")]
)
def test_failures_that_strike_nothing_are_warned_of(write, node, reported):
    changed = ("continuum: {scheduler: nearest}", "interval: {demand: 100 MHz}")
    file = write(changed, more=f"events: [{{at: 1 s, do: fail, node: {node}, for: 2 s}}]\n")
    warned = " ".join(one for one in plan_of(file).warnings if one.startswith("events"))
    assert (reported in warned) if reported else not warned


@pytest.mark.parametrize(
    ("pauses", "reported"),
    [
        ("{at: 3 s, for: 2 s}, {at: 5 s, for: 1 s}", []),
        ("{at: 5 s, for: 3 s}, {at: 3 s, for: 4 s}", ["pauses.0.at: begins at 5 s, while another pause lasts until 7"]),
        ("{at: 0 s, for: 2 s}", ["pauses.0: ends at 2 s, before the mission begins at 2 s"]),
    ],
)
def test_pauses_within_others_and_before_the_mission_are_warned_of(write, pauses, reported):
    mission = f"{{points: [[60 m, 0 m]], start: 2 s, pauses: [{pauses}]}}"
    rover = ("  cloud:", "  rov: {kind: rover, at: [50 m, 0 m], vehicle: {frame: rover}}\n  cloud:")
    found = plan_of(write(rover, ("continuum: {", f"vehicle: {{missions: {{rov: {mission}}}}}\n  continuum: {{")))
    assert [
        one.split(";")[0].partition("rov.")[2][: len(word)] for one, word in zip(found.warnings, reported, strict=True)
    ] == reported


@needs("edgecloudsim")
def test_what_another_model_makes_of_a_workload_is_not_warned_of(write):
    """The offloading model names its applications and places; the continuum takes everything."""
    studied = """offloading:
    devices: 2
    links: {wlan: 100 Mbit/s, wan: 10 Mbit/s}
    applications: {film: {}}
    places: {edge: {}}
"""
    fleet = ("cam-[1..3]: {kind: device}", "cams: {kind: device, fleet: offloading, capacity: 2}")
    changes = (
        fleet, ("every 1 s", "poisson 1 Hz"), ("[cam-*, edge]", "[cams, edge]"), ("from: cam-*", "from: cams"),
        ("2 x 1 GHz", "2 x 1 GHz, at: [0 m, 0 m], cost: {own: 1 /h, cpu: 2 /h}"),
        ("links:\n", "  side: {kind: edge, at: [1 m, 0 m], cpu: 1 x 1 GHz, cost: {own: 1 /h}}\nlinks:\n"),
    )  # fmt: skip
    other = "  talk: {from: cams, arrivals: poisson 1 Hz, input: 1 kB, output: 1 kB, work: 1 Mcycles}\n"
    alone = plan_of(write(*changes, ("continuum: {scheduler: nearest}", studied.rstrip()), more=other)).warnings
    assert any("workloads.talk: is no application of the model" in one for one in alone)
    assert any("nodes.side: is no place of the model" in one for one in alone)
    (price,) = [one for one in alone if "cost" in one]
    assert "nodes.edge.cost.own: 'offloading' does not book this price, nor that of 1 more" in price
    (twice,) = plan_of(write(*changes, ("continuum: {", f"{studied}  continuum: {{"), more=other)).warnings
    assert twice.startswith("tasks of the same workloads are made by 'offloading' and 'continuum'")


@pytest.mark.parametrize(("durations", "warned"), [("[10 s, 20 s]", False), ("[10 s, 11 s]", True)])
def test_what_some_run_of_a_sweep_needs_is_not_warned_of(write, durations, warned):
    file = write(("every 1 s", "every 1 s, start: 12 s"), more=f"sweep: {{run.duration: {durations}}}\n")
    done = CliRunner().invoke(app, ["check", str(file), "--json"])
    assert any("start: is not before the end" in one for one in json.loads(done.output)["warnings"]) == warned


def test_an_adapter_whose_check_breaks_is_named(write, tmp_path):
    (tmp_path / "broken_check.py").write_text(
        "from cosim.contract.adapter import AdapterKind, Ports\n"
        "def problems(config, context):\n    return [][1]\n"
        "KIND = AdapterKind(name='broken', summary='It breaks.', config='cosim.contract.adapter:AdapterConfig',"
        " factory='broken_check:problems', ports=Ports(), check='broken_check:problems')\n"
    )
    (found,) = problems(write(("continuum: {", "more: {use: 'broken_check:KIND'}\n  continuum: {")))
    assert "adapter 'broken_check:KIND' cannot check its block: IndexError" in found.message
    assert found.path == "adapters.more"


def test_what_a_wrong_workload_leads_to_is_not_told(write):
    found = problems(write(("nearest}", "nearest, leave: [film]}"), ("work: 1", "wrk: 1")))
    assert {one.path for one in found} == {"workloads.film.wrk"}


def test_an_event_has_two_ends_as_a_link_has(write):
    (found,) = problems(write(more="events: [{at: 1 s, do: degrade, link: edge/edge, delay: 1 s}]\n"))
    assert (found.path, found.message) == ("events.0.link", "links 'edge' to itself")


def test_a_battery_may_be_the_text_of_its_capacity(write):
    nodes = plan_of(write(("kind: device}", "kind: device, battery: 5000 mAh x 11.1 V}"))).scene.nodes
    assert nodes[0].battery == Battery(capacity="5000 mAh x 11.1 V")


def test_what_a_broken_key_leads_to_is_not_told(write):
    """Without its block the drone is no vehicle, which is not the author's mistake."""
    file = write(
        ("continuum: {", "vehicle: {missions: {cam-1: [[1 m, 1 m], [9 m, 9 m]]}}\n  continuum: {"),
        ("kind: device}", "kind: device, at: [0 m, 0 m], vehicle: {frame: copter, speed: 4 km/s}}"),
    )
    (found,) = problems(file)
    assert found.path == "nodes.cam-[1..3].vehicle.speed"


def test_devices_without_any_way_are_refused(write):
    (found,) = problems(write(("  - {between: [cam-*, edge], rate: 10 Mbit/s}\n", "")))
    assert found.path == "workloads.film.from"
    assert "'cam-1' and 2 more cannot reach any host" in found.message


def test_everything_is_told_in_one_round(write):
    file = write(
        ("scheduler: nearest", "scheduler: nowhere:f"),
        ("duration: 10 s", "duration: 10.5 s"),
        ("rate: 1 Gbit/s", "rate: 1 Gbits"),
        ("work: 1 Mcycles", "wrk: 1 Mcycles"),
    )
    assert {problem.path for problem in problems(file)} >= {
        "adapters.continuum.scheduler", "run.duration", "links.1.rate", "workloads.film.wrk"
    }  # fmt: skip


def test_values_of_a_sweep_are_checked_where_they_are_written(write):
    more = """\
sweep:
  adapters.continuum.scheduler: [nearest, foo, 'gone:f']
  nodes.edge.cpu: [1 x 1 GHz, 2 x 1 GHy]
  run.seed: 1..1000
"""
    found = problems(write(more=more))
    lines = {(problem.path, problem.line) for problem in found}
    assert lines == {("sweep.adapters.continuum.scheduler", 17), ("sweep.nodes.edge.cpu", 18)}
    assert any("foo" in problem.message for problem in found)
    assert any("gone" in problem.message for problem in found)


def test_seeds_of_a_sweep_are_checked_too(write):
    (found,) = problems(write(more="sweep: {run.seed: [1, two]}\n"))
    assert (found.path, found.line) == ("sweep.run.seed", 16)
    assert "'two'" in found.message


def test_modules_beside_the_scenario_are_found_and_their_mistakes_placed(write, tmp_path):
    policy = tmp_path / "my_check_policy.py"
    policy.write_text("def choose(request, reach, hosts):\n    return 0\n")
    file = write(("scheduler: nearest", "scheduler: my_check_policy:choose"))
    assert plan_of(file).name == "farm"
    broken = tmp_path / "my_broken_policy.py"
    broken.write_text("x = 1\ndef choose(:\n")
    (found,) = problems(write(("scheduler: nearest", "scheduler: my_broken_policy:choose")))
    assert "my_broken_policy.py:2" in found.message


def test_the_next_scenario_has_its_own_modules(write, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "scenario.cosim.yaml").write_text(BASE.replace("nearest", f"shared_name:{name}"))
        (tmp_path / name / "shared_name.py").write_text(f"def {name}(request, reach, hosts):\n    return 0\n")
    assert plan_of(tmp_path / "one").name == plan_of(tmp_path / "two").name == "farm"


def test_events_behind_the_end_and_no_tasks_are_warned_of(write):
    plan = plan_of(write(more="events:\n  - {at: 11 s, do: fail, node: edge}\n"))
    assert plan.warnings == ("events.0.at: is after the end of the run, so it never happens",)
    text = BASE[: BASE.index("workloads:")]
    file = write()
    file.write_text(text)
    assert "no workload makes tasks" in plan_of(file).warnings[0]


def test_force_plans_what_the_machine_cannot_hold(write):
    file = write(("every 1 s", "poisson 1e9 Hz"))
    assert problems(file)
    assert plan_of(file, force=True).ticks == 10


def test_the_estimate_counts_tasks_and_knows_the_machine(write):
    cost = estimate(plan_of(write()))
    assert cost.tasks == 30.0
    assert cost.seconds < 60.0
    assert cost.excess(Machine(memory=1e9, disk=1e9)) == []
    assert [one.path for one in cost.excess(Machine(memory=1e6, disk=1e9))] == ["nodes"]
    assert [one.path for one in cost.excess(Machine(memory=1e9, disk=10.0))] == ["run.duration"]
    held = replace(plan_of(write()), held={"adapters.replay": 5e9})
    assert estimate(held).memory == cost.memory + 5e9
    assert [one.path for one in estimate(held).excess(Machine(memory=1e9, disk=1e9))] == ["adapters.replay"]
    paced = estimate(plan_of(write(("step: 1 s", "step: 1 s, pacing: 2 x"))))
    assert paced.seconds == 5.0


def test_the_estimate_counts_the_tables_of_routes_between_many_hosts(write):
    """A run with 10,000 hosts took 3.07 GB."""
    file = write()
    few, many = (estimate(plan_of(file, [f"nodes.eye-[1..{n}]={{kind: edge, cpu: 1 x 1 GHz}}"])) for n in (1, 2000))
    hop, distance, reach, order = 4, 8, 8, 4  # B
    assert many.memory - few.memory > 2000 * 2000 * (hop + distance + reach + order)
    assert many.memory - few.memory < 1.3 * 2000 * 2000 * (hop + distance + reach + order)


def test_powers_that_no_radio_has_are_refused(write):
    (found,) = problems(write(("cam-[1..3]: {kind: device}", "cam-[1..3]: {kind: device, radio: {power: 30000 dBm}}")))
    assert "at most 100 dBm" in found.message


def test_a_range_of_nodes_can_be_set(write):
    plan = plan_of(write(), ["nodes.eye-[1..2]={kind: edge}", "nodes.cam-[1..3].memory=1 GB"])
    memory = {node.id: node.memory for node in plan.scene.nodes}
    assert memory == {"cam-1": 1e9, "cam-2": 1e9, "cam-3": 1e9, "edge": 0.0, "cloud": 0.0, "eye-1": 0.0, "eye-2": 0.0}
