"""The offloading model on the bus: frames, ledgers, log files, and what is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cosim.adapters.continuum.tests.specialities import SPECIAL
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Fleet, Node, Scene, SlotRange, Workload
from cosim.contract.equipment import Power
from cosim.contract.errors import ScenarioError
from cosim.contract.laws import Law
from cosim.contract.signals import TASK_STATUS
from cosim.extensions.edgecloudsim import adapter as offloading
from cosim.extensions.edgecloudsim.adapter import ADAPTER
from cosim.extensions.edgecloudsim.adapter.adapter import OffloadingAdapter
from cosim.extensions.edgecloudsim.adapter.config import OffloadingConfig
from cosim.extensions.edgecloudsim.adapter.world import build
from cosim.extensions.edgecloudsim.offloading.layout import CAUSES
from cosim.extensions.edgecloudsim.offloading.quirks import compatible

DURATION = 120.0
INF = float("inf")


def edge(name, north):
    prices = {"price_cpu": 3.0, "price_transfer": 1e-4}
    return Node(name, "edge", "edge", (0.0, north, 0.0), cores=4, clock=1e9, power=Power((10.0, 30.0)), **prices)


def scene(devices=20):
    nodes = (
        edge("north", 9.0),
        edge("south", 0.0),
        Node(
            "cloud",
            "cloud",
            "cloud",
            cores=16,
            clock=10e9,
            power=Power((100.0, 200.0)),
            price_cpu=1.0,
            price_transfer=2e-4,
        ),
    )
    fleet = Fleet("phones", "offloading", 0, devices, Node("phones", "device", "device"))

    def load(name, share, deadline):
        laws = Law("exponential", 1.5e6), Law("exponential", 25e3), Law("exponential", 2e9)
        source = (SlotRange(len(nodes), devices),)
        return Workload(name, source, "poisson", 0.2, *laws, deadline=deadline, share=share, active=45.0, idle=15.0)

    return Scene.build(
        nodes, (fleet,), (), (load("other", 0.5, INF), load("video", 0.7, 3.0), load("health", 0.3, INF))
    )


def config(**changes):
    machines = [[{"count": 2, "cores": 2, "mips": 1000}]]
    base = {
        "architecture": "two-tier-with-eo", "devices": 20, "dwell": ["50 s", "30 s", "20 s"], "load_interval": "5 s",
        "links": {"wlan": "200 Mbit/s", "wan": "15 Mbit/s", "lan_delay": "5 ms", "wan_propagation": "100 ms"},
        "applications": {
            "video": {"load_edge": "20 %", "load_cloud": "2 %", "cloud_probability": "30 %"},
            "health": {"load_edge": "5 %", "load_cloud": "1 %", "cloud_probability": "20 %"},
        },
        "places": {"south": {"hosts": machines}, "north": {"attractiveness": 1}},
    }  # fmt: skip
    return OffloadingConfig.model_validate(base | changes)


def started(tmp_path, *, scenery=None, **changes):
    adapter = OffloadingAdapter(config(**changes))
    adapter.start(Context("offloading", scenery or scene(), 1.0, DURATION, (7,), str(tmp_path), str(tmp_path)))
    return adapter


def run(tmp_path, step=10.0, *, scenery=None, **changes):
    """All frames by signal, and the summary."""
    adapter = started(tmp_path, scenery=scenery, **changes)
    frames = {"mobility": [], "task": [], "host": []}
    for time in np.arange(0.0, DURATION + step / 2, step):
        for frame in adapter.step(float(time), Inputs()):
            frames[frame.signal].append(frame)
    summary = adapter.finish()
    adapter.close()
    return frames, summary


def column(frames, name):
    return np.concatenate([frame[name] for frame in frames])


def test_the_study_is_made_of_nodes_workloads_and_the_block():
    world = build(config(), scene(), "offloading", DURATION)
    study = world.study
    assert world.places == (1, 0)
    assert world.workloads == (1, 2)
    south, north = study.places
    assert ((south.name, south.y, south.wlan), (north.y, north.wlan, north.attractiveness)) == (
        ("south", 0, 0),
        (9, 1, 1),
    )
    assert [[(vm.cores, vm.mips) for vm in host] for host in south.hosts] == [[(2, 1000.0)] * 2]
    assert [[(vm.cores, vm.mips) for vm in host] for host in north.hosts] == [[(4, 1000.0)]]
    assert [[(vm.cores, vm.mips) for vm in host] for host in study.cloud] == [[(16, 10000.0)]]
    video = study.applications[0]
    assert (video.usage, video.interarrival, video.active, video.idle, video.max_delay) == (70.0, 5.0, 45.0, 15.0, 3.0)
    assert (video.upload, video.download, video.length, video.load_edge) == (1500.0, 25.0, 2000.0, 20.0)
    assert south.costs[:2] == (0.1, 3.0)
    assert (study.duration, study.links.wlan, study.quirks) == (DURATION, 200e6, frozenset())


def test_quirks_are_switched_one_by_one():
    def quirks(**changes):
        return build(config(**changes), scene(), "offloading", DURATION).study.quirks

    assert quirks(physics="compatible") == compatible("app1")
    assert quirks(quirks={"processing-tick": True}) == {"processing-tick"}
    assert quirks(physics="compatible", quirks={"cost-never-set": False}) == compatible("app1") - {"cost-never-set"}
    with pytest.raises(ValueError, match="there is no quirk 'processing-tik'; did you mean 'processing-tick'"):
        config(quirks={"processing-tik": True})


def test_ages_of_what_is_left_are_those_that_a_longer_run_shows(tmp_path):
    frames, summary = run(tmp_path)
    adapter = started(tmp_path)
    for time in np.arange(0.0, 61.0, 10.0):
        adapter.step(float(time), Inputs())
    cut = adapter.finish()
    created, ended, workload = (column(frames["task"], name) for name in ("created", "ended", "workload"))
    for number, name in ((1, "video"), (2, "health")):
        left = (workload == number) & (created <= 60.0) & (ended > 60.0)
        entry = cut["workloads"][name]
        assert len(entry["ages"]) == entry["in_flight"] == left.sum() > 0
        np.testing.assert_allclose(entry["ages"], np.sort(60.0 - created[left]), rtol=1e-12)
    assert summary["tasks"]["in_flight"] == sum(len(entry["ages"]) for entry in summary["workloads"].values())


def test_the_ledgers_close_and_agree_with_the_task_frames(tmp_path):
    frames, summary = run(tmp_path)
    tasks = summary["tasks"]
    assert tasks["created"] == tasks["completed"] + sum(tasks["failed"].values()) + tasks["in_flight"] > 100
    status = column(frames["task"], "status")
    counts = {name: int(np.sum(status == code)) for code, name in enumerate(TASK_STATUS)}
    assert counts.pop("completed") == tasks["completed"]
    assert {name: count for name, count in counts.items() if count} == tasks["failed"]
    for key in ("created", "completed", "late", "in_flight"):
        assert tasks[key] == sum(entry[key] for entry in summary["workloads"].values())
    assert tasks["late"] == int(column(frames["task"], "late").sum()) > 0
    assert sum(summary["causes"][cause] for cause in CAUSES) == len(status)
    completed = status == 0
    created, uploaded, computed, ended = (
        column(frames["task"], name)[completed] for name in ("created", "uploaded", "computed", "ended")
    )
    assert np.all((created <= uploaded) & (uploaded <= computed) & (computed <= ended))
    assert set(column(frames["task"], "workload")) == {1, 2}
    assert int(frames["host"][-1]["completed"].sum()) == tasks["completed"]


def test_cost_is_seconds_and_bytes_by_each_hosts_price(tmp_path):
    frames, summary = run(tmp_path)
    prices = {0: (3.0, 1e-4), 1: (3.0, 1e-4), 2: (1.0, 2e-4)}
    names = ("status", "host", "uploaded", "computed", "input", "output")
    status, host, uploaded, computed, sent, back = (column(frames["task"], name) for name in names)
    expected = sum(
        prices[h][0] * (c - u) + prices[h][1] * (i + o)
        for s, h, u, c, i, o in zip(status, host, uploaded, computed, sent, back, strict=True)
        if s == 0
    )
    assert set(host[status == 0]) == {0, 1, 2}
    assert summary["cost"]["total"] == pytest.approx(expected, rel=1e-9)
    assert run(tmp_path, quirks={"cost-never-set": True})[1]["cost"]["total"] == 0.0


def test_energy_is_power_over_the_use_of_cores(tmp_path):
    frames, summary = run(tmp_path)
    hosts = frames["host"]
    assert hosts[0]["energy"].tolist() == [0.0, 0.0, 0.0]
    for slot, idle, full in ((0, 10.0, 30.0), (1, 10.0, 30.0), (2, 100.0, 200.0)):
        rows = [frame.slot.tolist().index(slot) for frame in hosts]
        use = np.array([frame["utilisation"][row] for frame, row in zip(hosts, rows, strict=True)])
        joules = hosts[-1]["energy"][rows[-1]]
        assert np.all((use >= 0.0) & (use <= 1.0))
        assert joules == pytest.approx(idle * DURATION + (full - idle) * 10.0 * use[1:].sum(), rel=1e-9)
    energy = summary["energy"]
    assert energy["total"] == pytest.approx(sum(energy["by_node"].values()) + energy["radio"] + energy["links"])
    assert energy["by_node"]["phones"] == 0.0


def test_how_fine_the_steps_are_changes_nothing(tmp_path):
    (coarse, one), (fine, two) = run(tmp_path, 60.0), run(tmp_path, 1.0)
    assert one == two
    for name in ("task", "host", "status", "ended"):
        assert np.array_equal(column(coarse["task"], name), column(fine["task"], name))
    for a, b in zip(coarse["mobility"][-1].columns.values(), fine["mobility"][-1].columns.values(), strict=True):
        assert a.shape == b.shape


def test_devices_are_at_places(tmp_path):
    frames, _ = run(tmp_path)
    first, last = frames["mobility"][0], frames["mobility"][-1]
    assert len(first) == 20
    assert first.table.ids[0] == "phones-1"
    assert set(zip(last["x"], last["y"], strict=True)) == {(0.0, 0.0), (0.0, 9.0)}
    assert not np.array_equal(first["y"], last["y"])


@pytest.mark.parametrize(("dialect", "count"), [("edgecloudsim", 7), ("unical", 6)])
def test_the_peers_files_are_written_on_request(tmp_path, dialect, count):
    _, summary = run(tmp_path, logs=dialect)
    assert sorted(summary["logs"]) == sorted(path.name for path in tmp_path.iterdir())
    assert len(summary["logs"]) == count


def test_the_extensions_loads_tell_the_energy_of_each_tier(tmp_path):
    _, summary = run(
        tmp_path, logs="unical", model="app6", policy="only-edge", architecture="single-tier",
        energy={"device_idle": "1 W", "battery": "50 Wh", "cloud_max": "200 W"},
    )  # fmt: skip
    text = (tmp_path / "VM_LOAD.csv").read_text().splitlines()[2:]
    energies = np.array([[float(value.replace(",", ".")) for value in line.split(";")[4:]] for line in text])
    assert len(energies) == 24
    assert np.all(np.diff(energies[:, [0, 2]], axis=0) > 0.0)
    assert energies[-1, 2] == pytest.approx(summary["energy"]["by_node"]["phones"] / 3600.0)
    assert energies[-1, 0] == pytest.approx(summary["energy"]["by_tier"]["edge"] / 3600.0)


def test_vehicles_go_round_at_the_speeds_of_the_road(tmp_path):
    base = scene()
    ring = [replace(base.nodes[0], id=f"rsu-{k}", position=(50.0 + 100.0 * k, 0.0, 0.0)) for k in range(4)]
    road = Scene.build((*ring, base.nodes[2]), base.fleets, (), base.workloads)
    sources = tuple(replace(load, sources=(SlotRange(5, 20),)) for load in road.workloads)
    links = {"wlan": "10 Mbit/s", "man": "1 Gbit/s", "wan": "50 Mbit/s", "gsm": "20 Mbit/s", "lan_delay": "10 ms"}
    places = {f"rsu-{k}": {"attractiveness": 2 if k else 0} for k in range(4)}
    frames, summary = run(
        tmp_path,
        5.0,
        scenery=replace(road, workloads=sources),
        model="app5",
        policy="random",
        links=links,
        places=places,
    )
    speed = np.array([frame["speed"] for frame in frames["mobility"]][1:])
    assert np.all((speed >= 20.0 / 3.6 - 1e-6) & (speed <= 60.0 / 3.6 + 1e-6))  # also where the road begins again
    assert np.ptp(speed) > 5.0
    assert set(np.concatenate([frame["heading"] for frame in frames["mobility"][1:]])) == {90.0}
    assert summary["tasks"]["completed"] > 100


def readme_example():
    text = (Path(offloading.__file__).parent / "README.md").read_text()
    return text.split("```python\n")[1].split("```")[0]


def test_a_policy_may_be_a_function(tmp_path, monkeypatch):
    (tmp_path / "my_offloading_policy.py").write_text(readme_example())
    monkeypatch.syspath_prepend(tmp_path)
    frames, summary = run(tmp_path, policy="my_offloading_policy:choose")
    assert summary["tasks"]["failed"].get("capacity", 0) == 0
    assert {0, 1} <= set(column(frames["task"], "host"))


@pytest.mark.parametrize(("changes", "message"), [
    ({"policy": "no_such_module:choose"}, r"adapters.offloading.policy: scheduler 'no_such_module:choose'"),
    ({"policy": "math:pi"}, "'math:pi' is a float, not a function"),
    ({"devices": 21}, "there are 21 devices, the fleet holds 20"),
    ({"places": {"west": {}}}, "adapters.offloading.places.west: there is no node 'west'"),
    ({"places": {"cloud": {}}}, "node 'cloud' is of tier cloud, a place is of tier edge"),
    ({"applications": {"games": {}}}, "there is no workload 'games' .workloads: other, video, health"),
    ({"policy": "greedy"}, "adapters.offloading.policy"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_key(tmp_path, changes, message):
    with pytest.raises(ScenarioError, match=message):
        started(tmp_path, **changes)


def changed(**changes):
    """The scene with its second workload changed."""
    base = scene()
    loads = list(base.workloads)
    loads[1] = replace(loads[1], **changes)
    return replace(base, workloads=tuple(loads))


@pytest.mark.parametrize(("scenery", "message"), [
    (changed(arrivals="every"), "workloads.video.arrivals"),
    (changed(sources=(SlotRange(0),)), "the devices of 'phones' do not make it"),
    (changed(start=5.0), "the model has no 'start' and 'stop'"),
    (replace(scene(), fleets=()), "needs exactly one fleet, the scenario has 0"),
    (replace(scene(), nodes=(*scene().nodes[:1], replace(scene().nodes[1], cores=0, position=None), scene().nodes[2])),
     "a place needs a position"),
])  # fmt: skip
def test_a_scenario_that_the_model_cannot_take_is_refused(tmp_path, scenery, message):
    with pytest.raises(ScenarioError, match=message):
        started(tmp_path, scenery=scenery)


@pytest.mark.parametrize(("key", "changes"), SPECIAL)
def test_what_the_model_does_not_know_of_a_workload_is_refused(tmp_path, key, changes):
    with pytest.raises(ScenarioError, match="the model") as caught:
        started(tmp_path, scenery=changed(**changes))
    assert [problem.path for problem in caught.value.problems] == [f"workloads.video.{key}"]
    assert caught.value.problems[0].hint


def test_the_kind_is_cheap_to_describe():
    assert ADAPTER.fleet
    assert ADAPTER.ports.writes == ("mobility", "task", "host")
