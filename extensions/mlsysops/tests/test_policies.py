"""Policy files of the MLSysOps framework as the continuum's scheduler."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cosim.adapters.continuum import ADAPTER
from cosim.adapters.continuum.check import problems
from cosim.adapters.continuum.config import ContinuumConfig
from cosim.adapters.continuum.tests.test_continuum_adapter import BACKHAUL, CLOUD, EDGE, UAV, load, run, served
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Scene, SlotRange
from cosim.contract.equipment import OperatingPoint, Scaling
from cosim.contract.laws import Law
from cosim.contract.signals import TASK_STATUS
from cosim.extensions.mlsysops.policies import ClusterAgent
from cosim.scenario.plan.scene import happenings

pytest.importorskip("pandas")

HERE = Path(__file__).parent
POINTS = (OperatingPoint(1e9, 10.0, 20.0), OperatingPoint(2e9, 20.0, 40.0))
SLOWER = replace(EDGE, scaling=Scaling("userspace", points=POINTS))
LOAD = load(SlotRange(2), deadline=float("inf"), work=Law("fixed", 2e9), input=Law("fixed", 1e3))
SCENE = Scene.build((EDGE, CLOUD, UAV), (), (BACKHAUL,), (LOAD,))


def configured(*names, **more):
    return ContinuumConfig(
        scheduler="mlsysops", mlsysops={"policies": [f"policies/policy-{n}.py" for n in names], **more}
    )


def context(scene=SCENE, root=HERE, scratch="."):
    return Context("continuum", scene, 1.0, 40.0, (7, 0, 0), str(root), str(scratch))


def simulated(tmp_path, *names, scene=SCENE, until=16, root=HERE, **more):
    """The tasks of a run as (created, host, status), the adapter's summary, and what the agent was shown."""
    adapter = ADAPTER.build(configured(*names, **more))
    adapter.start(context(scene, root, tmp_path))
    seen, observe = [], adapter._agent.observe

    def watched(time, metrics, up, set_point):
        seen.append((time, metrics, up))
        observe(time, metrics, up, set_point)

    adapter._agent.observe = watched
    tasks, _, _ = run(adapter, scene, until, served)
    return adapter, tasks, adapter.finish()["mlsysops"], seen


def hosts(tasks):
    """(created, host) of completed tasks, and when those that failed were made."""
    good = tasks["status"] == TASK_STATUS.index("completed")
    done = list(zip(tasks["created"][good].tolist(), tasks["host"][good].tolist(), strict=True))
    return done, tasks["created"][~good].tolist()


def test_tasks_go_where_the_plans_put_their_component(tmp_path):
    adapter, tasks, summary, _ = simulated(tmp_path, "follow-load")
    done, failed = hosts(tasks)
    assert max(failed) <= 2.0 < min(created for created, _ in done)  # nothing is deployed before the first plan
    moves = [(0.0, None)]
    for plan in adapter._agent.plans:
        action = plan["plan"]["fluidity"]["deployment_plan"]["detect"][0]
        moves.append((plan["time"], {"edge-1": 0, "cloud": 1}[action.get("host") or action["target_host"]]))
    assert len(moves) > 3
    for created, host in done:
        assert host == [node for at, node in moves if at < created][-1]
    assert summary["applied"] == {"fluidity deploy": 1, "fluidity move": len(moves) - 2}
    assert summary["refused"] == {}
    assert len((tmp_path / "plans.jsonl").read_text().splitlines()) == summary["plans"] == len(moves) - 1


@pytest.mark.parametrize("name", ["follow-load", "wander", "change-image"])
def test_the_same_telemetry_gives_the_same_plans(tmp_path, name):
    first, _, summary, seen = simulated(tmp_path, name)
    again = simulated(tmp_path, name)[0]
    plans = first._agent.plans
    assert plans
    assert plans == again._agent.plans
    alone = ClusterAgent(
        [HERE / "policies" / f"policy-{name}.py"], SCENE, "cluster",
        [placed.document for placed in first._agent._applications.values()], seed=7,
    )  # fmt: skip
    for time, metrics, up in seen:
        alone.observe(time, metrics, up, lambda node, point: None)
    assert alone.plans == plans
    assert alone.summary() == summary


