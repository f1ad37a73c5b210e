"""Live nodes on the bus: pacing, missing machines, frames, and ledgers that close."""

from __future__ import annotations

import math
import os
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.adapters.live import ADAPTER
from cosim.adapters.live.arrivals import LiveArrivals
from cosim.adapters.live.books import LiveTaskAccounts
from cosim.adapters.live.config import LiveConfig, OffloadBlock
from cosim.adapters.live.readings import LiveReadings
from cosim.contract.adapter import Context, Inputs, services_in
from cosim.contract.entities import Geo, Node, Scene, SlotRange, Workload
from cosim.contract.errors import RunError, ScenarioError
from cosim.contract.frame import fault
from cosim.contract.laws import Law
from cosim.contract.node_keys import Live
from cosim.contract.presence import Presence
from cosim.contract.signals import MOBILITY, RESOURCES, TASK, TASK_STATUS
from cosim.engine.continuum.arrivals import SourceTask
from cosim.results.ledgers import ledger_faults
from cosim.talk import keys
from cosim.testbed.live import agent
from cosim.testbed.live.lease import Lease, NodeSlot, SlotStanding
from cosim.testbed.live.task_queue import TaskResult
from tests.ports import free_port

UAV = Node("uav", "uav", "device")
PERIOD = 0.2  # s


def live(name="pi", missing="model", wait=15.0, lease=5.0, **fields):
    return Node(
        name,
        "edge",
        "edge",
        cores=4,
        live=Live.si(key=name, lease=lease, interval=0.1, wait=wait),
        missing=missing,
        **fields,
    )


def workload(rate=20.0, **fields):
    given = {
        "name": "detect", "sources": (SlotRange(0),), "arrivals": "every", "rate": rate, "input": Law("fixed", 1000.0),
        "output": Law("fixed", 200.0), "work": Law("fixed", 1e6), "deadline": 1.0, "share": 1.0, "active": 0.0,
        "idle": 0.0, "start": 0.0, "stop": math.inf,
    }  # fmt: skip
    return Workload(**{**given, **fields})


def context(tmp_path, scene, pacing=1.0):
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    services = {name: at for name, at in services_in(os.environ).items() if name in ADAPTER.services}
    return Context("live", scene, PERIOD, 10.0, (1, 2), str(tmp_path), str(scratch), pacing, services)


def adapter(tmp_path, *nodes, workloads=(), pacing=1.0, geo=None, start=True, **config):
    made = ADAPTER.build(LiveConfig.model_validate(config))
    scene = Scene.build((UAV, *nodes), workloads=workloads, geo=geo)
    if start:
        made.start(context(tmp_path, scene, pacing))
        return made
    return made, context(tmp_path, scene, pacing)


def checked(frames):
    found = {frame.signal: frame for frame in frames}
    for signal in (RESOURCES, MOBILITY, TASK):
        assert fault(found[signal.name], signal, 10) == ""
    return found


@pytest.fixture
def agents(tmp_path):
    """Starts agents in threads; they are stopped in the end."""
    server = keys.server_key(tmp_path / "keys")
    started = []

    def start(name, address, **options):
        path = tmp_path / f"{name}.key"
        if not path.exists():
            keys.write(keys.make(name, server.public), tmp_path)
            (tmp_path / f"{name}.pub").rename(tmp_path / "keys" / f"{name}.pub")
        if address is None:  # only the key
            return None
        made = agent.Agent(agent.Options(path, address, concurrency=1, clock=1e9, **options))
        thread = threading.Thread(target=made.run)
        thread.start()
        started.append((made, thread))
        return made

    yield start
    for made, thread in started:
        made.stop("the test is over")
        thread.join(15)


def paced(made, steps, first=0):
    """Steps in real time."""
    begun = time.monotonic() - first * PERIOD
    for k in range(first, first + steps):
        time.sleep(max(0.0, begun + k * PERIOD - time.monotonic()))
        yield checked(made.step(k * PERIOD, Inputs()))


