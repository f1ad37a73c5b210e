"""Resource files, traffic, topologies, the timeline, the feed, and jobs in files."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from benchmarks.cluster import courses, with_queries

from cosim.contract.errors import ScenarioError
from cosim.extensions.gpu_cluster.cluster import feed, timeline, topology, traffic
from cosim.extensions.gpu_cluster.cluster.engine import layout as l
from cosim.extensions.gpu_cluster.cluster.fabric import fabric, formed, links, plain, routes
from cosim.extensions.gpu_cluster.cluster.fitted import philly_like
from cosim.extensions.gpu_cluster.cluster.generate import uniform
from cosim.extensions.gpu_cluster.cluster.jobs import Jobs, described
from cosim.extensions.gpu_cluster.cluster.order import arrival, beam, best, in_windows, placed
from cosim.extensions.gpu_cluster.cluster.rank import ranked
from cosim.extensions.gpu_cluster.cluster.resources import Resources, read_resources
from cosim.extensions.gpu_cluster.cluster.simulate import ClusterSettings, ClusterSimulation, simulate
from cosim.extensions.gpu_cluster.cluster.table import read_jobs, write_jobs
from cosim.extensions.gpu_cluster.tests.cluster.leaves import regular


def written(tmp_path, change):
    data = json.loads(regular(2, 8, 4, 2, per_server=4).model_dump_json())
    change(data)
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(data, indent=1))
    return path


CHANGES = [
    (lambda d: d["cables"].append(["leaf-0:up0", "ocs-0:p0"]), "leaf-0:up0' has a cable already"),
    (lambda d: d["cables"].append(["leaf-0:up9", "ocs-0:p3"]), "no port 'leaf-0:up9'; the last one is leaf-0:up3"),
    (lambda d: d["cables"].append(["moon:up0", "ocs-0:p3"]), "no switch 'moon'"),
    (lambda d: d["cables"].append(["leaf-0", "ocs-0:p3"]), "'leaf-0' is no port"),
    (lambda d: d["gpus"].update(count=9), "there are 9 GPUs, but the leaves have ports for 16"),
    (lambda d: d["leaves"][1].update(id="leaf-0"), "the id 'leaf-0' is taken by 2 switches"),
    (lambda d: d["leaves"][0].update(down_ports=0), "greater than or equal to 1"),
    (lambda d: d["gpus"].update(colour="red"), "is no key here"),
    (lambda d: d.update(cables=[c for c in d["cables"] if c[1][:5] != "ocs-1"]), "not spread evenly"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), CHANGES)
def test_mistakes_in_a_resource_file_have_a_line(tmp_path, change, said):
    path = written(tmp_path, change)
    with pytest.raises(ScenarioError) as caught:
        read_resources(path)
    problem = next(p for p in caught.value.problems if said in str(p))
    assert problem.file == path
    assert problem.line is not None
    line = path.read_text().splitlines()[problem.line - 1]
    key = problem.path.split(".")[-1]
    assert key.isdecimal() or key in line or line.strip() in ("{", "[", "],")


def test_what_is_no_json_or_yaml_is_refused_with_its_line(tmp_path):
    for name, text in (("a.json", '{"gpus":\n {,}}'), ("a.yaml", "gpus:\n  - {")):
        (tmp_path / name).write_text(text)
        with pytest.raises(ScenarioError, match=rf"{name}:\d+"):
            read_resources(tmp_path / name)


def test_a_regular_file_is_the_plain_fabric():
    one, two = fabric(regular(4, 8, 6, 3, per_server=4)), plain(4, 2, 6, 3, 4)
    for name in ("servers", "up", "port_leaf", "port_ocs", "delay"):
        assert (getattr(one, name) == getattr(two, name)).all()
    assert one.gpus == two.gpus == 32


def test_bytes_of_collectives():
    assert traffic.ring(4, 8.0) == 12.0
    assert traffic.tree(8, 2.0) == 12.0
    assert traffic.all_to_all(4, 8.0) == 6.0
    assert traffic.hierarchical(16, 8.0, 8) == 1.0
    assert traffic.step_time(1.0, 2.0, 0.5) == 2.0
    moe = traffic.Training(1e9, 1.0, 10, dp=4, ep=4, activations=1e6, layers=2)
    assert traffic.pattern(moe) == "experts"
    assert traffic.step_bytes(moe) == traffic.ring(4, 1e9) + 8 * traffic.all_to_all(4, 1e6)
    jobs = described([moe], [3.0], 1e9, 8)
    assert jobs.duration[0] == pytest.approx(10 * (1.0 + 8 * traffic.step_bytes(moe) / 1e9))


@pytest.mark.parametrize("name", ["fat-tree", "dragonfly", "rail", "torus", "rings"])
@pytest.mark.parametrize("leaves", [2, 6, 9, 16])
@pytest.mark.parametrize("valiant", [False, True])
def test_topologies_use_the_uplinks_and_flows_arrive_whole(name, leaves, valiant):
    up = np.full(leaves, 16)
    ports = links(name, up)
    assert (ports == ports.T).all()
    assert (ports[:leaves].sum(1) <= up).all()
    route, cap = routes(ports, valiant)
    flow = route.reshape(leaves, leaves, leaves + 1, leaves + 1) / l.UNIT
    assert (flow.reshape(leaves * leaves, -1)[:, cap == 0] == 0).all()
    for a in range(leaves):
        for b in range(leaves):
            net = flow[a, b].sum(1) - flow[a, b].sum(0)
            expected = np.zeros(leaves + 1)
            if a != b:
                expected[a], expected[b] = 1.0, -1.0
            assert net == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("name", ["fat-tree", "dragonfly", "rail", "torus", "rings"])
@pytest.mark.parametrize(("leaves", "up", "ocs"), [(16, 16, 8), (9, 8, 8), (12, 6, 6), (10, 12, 5)])
def test_a_topology_on_optical_switches_uses_each_port_once(name, leaves, up, ocs):
    made = plain(leaves, 1, up, ocs, spines=2)
    asked, (ports, pairs) = links(name, made.up), formed(made, name)
    assert (ports <= asked).all()
    used, total = np.zeros((leaves + 1, ocs), np.int64), np.zeros_like(ports)
    for x, circuits in enumerate(pairs):
        for a, b in circuits:
            used[[a, b], x] += 1
            total[a, b] += 1
    assert (total + total.T == ports).all()
    assert (used[:leaves] <= np.bincount(np.arange(up) % ocs)).all()
    assert (used[leaves] <= made.spine_ports).all()
    uneven = up % ocs or leaves * (up // ocs) % 2  # then a port is left over on a switch
    assert ports.sum() >= asked.sum() - (2 * ocs if uneven else 0)
    routes(ports)


def test_a_fat_tree_on_optical_switches_needs_spines_in_the_file():
    data = json.loads(regular(2, 8, 4, 2, per_server=4).model_dump_json())
    with pytest.raises(ValueError, match="needs spines with cables"):
        formed(fabric(Resources.model_validate(data)), "fat-tree")
    data["spines"] = [{"id": "spine-0", "ports": 8}]
    data["ocs"] = [one | {"radix": 8} for one in data["ocs"]]
    data["cables"] += [[f"spine-0:p{k}", f"ocs-{k % 2}:p{4 + k // 2}"] for k in range(8)]
    ports, _ = formed(fabric(Resources.model_validate(data)), "fat-tree")
    assert ports[-1].tolist() == [4, 4, 0]


def fullest_first(job, simulation):
    """Ranks on the roomiest leaves: what `pack` does."""
    left, found, free = int(simulation.jobs.gpus[job]), [], simulation.state.leaf["free"]
    for k in np.argsort(-free, kind="stable"):
        if left and free[k]:
            found.append((int(k), min(left, int(free[k]))))
            left -= found[-1][1]
    return None if left else found


def one_circuit_each(_, ranks, simulation):
    """A single circuit between any two leaves of a job."""
    port, used, pairs = simulation.state.port, set(), []
    for (a, _), (b, _) in itertools.combinations(ranks, 2):
        free = [
            [p for p in np.flatnonzero((port["leaf"] == k) & (port["holder"] < 0)) if p not in used] for k in (a, b)
        ]
        pair = next(((int(p), int(q)) for p in free[0] for q in free[1] if port["ocs"][p] == port["ocs"][q]), None)
        if pair is None:
            return None
        pairs.append(pair)
        used.update(pair)
    return pairs


def test_functions_place_and_wire_jobs():
    jobs = uniform(2, 20, sizes=(2, 48))
    built_in, asked, own = (
        ClusterSimulation(plain(8, 2, 16, 4), jobs, ClusterSettings("circuits", "exhaustive")) for _ in range(3)
    )
    in_windows(built_in, arrival)
    placed(asked, arrival, None)
    assert (built_in.state.job["start"] == asked.state.job["start"]).all()
    placed(own, arrival, fullest_first, one_circuit_each)
    assert own.over
    assert own.ledger().faults() == []
    assert own.ledger().slowed > 0.0  # one circuit carries less than each pair asks for
    assert (own.state.port["holder"] < 0).all()


@pytest.mark.parametrize(
    ("ranks", "said"), [([(0, 1)], "needs"), ([(0, 99)], "where 16 are free"), ([(9, 1)], "there is not")]
)
def test_a_placement_that_cannot_be_is_refused(ranks, said):
    s = ClusterSimulation(plain(8, 2, 16, 4), uniform(2, 5, sizes=(4, 48)), ClusterSettings("circuits", "exhaustive"))
    with pytest.raises(ValueError, match=said):
        placed(s, arrival, lambda *_: ranks)


def test_the_timeline_keeps_the_integral():
    s = simulate(plain(8), uniform(2, 40), ClusterSettings("circuits", "best-fit"))
    rows = courses(s)
    end = math.ceil(s.now / 45.0) * 45.0
    for name in ("utilisation", "waiting", "power"):
        exact = float(rows[name] @ np.diff(np.append(rows["time"], end)))
        found = timeline.interpolated(rows, 45.0, 5.0, end)
        assert float(found[name].sum() * 45.0) == pytest.approx(exact, rel=1e-9)
    assert found["time"][0] == 50.0
    assert len(list(timeline.samples(found))) == len(found["time"])


@pytest.mark.slow
def test_windows_and_queries_give_the_same_outcome_and_search_does_not_hurt():
    jobs = uniform(11, 25)
    spans = {}
    for name, order in (("arrival", arrival), ("ranked", ranked), ("beam", beam(4)), ("best", best)):
        one, two = (ClusterSimulation(plain(8), jobs, ClusterSettings("circuits", "exhaustive")) for _ in range(2))
        in_windows(one, order)
        with_queries(two, order)
        assert (one.state.job["start"] == two.state.job["start"]).all()
        spans[name] = one.outcome().makespan
    assert one.over


def test_the_topology_is_the_best_of_the_branches():
    jobs = uniform(1, 6, {"dlrm": 1.0}, sizes=(64, 96), durations=(500.0, 900.0))
    s = ClusterSimulation(
        plain(9, 2, 16, 0), jobs, ClusterSettings("routed", "pack", strict=False, topologies=("rings", "fat-tree"))
    )
    s.advance(1.0)
    assert topology.choose(s) == 1
    assert s["topology"] == 1
    s.advance()
    other = simulate(plain(9, 2, 16, 0), jobs, ClusterSettings("routed", "pack", strict=False, topologies=("rings",)))
    assert s.outcome().makespan < other.outcome().makespan
    assert s.ledger().faults() == []


STATE = {
    "time": 100.0,
    "resources": json.loads(regular(4, 8, 4, 2, per_server=4).model_dump_json()),
    "running": [
        {"id": "a", "ends": 400.0, "ranks": {"leaf-0": 8, "leaf-1": 4}, "circuits": [["leaf-0:up0", "leaf-1:up0"]]}
    ],
    "waiting": [
        {"id": "b", "gpus": 12, "duration": 50.0, "rails": 2}, {"id": "c", "gpus": 8, "duration": 500.0},
        {"id": "d", "gpus": 4, "duration": 10.0},
    ],
    "down": ["leaf-3:up1"],
}  # fmt: skip


def test_a_running_cluster_gets_feasible_configurations_again_and_again():
    state = feed.read_state(STATE)
    found = feed.configurations(state, limit=60.0)
    assert [one.as_dict() for one in found] == [one.as_dict() for one in feed.configurations(state, limit=60.0)]
    assert found[0].end == min(one.end for one in found)
    for one in found:
        ports = [port for pairs in one.matchings.values() for pair in pairs for port in pair]
        assert len(set(ports)) == len(ports)
        assert "leaf-3:up1" not in ports
        assert ["leaf-0:up0", "leaf-1:up0"] in one.matchings["ocs-0"]  # that of the running job stays
        for name, pairs in one.matchings.items():
            assert all(int(port[-1]) % 2 == int(name[-1]) for pair in pairs for port in pair)
        room = {"leaf-0": 0, "leaf-1": 4, "leaf-2": 8, "leaf-3": 8}
        for start in one.starts:
            for leaf, count in start["ranks"].items():
                room[leaf] -= count
        assert min(room.values()) >= 0
    json.dumps([one.as_dict() for one in found])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"down": ["moon"]}, "no leaf and no uplink 'moon'"),
        ({"running": [STATE["running"][0] | {"ranks": {"leaf-0": 9}}]}, "has 9 GPUs"),
        ({"running": [STATE["running"][0] | {"circuits": [["leaf-0:up0", "leaf-1:up1"]]}]}, "not on one OCS"),
        ({"running": [STATE["running"][0] | {"circuits": [["leaf-0:up0", "leaf-2:up0"]]}]}, "other leaves"),
        ({"waiting": [{"id": "b", "gpus": 0, "duration": 1.0}]}, "greater than or equal to 1"),
        ({"waiting": [{"id": "a", "gpus": 1, "duration": 1.0}]}, "the same id"),
    ],
)
def test_a_state_that_cannot_be_is_refused(change, said):
    with pytest.raises(ScenarioError, match=said):
        feed.configurations(feed.read_state(STATE | change))


def test_jobs_in_files(tmp_path):
    jobs = philly_like(3, 200, 86_400.0)
    write_jobs(tmp_path / "jobs.parquet", jobs)
    again = read_jobs(tmp_path / "jobs.parquet", {"llm": 1.0})
    for name in ("arrival", "gpus", "duration", "pattern", "milli"):
        assert (getattr(again, name) == getattr(jobs, name)).all()
    (tmp_path / "jobs.csv").write_text("arrival,duration,gpus,gpu_milli\n0,1,1,1500\n")
    with pytest.raises(ScenarioError, match=r"jobs\.csv:2: 'gpu_milli' is 1500"):
        read_jobs(tmp_path / "jobs.csv", {"llm": 1.0})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("arrival,duration,gpus\n0,1,2.5\n", r"jobs\.csv:2: 'gpus' is 2.5"),
        ("arrival,duration,gpus\n0,1,1e19\n", r"jobs\.csv:2: 'gpus' is 1e\+19"),
        ("arrival,duration,gpus\n0,1,1\n0,x,1\n", r"jobs\.csv:3: 'duration' is 'x'"),
        ("arrival,duration,gpus,gpus\n0,1,1,1\n", r"jobs\.csv:1: has two columns 'gpus'"),
    ],
)
def test_cells_that_cannot_be_have_a_line(tmp_path, text, said):
    (tmp_path / "jobs.csv").write_text(text)
    with pytest.raises(ScenarioError, match=said):
        read_jobs(tmp_path / "jobs.csv", {"llm": 1.0})


def test_mistakes_in_the_resources_of_a_state_have_a_line(tmp_path):
    state = json.loads(json.dumps(STATE))
    state["resources"]["cables"].append(["leaf-0:up0", "ocs-0:p0"])
    state["waiting"][0]["gpus"] = 0
    path = tmp_path / "state.json"
    path.write_text(json.dumps(state, indent=1))
    with pytest.raises(ScenarioError, match=r"state\.json:\d+.*has a cable already"):
        feed.read_state(path)
    path.write_text('{"time": 1,\n "time": 2}')
    with pytest.raises(ScenarioError, match=r"state\.json:2: the key 'time' stands twice"):
        feed.read_state(path)


def test_jobs_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="not in the order"):
        Jobs(np.array([1.0, 0.0]), np.array([1, 1]), np.array([1.0, 1.0]))
    with pytest.raises(ValueError, match="'gpus' of job 1"):
        Jobs(np.zeros(2), np.array([1, 0]), np.ones(2))


def test_resources_hold_units_and_every_port_once():
    made = regular(2, 8, 4, 2, per_server=4)
    assert Resources.model_validate_json(made.model_dump_json()) == made
