"""A GPU cluster on the bus."""

from __future__ import annotations

import json

import numpy as np
import pytest
from pydantic import ValidationError
from ruamel.yaml import YAML

from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Event, Node, Scene, SlotRange, Tariff, TariffWindow
from cosim.contract.errors import ScenarioError
from cosim.contract.frame import Frame, fault
from cosim.contract.signals import CATALOGUE
from cosim.extensions.gpu_cluster.adapter import ADAPTER, CIRCUIT, CLUSTER, JOB
from cosim.extensions.gpu_cluster.tests.cluster.leaves import regular
from cosim.results.ledgers import ledger_faults

NODES = tuple(Node(f"leaf-{k}", "leaf", "cloud", tariff="grid") for k in range(4))
GRID = Tariff("grid", price=1e-7, carbon=1e-4, windows=(TariffWindow(600.0, 900.0, 3e-7, 2e-4),))
SCENE = Scene.build((Node("uav", "uav", "device"), *NODES), tariffs=(GRID,))
OWN = {signal.name: signal for signal in (CIRCUIT, CLUSTER, JOB)}
SMALL = {"leaves": 4, "down": 8, "up": 8, "ocs": 2, "per_server": 4, "delay": "100 ms"}
JOBS = {"generate": "uniform", "count": 12, "gpus": [2, 16], "duration": ["1 min", "5 min"]}


def begin(root=".", scene=SCENE, **config):
    given = {"nodes": "leaf-*", "jobs": JOBS} | ({} if {"file", "resources"} & config.keys() else {"regular": SMALL})
    adapter = ADAPTER.build(ADAPTER.load_config()(**(given | config)))
    adapter.start(Context("cluster", scene, 60.0, 3600.0, (1, 2), str(root), "."))
    return adapter


def run(adapter, until=3600.0, every=60.0, events=(), hosts=()):
    seen = []
    for time in np.arange(0.0, until + 1.0, every):
        due = [event for event in events if time - every < event.at <= time]
        frames = {frame.signal: frame for frame in adapter.step(float(time), Inputs({"host": list(hosts)}, due))}
        for name, frame in frames.items():
            assert fault(frame, OWN.get(name) or CATALOGUE[name], SCENE.capacity) == ""
        seen.append(frames)
    return seen


def joined(seen, signal, column):
    return np.concatenate([frames[signal][column] for frames in seen])


def test_jobs_energy_and_cost_close():
    adapter = begin()
    seen = run(adapter)
    books = adapter.finish()
    assert ledger_faults(books) == []
    assert books["gpu_seconds"]["closes"]
    assert books["jobs"]["done"] == 12 == len(joined(seen, "job", "job")) == seen[-1]["host"]["completed"].sum()
    host = seen[-1]["host"]
    assert host.slot.tolist() == [1, 2, 3, 4]
    assert host["energy"].sum() == pytest.approx(sum(books["energy"]["by_node"].values()))
    power = sum(frames["host"]["power"].sum() * 60.0 for frames in seen[1:])
    assert power == pytest.approx(host["energy"].sum())
    used = sum(frames["host"]["utilisation"].sum() * 60.0 * 8 for frames in seen[1:])
    assert used == pytest.approx(books["gpu_seconds"]["held"])
    mean = books["cost"]["total"] / sum(books["energy"]["by_node"].values())
    assert 1e-7 < mean < 3e-7  # three of ten parts at most in the dear window
    assert books["energy"]["links"] == pytest.approx(2 * 110.0 * 3600.0)


def test_circuits_come_and_go_on_the_bus():
    adapter = begin()
    seen = run(adapter)
    up = joined(seen, "circuit", "up")
    assert up.sum() == (~up).sum() > 0
    assert all((frames["peer_link"]["rate"] > 0).all() for frames in seen)
    assert max(len(frames["peer_link"]) for frames in seen) > 0
    at = joined(seen, "cluster", "at")
    assert (np.diff(at) >= 0).all()
    assert joined(seen, "cluster", "busy")[-1] == 0.0


def test_scenario_events_take_leaves_down_and_jobs_restart():
    events = [Event(30.0, "fail", (SlotRange(1, 2),)), Event(400.0, "recover", (SlotRange(1, 2),))]
    adapter = begin(checkpoint="30 s")
    seen = run(adapter, events=events)
    books = adapter.finish()
    assert not seen[3]["host"]["up"][0]
    assert seen[-1]["host"]["up"].all()
    assert books["gpu_seconds"]["down"] == pytest.approx(370.0 * 16)
    assert books["jobs"]["restarts"] >= 1
    assert books["jobs"]["done"] == 12


