"""Runs without a radio adapter: the access network of the continuum's own."""

from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from cosim.adapters.continuum.config import ContinuumConfig
from cosim.adapters.continuum.tests.test_continuum_adapter import BACKHAUL, CLOUD, EDGE, UAV, begin, link, load, run
from cosim.contract.adapter import Inputs
from cosim.contract.entities import Event, Fleet, Link, Scene, SlotRange
from cosim.contract.errors import ScenarioError
from cosim.contract.frame import Frame, SlotTable
from cosim.contract.laws import Law
from cosim.contract.link import LinkState
from cosim.contract.signals import TASK_STATUS
from cosim.engine.continuum.throughput import WAN_KBPS, WLAN_KBPS

NEAR = replace(EDGE, position=(0.0, 0.0, 0.0))
FAR = replace(EDGE, id="edge-2", position=(1000.0, 0.0, 0.0))
DRONE = replace(UAV, position=(50.0, 0.0, 0.0))
ONCE = {"arrivals": "every", "rate": 1.0, "stop": 1.5, "work": Law("fixed", 1.0), "output": Law("fixed", 0.0)}


def world(*nodes, size=1e6, links=(), **options):
    nodes = nodes or (NEAR, DRONE)
    devices = [slot for slot, node in enumerate(nodes) if node.tier == "device"]
    settings = ONCE | {"input": Law("fixed", size)} | options
    return Scene.build(nodes, (), links, (load(*(SlotRange(slot) for slot in devices), **settings),))


def upload(tasks):
    return tasks["uploaded"] - tasks["created"]


def test_a_transfer_alone_on_a_wlan():
    scene = world(rate=0.4, stop=3.0)
    tasks, _, _ = run(begin(scene, network={"model": "empirical-wlan", "delay": "5 ms"}), scene, 10)
    np.testing.assert_allclose(upload(tasks), 8e6 / (3e3 * WLAN_KBPS[0]) + 0.005)
    tasks, _, _ = run(begin(scene, network={"model": "empirical-wlan", "gain": 1.0}), scene, 10)
    np.testing.assert_allclose(upload(tasks), 8e6 / (1e3 * WLAN_KBPS[0]))


def test_many_transfers_on_a_wlan_get_what_was_measured_for_as_many():
    drones = [replace(DRONE, id=f"uav-{n}") for n in range(20)]
    scene = world(NEAR, *drones, size=1e9, rate=1 / 1.5)
    adapter = begin(scene, network={"model": "empirical-wlan"})
    _, _, first = run(adapter, scene, 5)
    before = first["sent"].sum()
    assert first["uploads"].sum() == 20
    tasks, _, after = run_on(adapter, 6, 10)
    rate = (after["sent"].sum() - before) * 8 / 5
    assert rate == pytest.approx(20 * 3e3 * WLAN_KBPS[19])
    assert len(tasks["task"]) == 0


def run_on(adapter, first, last):
    """Step on at whole seconds; the last task and traffic frames."""
    out = [adapter.step(float(time), Inputs({}, ())) for time in range(first, last + 1)][-1]
    return out[0], out[1], out[2]


def test_a_cell_shares_its_rate_among_active_devices():
    drones = [replace(DRONE, id=f"uav-{n}") for n in range(4)]
    scene = world(NEAR, *drones, size=1e9, rate=0.8)
    adapter = begin(scene, network={"model": "cellular", "rate": "40 Mbit/s", "delay": "20 ms"})
    _, _, first = run(adapter, scene, 5)
    _, _, after = run_on(adapter, 6, 10)
    np.testing.assert_allclose((after["sent"] - first["sent"]) * 8 / 5, 10e6)


def test_a_queue_answers_as_mm1_does():
    drones = [replace(DRONE, id=f"uav-{n}") for n in range(60)]
    size, rate = 100e3, 10e6
    scene = world(NEAR, *drones, size=size, arrivals="poisson", rate=0.125, stop=float("inf"))
    adapter = begin(scene, network={"model": "mm1", "rate": "10 Mbit/s", "window": "100 s"})
    tasks, _, _ = run(adapter, scene, 900)
    mu, lam = rate / (8 * size), 60 * 0.125
    late = tasks["created"] > 300.0
    # the input travels up, nothing comes back: two half waits
    assert (tasks["ended"] - tasks["created"])[late].mean() == pytest.approx(1 / (mu - lam), rel=0.1)


def test_path_loss_slows_down_and_ends():
    places = (20.0, 200.0, 20_000.0)
    drones = [replace(DRONE, id=f"uav-{n}", position=(x, 0.0, 0.0)) for n, x in enumerate(places)]
    scene = world(NEAR, *drones, rate=0.8)
    adapter = begin(scene, network={"model": "close-in", "exponent": 3.5}, patience="1 s")
    tasks, _, _ = run(adapter, scene, 60)
    status = {int(d): TASK_STATUS[s] for d, s in zip(tasks["device"], tasks["status"], strict=True)}
    assert status == {1: "completed", 2: "completed", 3: "no-coverage"}
    time = dict(zip(tasks["device"].tolist(), upload(tasks).tolist(), strict=True))
    assert time[1] < time[2]