@pytest.mark.clock
def test_machines_report_move_and_run_tasks(tmp_path, agents):
    agents("pi", None)
    made = adapter(
        tmp_path,
        live(),
        workloads=(workload(),),
        geo=Geo(39.0, 22.0, 0.0),
        offload={"detect": {}},
        listen="tcp://127.0.0.1:*",
    )
    try:
        agents("pi", made._gateway.addresses[-1], position="fixed:39.001,22.0,5")
        assert made._gateway.wait_for(["pi"], 15) == []
        steps = list(paced(made, 12))
        resources = steps[-1]["resources"]
        assert resources.slot.tolist() == [1]
        assert resources["present"].tolist() == [True]
        assert resources["memory"][0] > 1e6
        assert abs(resources["clock_offset"][0]) < 0.1
        assert 0 <= resources["round_trip"][0] < 1
        assert steps[-1]["mobility"]["y"][0] == pytest.approx(111.0, abs=0.1)
        rows = [(frame, k) for step in steps for frame in [step["task"]] for k in range(len(frame))]
        assert len(rows) >= 20
        for frame, k in rows:
            times = [frame[name][k] for name in ("created", "uploaded", "started", "computed", "ended")]
            assert times == sorted(times)
            assert frame["ended"][k] <= frame.time + 0.05  # the machine's clock is known within half a round trip
            assert (frame["host"][k], frame.slot[k], frame["output"][k]) == (1, 0, 200.0)
            assert TASK_STATUS[frame["status"][k]] == "completed"
        assert sorted(frame["task"][k] for frame, k in rows) == list(range(len(rows)))
        summary = made.finish()
        assert ledger_faults(summary) == []
        assert summary["tasks"]["created"] + summary["skipped"] == pytest.approx(44, abs=4)  # 20 a second up to 2.2 s
        assert summary["nodes"]["pi"]["present"] == 1.0
    finally:
        made.close()
        made.close()


def test_a_task_that_is_due_before_the_end_counts_though_the_gateway_had_no_turn(tmp_path, agents):
    agents("pi", None)
    made = adapter(tmp_path, live(), workloads=(workload(),), offload={"detect": {}})
    arrivals = LiveArrivals(made._arrivals[0][2]._seed, workload(), 0, OffloadBlock())
    arrivals.appear(0)
    try:
        agents("pi", made._gateway.addresses[-1])
        assert made._gateway.wait_for(["pi"], 15) == []
        with made._gateway.lock:  # its thread waits
            made.step(10.0 - PERIOD, Inputs())
            time.sleep(PERIOD)
            made.step(10.0, Inputs())
            summary = made.finish()
    finally:
        made.close()
    assert summary["tasks"]["created"] == 4  # in the last period, 20 a second
    assert summary["tasks"]["created"] + summary["skipped"] == len(list(arrivals.until(10.0)))


@pytest.mark.clock
def test_two_machines_share_the_tasks(tmp_path, agents):
    for name in ("a", "b"):
        agents(name, None)
    made = adapter(tmp_path, live("a"), live("b"), workloads=(workload(40.0),), offload={"detect": {}})
    try:
        for name in ("a", "b"):
            agents(name, made._gateway.addresses[-1])
        assert made._gateway.wait_for(["a", "b"], 15) == []
        hosts = [host for step in paced(made, 8) for host in step["task"]["host"].tolist()]
        assert set(hosts) == {1, 2}
    finally:
        made.close()


@pytest.mark.parametrize("missing", ["fail", "wait"])
def test_a_run_that_is_not_in_real_time_needs_nobody_or_is_refused(tmp_path, missing):
    with pytest.raises(ScenarioError, match=r"live nodes \(pi\) need a run in real time"):
        adapter(tmp_path, live(missing=missing), live("other"), pacing=0.0)
    made = adapter(tmp_path, live(), pacing=10.0)
    frame = checked(made.step(0.0, Inputs()))["resources"]
    assert len(frame) == 0  # nothing is measured
    assert made.finish()["listened"] is False
    made.close()