def test_edge_hosts_and_training_share_a_power_limit():
    others = Frame("host", 0.0, np.array([0], np.int32), {"power": np.array([6000.0])})
    free, bound = begin(power_limit="30 kW"), begin(power_limit="30 kW")
    run(free)
    seen = run(bound, hosts=[others])
    assert joined(seen, "cluster", "power").max() + 6000.0 <= 30_000.0
    ours, theirs = bound.finish(), free.finish()
    assert ours["cluster"]["starts_blocked_by_power"] > theirs["cluster"]["starts_blocked_by_power"] == 0
    assert ours["jobs"]["done"] == 12


@pytest.mark.parametrize("order", ["shortest", "ranked", "beam", "cosim.extensions.gpu_cluster.cluster.order:arrival"])
def test_orders(order):
    adapter = begin(order=order)
    run(adapter)
    assert adapter.finish()["jobs"]["done"] == 12


def test_topologies_follow_the_jobs():
    phases = [{"count": 6, "mix": {"llm": 1}}, {"count": 6, "mix": {"dlrm": 1}}]
    jobs = {"generate": "uniform", "phases": phases, "gap": "2 min"}
    adapter = begin(network="routed", topologies=["rings", "dragonfly"], switch="2 min", strict=False, jobs=jobs,
                    regular={"leaves": 4, "down": 64, "up": 8, "ocs": 2})  # fmt: skip
    seen = run(adapter)
    assert set(joined(seen, "cluster", "topology").tolist()) <= {1, 4}
    assert adapter.finish()["gpu_seconds"]["closes"]


def test_described_jobs_and_a_resource_file_in_json_and_yaml(tmp_path):
    described = [
        {"model": "2 GB", "compute": "200 ms", "steps": 1000, "dp": 16},
        {"model": "8 GB", "compute": "1 s", "steps": 100, "dp": 2, "pp": 4, "activations": "50 MB", "batch": 8},
    ]
    data = json.loads(regular(4, 8, 8, 2, per_server=4).model_dump_json())
    (tmp_path / "cluster.json").write_text(json.dumps(data))
    YAML(typ="safe").dump(data, tmp_path / "cluster.yaml")
    ends = []
    for file in ("cluster.json", "cluster.yaml"):
        adapter = begin(tmp_path, file=file, jobs={"described": described})
        seen = run(adapter)
        ends.append(joined(seen, "job", "ended").tolist())
    assert ends[0] == ends[1]
    ring = 2 * 15 / 16 * 2e9 * 8 / (400e9 * 8)
    assert ends[0][-1] == pytest.approx(1000 * (0.2 + ring) + 0.025, abs=0.03)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"nodes": "moon-*"}, "no node is a leaf"),
        ({"regular": SMALL | {"leaves": 5}}, "5 leaves do not divide among 4 nodes"),
        ({"regular": SMALL | {"ocs": 0}}, "every uplink on an optical switch"),
        ({"faults": [{"at": "1 s", "what": "leaf", "number": 4}]}, "there is no leaf 4"),
        ({"regular": SMALL | {"down": 6}}, "no whole servers"),
    ],
)
def test_mistakes_are_said_by_the_check(config, said):
    made = ADAPTER.load_config()(**({"nodes": "leaf-*", "jobs": JOBS, "regular": SMALL} | config))
    context = Context("cluster", SCENE, 60.0, 3600.0, (1, 2), ".", "")
    assert said in str(ADAPTER.problems(made, context)[0])


@pytest.mark.parametrize(
    "config",
    [
        {"jobs": {"count": 3}},
        {"jobs": JOBS | {"gpus": [9, 2]}},
        {"regular": None},
        {"switch": "1 min"},
        {"order": "no-such"},
        {"network": "routed", "topologies": ["torus", "torus"]},
    ],
)
def test_blocks_that_do_not_hold_are_refused(config):
    with pytest.raises(ValidationError):
        ADAPTER.load_config()(**({"nodes": "leaf-*", "jobs": JOBS, "regular": SMALL} | config))


def test_a_bad_table_of_jobs_is_named_with_its_line(tmp_path):
    (tmp_path / "jobs.csv").write_text("arrival,duration,gpus\n0,10,1\n5,-3,2\n")
    with pytest.raises(ScenarioError, match=r"jobs\.csv:3: 'duration' is -3"):
        begin(tmp_path, jobs={"trace": "jobs.csv"})


def test_the_jobs_count_as_memory(tmp_path):
    (tmp_path / "jobs.csv").write_text("arrival,duration,gpus\n5,60,1\n90,60,2\n")
    made = ADAPTER.load_config()(**{"nodes": "leaf-*", "jobs": {"trace": "jobs.csv"}, "regular": SMALL})
    (found,) = ADAPTER.problems(made, Context("cluster", SCENE, 60.0, 3600.0, (1, 2), str(tmp_path), ""))
    assert (found.note, found.memory) == (True, 2 * 1100)
    assert found.message == "there are 2 jobs, which come from 5 to 90 s"