@pytest.mark.parametrize("attach", ["nearest", "strongest"])
def test_a_moving_member_changes_its_access_point(attach):
    fleet = Fleet("drones", "replay", 0, 1, DRONE)
    scene = Scene.build(
        (NEAR, FAR), (fleet,), (), (load(SlotRange(2), rate=2.0, work=Law("fixed", 1e6), input=Law("fixed", 1e3)),)
    )
    adapter = begin(scene, network={"model": "close-in", "attach": attach}, scheduler="nearest")

    def frames(time):
        columns = dict.fromkeys(("y", "z", "speed", "heading"), np.zeros(1)) | {"x": np.array([50.0 * time])}
        return {
            "mobility": [
                Frame(
                    "mobility", time, np.array([2], np.int32), columns, SlotTable(2, ("d",), np.zeros(1, np.int32), 0)
                )
            ]
        }

    tasks, _, _ = run(adapter, scene, 20, frames)
    assert set(tasks["host"][tasks["created"] < 9.0]) == {0}
    assert set(tasks["host"][tasks["created"] > 11.0]) == {1}


@pytest.mark.parametrize("attach", ["nearest", "strongest"])
def test_while_an_access_point_has_failed_the_next_one_serves(attach):
    scene = world(NEAR, FAR, DRONE, size=1e3, rate=2.0, stop=30.0)
    adapter = begin(scene, network={"model": "close-in", "attach": attach}, scheduler="nearest")
    events = [Event(9.5, "fail", (SlotRange(0),)), Event(19.5, "recover", (SlotRange(0),))]
    tasks, _, _ = run(adapter, scene, 30, events=events)
    meanwhile = (tasks["created"] > 10.0) & (tasks["created"] < 19.0)
    assert meanwhile.sum() >= 17
    assert set(tasks["host"][meanwhile]) == {1}
    assert {TASK_STATUS[code] for code in tasks["status"][meanwhile]} == {"completed"}
    assert set(tasks["host"][tasks["created"] > 20.0]) == {0}


def test_out_of_range_there_is_no_coverage():
    scene = world()
    network = {"model": "empirical-wlan", "range": "40 m"}
    tasks, _, _ = run(begin(scene, network=network, patience="1 s"), scene, 10)
    assert {TASK_STATUS[code] for code in tasks["status"]} == {"no-coverage"}


def test_frames_of_a_radio_adapter_rule():
    scene = world(NEAR, DRONE, rate=0.4, stop=3.0)
    frames = {"link": [link(0.0, [(1, 0, 8e6)])]}
    reported, _, _ = run(begin(scene, network={"model": "empirical-wlan"}), scene, 10, lambda time: frames)
    np.testing.assert_allclose(upload(reported), 1.0 + 0.001)


def test_the_wan_by_measurement():
    scene = world(
        replace(NEAR, cores=0),
        DRONE,
        CLOUD,
        links=(Link((SlotRange(0),), (SlotRange(2),), LinkState(100e6)),),
        rate=0.4,
        stop=3.0,
    )
    network = {"model": "cellular", "rate": "1 Gbit/s", "wan": "empirical"}
    tasks, _, _ = run(begin(scene, network=network), scene, 10)
    np.testing.assert_allclose(upload(tasks), 8e6 / 1e9 + 8e6 / (1e3 * WAN_KBPS[0]))


def test_two_runs_are_equal_to_the_bit():
    scene = world(NEAR, FAR, CLOUD, DRONE, links=(replace(BACKHAUL, b=(SlotRange(2),)),), arrivals="poisson", stop=50.0)
    for model in ({"model": "mm1", "rate": "20 Mbit/s"}, {"model": "close-in", "wan": "empirical"}):
        first, second = (run(begin(scene, network=model), scene, 60)[0] for _ in range(2))
        assert len(first["task"]) > 20
        assert all(first[name].tobytes() == second[name].tobytes() for name in first)


@pytest.mark.parametrize(
    ("scene", "said"),
    [(world(EDGE, DRONE), "'edge-1' has no position"), (world(NEAR, UAV), "'uav-1' has no position"),
     (world(CLOUD, DRONE), "no edge node can be an access point")],
)  # fmt: skip
def test_mistakes_are_said_at_the_start(scene, said):
    with pytest.raises(ScenarioError, match=said):
        begin(scene, network={"model": "empirical-wlan"})


def test_a_queue_needs_a_rate():
    with pytest.raises(ValidationError, match="model 'mm1' needs 'rate'"):
        ContinuumConfig(network={"model": "mm1"})