def test_time_and_chance_are_those_of_the_run(tmp_path):
    adapter, _, summary, _ = simulated(tmp_path, "wander")
    assert [plan["time"] for plan in adapter._agent.plans] == [1.0, 5.0, 9.0, 13.0]
    ((_, running),) = adapter._agent._running.items()
    moments, loads = zip(*running.plugin.context["seen"], strict=True)
    assert moments[:2] == ("2000-01-01T00:00:01", "2000-01-01T00:00:05")
    assert [sample["node_name"] for sample in loads[-1]] == ["edge-1", "cloud"]
    assert summary["slept"] == 4.5  # three times; it took no time


def test_what_is_measured_of_components_is_what_their_tasks_say(tmp_path):
    _, tasks, _, seen = simulated(tmp_path, "wander")
    good = tasks["status"] == TASK_STATUS.index("completed")
    last = {}
    for time, metrics, up in seen:
        assert up == {"edge-1": True, "cloud": True}
        recent = (tasks["ended"] > time - 5.0) & (tasks["ended"] <= time)
        if recent.any():
            last["detect_failed"] = np.mean(~good[recent])
        if (recent & good).any():
            last["detect_seconds"] = np.mean((tasks["ended"] - tasks["created"])[recent & good])
            last["detect_late"] = 0.0
        last["detect_rate"] = recent.sum() / min(time, 5.0) if time else 0.0
        if time:
            assert metrics[""] == pytest.approx(last)
        assert metrics["edge-1"]["host_power_watts"] > 19.99  # it idles at 20 W
    assert {"detect_failed", "detect_seconds"} <= last.keys()


def test_clocks_are_set_and_what_cannot_be_done_is_refused_by_name(tmp_path):
    light = replace(LOAD, work=Law("fixed", 2e8))
    scene = Scene.build((SLOWER, CLOUD, UAV), (), (BACKHAUL,), (light,))
    adapter, tasks, summary, _ = simulated(tmp_path, "follow-load", "slow-down", scene=scene)
    assert summary["applied"]["CPUFrequencyConfigurator"] == 2
    text = " ".join(summary["refused"])
    assert "frequency '123 MHz' of 'edge-1', which has 1000 MHz, 2000 MHz" in text
    assert summary["refused"]["mechanism 'vaccel', which is not simulated; there are fluidity, fluidity_proxy, "
                              "CPUFrequencyConfigurator"] == 3  # fmt: skip
    assert adapter._engine.state.hosts["frequency"][0] == 1e9
    mine = (tasks["host"] == 0) & (tasks["created"] > 3.0)
    slow = (tasks["computed"] - tasks["started"])[mine]
    assert len(slow)
    np.testing.assert_allclose(slow, 0.2)  # 2e8 cycles at 1 GHz


def test_parts_of_a_plan_that_make_no_sense_are_refused_one_by_one(tmp_path):
    _, tasks, summary, _ = simulated(tmp_path, "change-image")
    assert summary["placed"] == {"application": {"detect": ["edge-1"]}}
    assert sorted(word.split(" ")[0] for word in summary["refused"]) == ["component", "deploy", "fluidity", "move"]
    assert {host for _, host in hosts(tasks)[0]} == {0}


APP = """\
MLSysOpsApp:
  name: farm
  components:
    - metadata: {name: detect}
      node_placement: {node: NODE}
      qos_metrics: [{application_metric_id: latency, target: 0.5, relation: lower_or_equal}]
"""


def test_applications_come_change_and_go_while_the_run_goes_on(tmp_path):
    for name in ("cloud", "edge-1"):
        (tmp_path / f"{name}.yaml").write_text(APP.replace("NODE", name))
    (tmp_path / "policies").symlink_to(HERE / "policies")
    updates = [{"at": "6 s", "deploy": "edge-1.yaml"}, {"at": "12 s", "remove": "farm"}]
    made = {"applications": ["cloud.yaml"], "updates": updates, "metrics": {"latency": "detect_seconds"}}
    scene = Scene.build((SLOWER, CLOUD, UAV), (), (BACKHAUL,), (LOAD,))
    _, tasks, _, _ = simulated(tmp_path, "slow-down", scene=scene, root=tmp_path, until=20, **made)
    done, failed = hosts(tasks)
    assert {host for created, host in done if created < 6.0} == {1}
    assert {host for created, host in done if created > 6.0} == {0}
    assert max(created for created, _ in done) <= 12.0 < min(failed)