@pytest.mark.parametrize("missing", ["fail", "wait"])
def test_who_does_not_come_is_named(tmp_path, missing):
    made, about = adapter(tmp_path, live(missing=missing, wait=0.2), start=False)
    with pytest.raises(
        RunError, match=r"within 0\.2 s; 'nodes\.pi\.live\.wait' allows more; start one with  cosim attach --key pi"
    ):
        made.start(about)
    made.close()


@pytest.mark.parametrize(
    ("missing", "said"),
    [("fail", "the machine of node 'pi' has left the run: gone"), ("wait", r"6 s; 'nodes\.pi\.live\.wait' allows")],
)
def test_a_machine_that_leaves_ends_the_run_or_holds_it_up(tmp_path, agents, missing, said):
    agents("pi", None)
    address = f"tcp://127.0.0.1:{free_port()}"
    attached = agents("pi", address)  # seeks the gateway before there is one
    made = adapter(tmp_path, live(missing=missing, wait=15.0), listen=address)
    try:
        made.step(0.0, Inputs())
        attached.stop("gone")
        made._nodes = {1: live(missing=missing, wait=0.6)}
        end = time.monotonic() + 60
        while not made._gateway.absent(["pi"]):
            assert time.monotonic() < end
            time.sleep(0.02)
        with pytest.raises(RunError, match=said):
            made.step(PERIOD, Inputs())
    finally:
        made.close()


@pytest.mark.parametrize(
    ("load", "said"),
    [
        ({"name": "other"}, "there is no workload 'detect'"),
        ({"arrivals": "bag"}, "arrivals by 'bag'"),
        ({"memory": 1.0}, "'memory' of its own"),
        ({"rate": 2000.0}, "2000 tasks/s are more than the 1000"),
        ({"input": Law("uniform", 1.0, 1e9)}, "its input of 1e\\+09 B is more"),
    ],
)
def test_what_cannot_be_sent_is_refused_at_once(tmp_path, load, said):
    with pytest.raises(ScenarioError, match=said):
        adapter(tmp_path, live(), workloads=(workload(**load),), offload={"detect": {}})


def test_leases_have_limits(tmp_path):
    with pytest.raises(ScenarioError, match=r"nodes\.pi\.live\.lease: 0\.01 s is not between"):
        adapter(tmp_path, live(lease=0.01))


def test_arrivals_follow_the_laws_and_repeat():
    load = workload(
        2.5, arrivals="poisson", sources=(SlotRange(0), SlotRange(3, 2)), start=10.0, stop=400.0,
        input=Law("exponential", 1e4), output=Law("uniform", 10.0, 20.0),
    )  # fmt: skip
    lists = []
    for cuts in ([500.0], [20.0, 30.5, 100.0, 500.0]):
        arrivals = LiveArrivals(7, load, 0, OffloadBlock.model_validate({"share": "40 %"}))
        for slot in arrivals.slots:
            arrivals.appear(slot)
        lists.append([arrival for cut in cuts for arrival in arrivals.until(cut)])
    assert lists[0] == lists[1]
    assert len(lists[0]) == pytest.approx(3 * 390, rel=0.1)
    assert all(10.0 <= a.at <= 400.0 and a.device in (0, 3, 4) and 10 <= a.output <= 20 for a in lists[0])
    assert np.mean([a.input for a in lists[0]]) == pytest.approx(1e4, rel=0.1)


endings = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(["done", "refused", "failed", "timeout", "lost", "open", "twice"]))
)


