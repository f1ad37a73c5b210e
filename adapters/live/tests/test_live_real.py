"""Live nodes that the run itself starts: simulated in a process, awaited where nodes are real, tasks by both ways."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import uvicorn
from pydantic import ValidationError

from cosim.adapters.live import ADAPTER
from cosim.adapters.live.check import unsendable
from cosim.adapters.live.choice import PORT, NodeChoice
from cosim.adapters.live.config import LiveConfig, OffloadBlock
from cosim.adapters.live.tests.test_live_adapter import checked, context, live, workload
from cosim.contract.adapter import Inputs
from cosim.contract.entities import Node, Scene, SlotRange
from cosim.contract.errors import RunError, ScenarioError, SetupError
from cosim.contract.frame import Frame
from cosim.contract.laws import Law
from cosim.contract.node_keys import Cell, Software, Wifi
from cosim.contract.signals import TASK_STATUS
from cosim.results.ledgers import ledger_faults
from cosim.schedulers.state import KEEP, decides
from cosim.talk import keys
from cosim.testbed.inference.kernels import Kernel
from cosim.testbed.inference.service import application
from cosim.testbed.inference.station import Station
from cosim.testbed.launch.keys import PRIVATE, name_of, provide
from cosim.testbed.live import agent
from cosim.testbed.live.lease import Lease, NodeSlot
from cosim.testbed.live.roster import Roster
from cosim.testbed.live.task_queue import QueuedTask
from tests.extensions import needs

WIFI = Wifi()
RUNS = Software(image="vedgenode")
MOST_STEPS = 150
CALLS = {"run": "forward", "kernel": "slow", "path": "network"}


def real(name, tier="edge", missing="wait", wait=15.0, **fields):
    node = live(name, missing, wait, wifi=WIFI, runs=RUNS)
    return replace(node, tier=tier, kind="uav" if tier == "device" else "edge", **fields)


def scene(*nodes, where="netns", workloads=()):
    return replace(Scene.build(nodes, workloads=workloads), real=where)


def start(tmp_path, found, pacing=1.0, **config):
    made = ADAPTER.build(LiveConfig.model_validate(config))
    try:
        made.start(context(tmp_path, found, pacing))
    except BaseException:
        made.close()
        raise
    return made


@pytest.fixture
def gateway(tmp_path, monkeypatch):
    """Address and keys as a launcher gives them; starts agents."""
    nodes = {name: tmp_path / name for name in ("uav", "edge")}
    provide(tmp_path / "gateway", nodes)
    address = f"ipc://{tmp_path}/g"
    monkeypatch.setenv("COSIM_GATEWAY", address)
    monkeypatch.setenv("COSIM_KEYS", str(tmp_path / "gateway"))
    started = []

    def begin(name, key=None, server=address, **options):
        key = key or nodes[name] / PRIVATE
        made = agent.Agent(agent.Options(key, server, name, concurrency=2, clock=1e9, **options))
        thread = threading.Thread(target=made.run)
        thread.start()
        started.append((made, thread))

    yield begin
    for made, thread in started:
        made.stop("the test is over")
        thread.join(15)


@pytest.fixture
def service():
    """Port of an inference service with one worker, on all of loopback."""
    station = Station(
        {"slow": Kernel("slow", "takes size ms", 20, lambda _data, size: time.sleep(size / 1e3) or 1)}, 1, 50
    )
    server = uvicorn.Server(uvicorn.Config(application(station, "edge"), port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(10)


@pytest.mark.parametrize("pacing", [0.0, 1.0])
@pytest.mark.parametrize("missing", ["wait", "fail", "model"])
def test_in_a_process_nobody_is_awaited(tmp_path, pacing, missing):
    made = start(tmp_path, scene(real("edge", missing=missing), where=""), pacing)
    assert made._gateway is None
    assert checked(made.step(0.0, Inputs()))["resources"]["present"].tolist() == []
    assert made.finish()["listened"] is False
    made.close()


def test_where_nodes_are_real_they_are_awaited(tmp_path, gateway):
    del gateway
    with pytest.raises(RunError, match=r"'edge' within 0\.2 s; 'nodes\.edge\.live\.wait' allows"):
        start(tmp_path, scene(real("edge", wait=0.2)))


@pytest.mark.parametrize("missing", ["wait", "fail"])
def test_an_evicted_machine_is_not_awaited(tmp_path, gateway, missing):
    gateway("edge")
    made = start(tmp_path, scene(real("edge", missing=missing)))
    try:
        with made._gateway.lock:
            made._gateway.roster.evict("edge", time.monotonic())
        with pytest.raises(RunError, match=r"'edge' was evicted; 'missing: model' lets"):
            made.step(0.5, Inputs())
    finally:
        made.close()


def test_a_launcher_must_have_said_where(tmp_path, monkeypatch):
    monkeypatch.delenv("COSIM_GATEWAY", raising=False)
    with pytest.raises(SetupError, match="COSIM_GATEWAY"):
        start(tmp_path, scene(real("edge")))


def test_machines_from_elsewhere_come_besides_by_a_door_of_their_own(tmp_path, gateway, monkeypatch):
    server = keys.server_key(tmp_path / "keys")
    private = {}
    for name in ("pi", name_of("edge")):  # the latter is called like the key of a node that the run starts
        private[name], public = keys.write(keys.make(name, server.public), tmp_path / name)
        public.rename(tmp_path / "keys" / public.name)
    outside = f"ipc://{tmp_path}/outside"
    monkeypatch.setenv("COSIM_OUTSIDE", outside)
    false = agent.Agent(agent.Options(private[name_of("edge")], outside, "edge"))
    threads = [threading.Thread(target=false.run)]
    gateway("pi", key=private["pi"], server=outside)
    threads[0].start()
    found = scene(real("edge", wait=1.5), live("pi", missing="wait"))
    try:
        with pytest.raises(RunError, match=r"'edge' within 1\.5 s; 'nodes\.edge\.live\.wait' allows"):
            start(tmp_path, found)  # the machine at the outer door is not the node that the run starts
    finally:
        false.stop("the test is over")
        threads[0].join(15)
    gateway("edge")
    made = start(tmp_path, found)
    try:
        assert made._gateway.absent(["edge", "pi"]) == []
        assert checked(made.step(0.0, Inputs()))["resources"]["present"].tolist() == [True, True]
    finally:
        made.close()


def test_without_keys_a_machine_that_need_not_come_is_simulated(tmp_path, gateway):
    gateway("edge")
    made = start(tmp_path, scene(real("edge"), live("pi", missing="model")))
    try:
        assert len(made._gateway.addresses) == 1
        assert not (tmp_path / "keys").exists()
    finally:
        made.close()


@pytest.mark.clock
def test_the_service_of_a_node_does_the_work(tmp_path, gateway, service):
    gateway("edge", forward=f"http://127.0.0.1:{service}/run")
    device = Node("uav", "uav", "device")
    load = workload(20.0, sources=(SlotRange(1),), output=Law("fixed", 400.0))
    made = start(
        tmp_path, scene(real("edge"), device, workloads=(load,)),
        offload={"detect": {"run": "forward", "kernel": "slow", "size": 30}},
    )  # fmt: skip
    try:
        tasks = steps(made, 10)
        assert {(row["host"], row["status"], row["output"]) for row in tasks} == {(0, "completed", 400.0)}
        assert all(row["computed"] - row["started"] >= 0.03 for row in tasks)
        assert ledger_faults(made.finish()) == []
    finally:
        made.close()


@pytest.mark.clock
def test_a_device_calls_the_host_and_the_host_times_it(tmp_path, gateway, service, monkeypatch):
    """Both ends of the call are on loopback here, in place of the emulated network."""
    monkeypatch.setattr("cosim.adapters.live.choice.PORT", service)
    monkeypatch.setattr(
        "cosim.adapters.live.choice.programs", lambda scene: [_Program(node.id) for node in scene.nodes]
    )
    gateway("edge", forward=f"http://127.0.0.1:{service}/run")
    gateway("uav", calls=("127.0.0.0/8",))
    load = workload(20.0, sources=(SlotRange(1),), output=Law("fixed", 400.0), deadline=0.02)
    made = start(
        tmp_path, scene(real("edge"), real("uav", "device"), workloads=(load,)),
        offload={"detect": {**CALLS, "size": 150}},
    )  # fmt: skip
    try:
        tasks = steps(made, 10)
        for row in tasks:
            times = [row[name] for name in ("created", "uploaded", "started", "computed", "ended")]
            assert times == sorted(times)
            assert times[3] - times[2] >= 0.15
            assert (row["host"], row["status"], row["output"], row["late"]) == (0, "completed", 400.0, True)
        assert any(row["started"] - row["uploaded"] > 0.1 for row in tasks)  # two at once, and one worker
        summary = made.finish()
        assert ledger_faults(summary) == []
        assert summary["tasks"]["completed"] >= 10
    finally:
        made.close()


@decides("interval")
class Later:
    """Places what waits at the last host, half a second after it was made."""

    of_waiting = True

    def __call__(self, state):
        old = (state.tasks["host"] == KEEP) & (state.tasks["age"] >= 0.5)
        return np.where(old & np.isfinite(state.reach[:, -1]), len(state.hosts) - 1, KEEP)


@pytest.mark.clock
def test_tasks_wait_for_the_round_of_a_scheduler_that_decides_about_all_of_them(tmp_path, gateway):
    gateway("edge")
    nodes = replace(real("edge"), cores=2, clock=1e9), Node("uav", "uav", "device")
    found = scene(*nodes, workloads=(workload(5.0, sources=(SlotRange(1),), deadline=0.4),))
    given = replace(context(tmp_path, found), offered=reported("cosim.adapters.live.tests.test_live_real:Later"))
    made = ADAPTER.build(LiveConfig.model_validate({"offload": {"detect": {}}}))
    none = np.zeros(1, np.int32)
    columns = {"host": none, "serving": none, "transfer": np.zeros(1), "assigned": none, "up": np.ones(1, bool)}
    reach = {"reach": [Frame("reach", 0.0, np.array([1], np.int32), columns)]}
    try:
        made.start(given)
        tasks = steps(made, 8, reach)
        assert {(row["host"], row["status"], row["late"]) for row in tasks} == {(0, "completed", True)}
        for row in tasks:
            assert 0.4 < row["uploaded"] - row["created"] < 2.0, row  # 0.5 s, by two clocks
        apart = np.diff(sorted(row["created"] for row in tasks)) / 0.2
        np.testing.assert_allclose(apart, np.round(apart), atol=1e-6)  # when they were due
        summary = made.finish()
        assert summary["made_late_max"] < 0.4
        assert ledger_faults(summary) == []
    finally:
        made.close()


class _Program:
    """Software of a node whose only interface is loopback."""

    def __init__(self, node):
        self.node = node

    def reached(self, _other):
        return "127.0.0.1"


def steps(made, enough, heard=None):
    """The tasks that ended in steps in real time, until there are enough of them."""
    found = []
    begun = time.monotonic()
    for k in range(MOST_STEPS):
        time.sleep(max(0.0, begun + 0.2 * k - time.monotonic()))
        frame = checked(made.step(0.2 * k, Inputs(heard or {})))["task"]
        for i in range(len(frame)):
            row = {column: frame[column][i] for column in frame.columns}
            found.append({**row, "status": TASK_STATUS[row["status"]]})
        if len(found) >= enough:
            return found
    raise AssertionError(f"only {len(found)} of {enough} tasks have ended")


def test_a_call_goes_to_the_host_with_the_fewest_tasks_on_a_common_medium():
    found = scene(
        real("uav", "device"), real("busy"), real("free"),
        replace(real("wired"), wifi=None, radio=None, cell=Cell.si(power=40.0)), real("away"),
    )  # fmt: skip
    choice = NodeChoice(found)
    roster = Roster([NodeSlot(k, n.id, n.id, 9.0, 1.0, True, False) for k, n in enumerate(found.nodes)], random=bytes)
    for standing in roster.standings:
        if standing.slot.node != "away":
            works = ["call"] if standing.slot.node == "uav" else ["forward"]
            facts = {"works": works, "window": 4, "cores": 2}
            standing.lease = Lease(standing.slot.number, b"", b"", b"", facts, 0.0, 9.0)
    assert roster.offer("busy", QueuedTask(1, dict, 0.0, 1.0))
    block = OffloadBlock.model_validate(CALLS)
    assert choice.called(roster, "uav") == ("free", f"10.171.0.3:{PORT}")
    for _ in range(2):
        choice.sent("free")
    assert choice.called(roster, "uav") == ("busy", f"10.171.0.2:{PORT}")
    choice.ended("free")
    choice.ended("free")
    assert choice.called(roster, "uav")[0] == "free"
    assert choice.called(roster, "busy") == ("", "")
    assert choice.direct(roster, block) in ("free", "wired")


def test_tasks_of_a_real_run_are_made_again_where_nodes_are_simulated(tmp_path):
    load = replace(workload(1.0, sources=(SlotRange(0, 1),)), arrivals="trace", trace="tasks.csv")
    nodes = real("uav", "device"), real("edge")
    start(tmp_path, scene(*nodes, where="", workloads=(load,)), offload={"detect": {}}).close()
    with pytest.raises(ScenarioError, match="arrivals by 'trace'"):
        start(tmp_path, scene(*nodes, workloads=(load,)), offload={"detect": {}})


def test_only_real_devices_can_send_over_the_network():
    load = workload(1.0, sources=(SlotRange(0, 2),))
    blocks = {"detect": OffloadBlock.model_validate(CALLS)}
    found = unsendable(scene(real("uav", "device"), Node("ghost", "uav", "device"), workloads=(load,)), blocks, "live")
    assert "ghost" in found[0].message
    assert "vuav" in found[0].hint
    drone = replace(real("two", "device"), runs=Software(image="vuav"))
    assert unsendable(scene(real("uav", "device"), drone, workloads=(load,)), blocks, "live") == []


@pytest.mark.parametrize(
    "block",
    [
        {"run": "busy", "kernel": "blur"}, {"run": "matrix", "path": "network"}, {"run": "forward", "path": "network"},
        {"run": "forward", "kernel": "../x"}, {"run": "busy", "pace": "node"},
    ],
)  # fmt: skip
def test_blocks_that_mean_nothing_are_refused(block):
    with pytest.raises(ValidationError):
        OffloadBlock.model_validate(block)


def reported(name):
    return {"continuum": {"scheduler": name, "threshold": 2.0, "leave": ["detect"]}}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("ga", "'ga' decides per interval", marks=needs("metanet")),
        ("local", "'local' has uav compute"),
        ("cloud", None),
        ("edf", None),
    ],
)
def test_a_scheduler_that_real_tasks_cannot_have_is_refused(tmp_path, name, words):
    drone = replace(real("uav", "device"), runs=Software(image="vuav"))
    load = workload(1.0, sources=(SlotRange(1),))
    given = replace(context(tmp_path, scene(real("edge"), drone, workloads=(load,))), offered=reported(name))
    config = LiveConfig.model_validate({"offload": {"detect": CALLS}})
    found = [problem for problem in ADAPTER.problems(config, given) if problem.fatal]
    assert [words in problem.message for problem in found if words] == [True] * bool(words) == [True] * len(found)
    assert ADAPTER.problems(config, replace(given, scene=replace(given.scene, real=""))) == []


def test_hosts_that_no_real_task_goes_to_are_named(tmp_path):
    load = workload(1.0, sources=(SlotRange(1),))
    ghost = Node("ghost", "edge", "edge", cores=2, clock=1e9)
    found = scene(real("edge", cores=1, clock=1e9), real("uav", "device"), ghost, workloads=(load,))
    given = replace(context(tmp_path, found), offered=reported("nearest"))
    config = LiveConfig.model_validate({"offload": {"detect": CALLS}})
    (said,) = ADAPTER.problems(config, given)
    assert (said.message.split(":")[0], said.fatal) == ("no real task goes to ghost", False)