def test_components_are_deployed_removed_and_scaled_by_events(tmp_path):
    (tmp_path / "app.yaml").write_text(APP.replace("NODE", "cloud"))
    (tmp_path / "policies").symlink_to(HERE / "policies")
    scene = Scene.build((SLOWER, CLOUD, UAV), (), (BACKHAUL,), (LOAD,))
    adapter = ADAPTER.build(configured("slow-down", applications=["app.yaml"], metrics={"latency": "detect_seconds"}))
    adapter.start(context(scene, tmp_path, tmp_path))
    both = (SlotRange(0), SlotRange(1))

    def happen(at, do, nodes, **more):
        kind = ADAPTER.event_kinds()[do]
        block = kind.model_validate({"at": f"{at} s", "do": do, "node": "*", "component": "detect", **more})
        return next(happenings(block, lambda _: nodes))

    events = [
        happen(5, "deploy", (SlotRange(0),)),
        happen(10, "remove", (SlotRange(0),)),
        happen(15, "scale", both, count=1),
        happen(20, "scale", both, count=2),
        happen(25, "remove", both),
        happen(26, "deploy", (SlotRange(1),), component="detektor"),
    ]
    tasks, _, _ = run(adapter, scene, 30, served, events)
    done, failed = hosts(tasks)
    where = [{host for at, host in done if low < at < low + 5} for low in range(0, 30, 5)]
    assert where == [{1}, {0, 1}, {1}, {1}, {0, 1}, set()]
    assert min(failed) > 25.0
    refused = adapter.finish()["mlsysops"]["refused"]
    assert refused["component 'detektor', which no application has"] == 1


def found(config, root=HERE, scene=SCENE):
    return {
        problem.path.removeprefix("adapters.continuum."): problem for problem in problems(config, context(scene, root))
    }


def test_what_the_check_says(tmp_path):
    assert found(configured("follow-load")) == {}
    warned = found(configured("slow-down"))["mlsysops.policies.0"]
    assert not warned.fatal
    assert "'vaccel'" in warned.message
    assert "no policy files" in found(ContinuumConfig(scheduler="mlsysops"))["mlsysops"].message
    other = ContinuumConfig(mlsysops={"policies": ["policies/policy-wander.py"]})
    unused = found(other)["mlsysops"]
    assert "another scheduler" in unused.message
    assert not unused.fatal
    left = found(configured("follow-load").model_copy(update={"leave": ["detect"]}), scene=replace(SCENE, real="netns"))
    assert "leave" not in left
    wrong = found(configured("follow-load", metrics={"latency": "detect_second"}))["mlsysops.metrics.latency"]
    assert "detect_seconds" in wrong.hint
    (tmp_path / "app.yaml").write_text(APP.replace("detect", "detectr"))
    (tmp_path / "policies").symlink_to(HERE / "policies")
    said = found(configured("follow-load", applications=["app.yaml"]), root=tmp_path)
    assert said["workloads.detect"].fatal
    assert not said["mlsysops.applications"].fatal
    (tmp_path / "app.yaml").write_text(APP.replace("NODE", "edge"))
    gone = {"applications": ["app.yaml"], "updates": [{"at": "1 s", "remove": "fram"}]}
    said = found(configured("follow-load", **gone), root=tmp_path)
    assert "edge-1" in said["mlsysops.applications.0"].hint
    assert "farm" in said["mlsysops.updates.0.remove"].hint
    assert (
        "cannot be read"
        in found(configured("follow-load", applications=["no.yaml"]))["mlsysops.applications.0"].message
    )


REST = "\ndef analyze(*a): 0\ndef plan(*a): 0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read"),
        ("def initialize(:", r"policy-x.py:1: invalid syntax"),
        ("import mlsysops.agent", "not offered in a simulation"),
        ("import nothing_of_that_name", "No module named 'nothing_of_that_name'"),
        ("x = 1", "no function 'initialize'"),
        ("def initialize(): return []" + REST, "answered list where a dict"),
        ("def initialize(): return {}" + REST, "no configuration.analyze_interval"),
        ("def initialize(): return {}\ndef analyze(context): 0\ndef plan(*a): 0", "does not take what it gets"),
        (
            "def initialize(): return {'configuration': {'analyze_interval': '5'}, 'scope': 'global'}" + REST,
            "expected a number with s, m, h or d",
        ),
        (
            "def initialize(): return {'configuration': {'analyze_interval': '5s'}}" + REST,
            "scope is None",
        ),
    ],
)
def test_files_that_are_no_policies(tmp_path, text, message):
    (tmp_path / "policies").mkdir()
    if text is not None:
        (tmp_path / "policies" / "policy-x.py").write_text(text)
    problem = found(configured("x"), root=tmp_path)["mlsysops.policies.0"]
    assert problem.fatal
    assert message in problem.message