@settings(max_examples=60, deadline=None)
@given(endings)
def test_the_books_close_whatever_happens(ends):
    books = LiveTaskAccounts((workload(), workload(name="other", deadline=0.001)))
    for number, status in ends:
        made = books.make(number, SourceTask(1.0, 0, 100, 10, 1e6, 100), 1.0)
        if status == "refused":
            books.refuse(made, 1.0)
        elif status != "open":
            word = "done" if status == "twice" else status
            result = TaskResult(made.serial, 1, word, 1.0, 1.0, 1.1, 1.2, 1.3, 1.4, 10, "")
            books.end(result)
            if status == "twice":
                books.end(result)
        assert ledger_faults(books.summary()) == []
    summary = books.summary()
    assert summary["tasks"]["created"] == len(ends)
    assert summary["tasks"]["in_flight"] == sum(status == "open" for _, status in ends)
    frame = books.frame(5.0)
    assert fault(frame, TASK, 10) == ""
    assert len(frame) == len(ends) - summary["tasks"]["in_flight"]
    assert len(books.frame(6.0)) == 0
    assert books.summary()["tasks"]["ages"] == [5.0] * summary["tasks"]["in_flight"]


def reported(moment, **values):
    """A report of a machine."""
    fields = {
        "cpu": 0.5, "memory": None, "received": 0.0, "sent": 1.0, "temperature": None, "power": 3.0, "meter": "ina",
        "cpu_wait": None, "memory_wait": None, "io_wait": None, "position": None, "running": 0, "waiting": 0,
    }  # fmt: skip
    return {"reported": moment, "report": {**fields, **values}}


def test_seconds_in_which_programs_waited_for_their_machine_are_listed():
    scene = Scene.build((live("pi"),))
    readings = LiveReadings(scene, {0: scene.nodes[0]}, Presence(scene))
    slot = NodeSlot(0, "pi", "pi", 5.0, 1.0, True, False)
    for moment, waited in ((1.0, 0.001), (2.0, 0.5), (2.2, 0.5), (3.0, 0.021)):
        readings.frames(
            moment, [SlotStanding(slot, **reported(min(moment, round(moment)), cpu_wait=waited, io_wait=0.1))]
        )
    account = readings.account("pi")
    assert (account["reports"], account["starved"]) == (3, {"cpu": {"reports": 2, "at": [2.0, 3.0]}})


def test_where_a_vehicle_is_its_autopilot_alone_says():
    plain, drone = live("pi"), replace(live("uav"), keys=(("vehicle", '{"frame":"copter"}'),))
    scene = Scene.build((plain, drone), geo=Geo(39.0, 22.0, 0.0))
    readings = LiveReadings(scene, {0: plain, 1: drone}, Presence(scene))
    standings = [
        SlotStanding(NodeSlot(k, node.id, node.id, 5.0, 1.0, True, False), **reported(1.0, position=[39.0, 22.0, 0.0]))
        for k, node in enumerate(scene.nodes)
    ]
    resources, mobility = readings.frames(1.0, standings)
    assert mobility.slot.tolist() == [0]
    assert resources["cpu"].tolist() == [0.5, 0.5]


def test_counters_go_on_and_speeds_come_from_the_way():
    node = live()
    scene = Scene.build((UAV, node), geo=Geo(39.0, 22.0, 0.0))
    readings = LiveReadings(scene, {1: node}, Presence(scene))
    standing = SlotStanding(NodeSlot(1, "pi", "pi", 5.0, 1.0, True, False))

    def at(moment, received, latitude):
        standing.lease = Lease(0, b"p", b"s", b"i", {}, 0.0, 9.0)
        for name, value in reported(moment, received=received, position=[latitude, 22.0, 0.0]).items():
            setattr(standing, name, value)
        return readings.frames(moment, [standing])

    at(1.0, 100.0, 39.0)
    resources, mobility = at(3.0, 150.0, 39.001)
    assert resources["received"][0] == 150.0
    assert mobility["speed"][0] == pytest.approx(55.5, abs=0.1)
    assert np.cos(np.radians(mobility["heading"][0])) == pytest.approx(1.0)  # north
    resources, _ = at(4.0, 20.0, 39.001)  # it has started anew
    assert resources["received"][0] == 170.0
    standing.lease = standing.report = None
    resources, mobility = readings.frames(5.0, [standing])
    assert (resources["received"][0], resources["present"][0], len(mobility)) == (170.0, False, 0)
    assert math.isnan(resources["cpu"][0])