def test_awaiting_the_world_outside_is_refused(tmp_path):
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "policy-x.py").write_text(
        "import asyncio\n"
        "class Answer:\n"
        "    def __await__(self): yield\n"
        "def initialize(): return {'configuration': {'analyze_interval': '1s'}, 'scope': 'application'}\n"
        "async def analyze(context, *rest):\n"
        "    await asyncio.sleep(3)\n"
        "    await Answer()\n"
        "async def plan(*rest): pass\n"
    )
    with pytest.raises(ValueError, match=r"policy-x.py': analyze awaits something outside"):
        simulated(tmp_path, "x", root=tmp_path)


def test_policy_files_that_another_scheduler_leaves_unasked_publish_nothing(tmp_path):
    configuration = configured("slow-down").model_copy(update={"scheduler": "least-loaded"})
    adapter = ADAPTER.build(configuration)
    adapter.start(context(scratch=tmp_path))
    frames = adapter.step(0.0, Inputs(served(0.0), []))
    assert tuple(frame.signal for frame in frames) == ADAPTER.ports(configuration).writes


def test_where_components_are_is_told_node_by_node(tmp_path):
    adapter, _, summary, _ = simulated(tmp_path, "follow-load")
    (places,) = summary["placed"].values()
    frame = adapter._placement(16.0)
    names = [node.id for node in SCENE.nodes]
    assert frame["components"].tolist() == [sum(name in nodes for nodes in places.values()) for name in names]
    assert frame["workloads"].tolist() == [int(name in places["detect"]) for name in names]
    assert frame["components"].sum() == 1


def test_tasks_of_real_nodes_are_placed_as_simulated_ones_are(tmp_path):
    """The host that live nodes are sent to is the agent's own answer, for the same task, network and hosts."""
    from cosim.adapters.live.policy import HostPolicy
    from cosim.contract.frame import Frame
    from cosim.engine.continuum.arrivals import SourceTask
    from cosim.schedulers.models import PerTask

    adapter, *_ = simulated(tmp_path, "follow-load")
    agent, device = adapter._agent, 2
    for nodes in (["edge-1"], ["cloud"], ["edge-1", "cloud"], []):
        agent._applications["application"].nodes["detect"] = list(nodes)
        policy = HostPolicy("mlsysops", 0.0, SCENE)
        columns = {
            "host": np.array([0, 1], np.int32), "serving": np.zeros(2, np.int32), "transfer": np.array([0.01, 0.02]),
            "assigned": np.zeros(2, np.int32), "up": np.ones(2, np.bool_),
        }  # fmt: skip
        reach = Frame("reach", 1.0, np.full(2, device, np.int32), columns)
        policy.heard([reach], [adapter._placement(1.0)])
        asked, own = [], PerTask(agent)
        for chance in (0.1, 0.6, 0.9):
            task = SourceTask(1.0, device, 1e3, 1e3, 2e9, 1e3, choice=chance)
            answer = policy.ask(0, LOAD, task, {}, lambda _: True)
            request = policy._request(1.0, device, 0, 0, 1e3, 1e3, 2e9, 0.0, 0.0, 0, chance, 0, 0.0)
            expected = own(request, columns["transfer"], policy._hosts([0, 1]))
            asked.append((answer, expected))
        assert all(answer == expected for answer, expected in asked)
        assert {SCENE.nodes[answer].id for answer, _ in asked if answer >= 0} == set(nodes)


def test_policies_see_how_tasks_of_real_nodes_end():
    from cosim.contract.frame import Frame
    from cosim.extensions.mlsysops.policies import PolicyMonitor

    none = {name: np.zeros(0) for name in ("ended", "created", "late")}
    engine = {**none, "stage": np.zeros(0, np.int64), "status": np.zeros(0), "workload": np.zeros(0, np.int64)}
    status = np.array([TASK_STATUS.index("completed")] * 2 + [TASK_STATUS.index("completed") + 1], np.int8)
    real = {
        "workload": np.zeros(3, np.int16), "status": status, "created": np.zeros(3),
        "ended": np.array([0.25, 0.75, np.nan]), "late": np.array([False, True, False]),
    }  # fmt: skip
    hosts = Frame("host", 1.0, np.zeros(0, np.int32), {})
    found = PolicyMonitor(SCENE).metrics(1.0, hosts, [engine, real])[""]
    assert found == {
        "detect_rate": 3.0, "detect_failed": pytest.approx(1 / 3), "detect_seconds": 0.5, "detect_late": 0.5
    }  # fmt: skip
