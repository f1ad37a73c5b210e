"""Territorial schedulers: rounds, reports, elections, and the instance of the paper's problem that a round decides."""

from types import SimpleNamespace

import numpy as np
import pytest

from cosim.adapters.live.books import TaskRecord
from cosim.adapters.live.policy import HostPolicy
from cosim.contract.entities import Node, Scene
from cosim.contract.frame import Frame
from cosim.engine.continuum.arrivals import SourceTask
from cosim.extensions.corais.problem import responses
from cosim.extensions.corais.territory import Corais, CoraisExact, CoraisGreedy, CoraisSearch, places
from cosim.schedulers import scheduler
from cosim.schedulers.state import HOST, KEEP, TASK, State

WAY = np.array([[0.0, 0.3, 0.1], [0.3, 0.0, 0.2], [0.1, 0.2, 0.0]])  # s of 100 kB between three edges


def state(time, tasks, up=(1, 1, 1), way=WAY):
    """Three edges of 2 cores of 1 GHz; `tasks`: number, device, host, source, work and, of some, input."""
    hosts = np.zeros(len(way), HOST)
    hosts["tier"], hosts["cores"], hosts["speed"], hosts["up"] = 1.0, 2.0, 2e9, up
    rows = np.zeros(len(tasks), TASK)
    reach = np.full((len(tasks), len(way)), np.inf)
    for row, (number, device, host, source, work, *size) in zip(range(len(rows)), tasks, strict=True):
        rows[row]["task"], rows[row]["device"], rows[row]["host"], rows[row]["work"] = number, device, host, work
        rows[row]["input"], rows[row]["output"] = size[0] if size else 1e5, 1e4
        reach[row] = np.where(np.array(up) != 0, way[source], np.inf)
    return State(time, 0.0, hosts, rows, reach)


def policy(kind=CoraisSearch, regions=None, **settings):
    made = kind()
    nodes = tuple(Node(f"e{k}", "station", "edge", cores=2, clock=1e9) for k in range(3))
    given = {"regions": regions or {"all": "*"}, "central": {}, "every": 0.25, "missed": 3, "takes": 0.0, **settings}
    made.begin(SimpleNamespace(scene=Scene.build(nodes), offered={"corais": given}))
    return made


class Here(Corais):
    """Everything at the last edge that is registered."""

    def solve(self, instance):
        return np.full(instance.requests, instance.edges - 1)


def test_places_have_the_distances_that_they_are_made_of():
    points = np.random.default_rng(1).random((7, 2))
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    found = places(apart)
    np.testing.assert_allclose(np.linalg.norm(found[:, None] - found, axis=2), apart, atol=1e-9)


def test_a_decision_waits_for_its_brief_and_its_answer():
    """0.3 s to the scheduler, the round after it at 0.5 s, 0.1 s for the decision, and 0.3 s back: 0.9 s."""
    one = policy(Here, central={"all": "e1"}, takes=0.1)
    found = [int(one(state(t, [(0, 9, KEEP, 0, 1e9)]))[0]) for t in (0.0, 0.25, 0.4, 0.5, 0.75, 0.89, 0.9)]
    assert found == [KEEP] * 6 + [2]


def test_the_scheduler_itself_knows_at_once():
    assert policy(Here, central={"all": "e1"})(state(0.0, [(0, 9, KEEP, 1, 1e9)])).tolist() == [2]


def test_an_edge_that_misses_reports_is_dropped_and_registers_again():
    one = policy(Here, central={"all": "e0"})
    assert one(state(0.0, [(0, 9, KEEP, 0, 1e9)])).tolist() == [2]
    for k, t in enumerate((0.25, 0.5, 0.75), 1):  # e2 is down: its scheduler believes in it for two more rounds
        assert one(state(t, [(1, 9, KEEP, 0, 1e9)], up=(1, 1, 0))).tolist() == [1 if k == 3 else KEEP]
    assert one.summary()["dropped"] == 1
    assert one(state(1.0, [(2, 9, KEEP, 0, 1e9)])).tolist() == [2]
    assert one.summary()["registrations"] == 4


def test_edges_elect_another_when_the_one_that_decides_is_gone():
    one = policy(Here)
    one(state(0.0, [(k, k, KEEP, k, 1e9) for k in range(3)]))  # all ways are known: e2 is nearest to all others
    assert one.summary()["elections"] == 1
    found = [one(state(0.25 * k, [(8, 1, KEEP, 0, 1e9)], up=(1, 1, 0))).tolist() for k in range(1, 6)]
    assert one.summary()["elections"] == 2  # after three reports, of e0, which has the request
    assert found == [[KEEP], [KEEP], [1], [1], [1]]


def test_a_central_scheduler_that_fails_keeps_requests_waiting():
    one = policy(Here, central={"all": "e1"})
    up = (1, 0, 1)
    assert all(one(state(0.25 * k, [(0, 9, KEEP, 0, 1e9)], up=up)).tolist() == [KEEP] for k in range(9))
    assert one.summary()["rounds"] == 0


def test_requests_stay_in_their_region_and_at_edges_of_none():
    one = policy(Here, regions={"west": ["e0", "e1"]})
    tasks = [(0, 1, KEEP, 0, 1e9), (1, 2, KEEP, 1, 1e9), (2, 3, KEEP, 2, 1e9)]
    found = [one(state(0.25 * k, tasks)).tolist() for k in range(6)]
    assert found[0][2] == 2
    assert found[-1][:2] == [1, 1]


def test_the_edge_at_which_clients_come_next_is_predicted():
    one = policy(Here)
    for k in range(20):  # each second request a region's edge further on
        one(state(0.25 * k, [(k, 5, KEEP, k % 3, 1e9)]))
    assert one.summary()["predicted"] == pytest.approx(16 / 19)  # all but the first round


def test_a_round_decides_the_instance_of_the_equations():
    """Queues worked out by hand: one request here, one that comes, both with work left, and three that are new."""
    seen = {}

    class Seeing(Here):
        def solve(self, instance):
            seen["instance"] = instance
            return super().solve(instance)

    one = policy(Seeing, central={"all": "e2"})
    one(state(0.0, [(k, k, KEEP, k, 2e9, 2e5) for k in range(3)]))  # their answers come within the next rounds
    one(state(0.5, [(k, k, KEEP, k, 2e9, 2e5) for k in range(3)]))
    one(state(1.0, [(k, k, KEEP, k, 2e9, 2e5) for k in range(3)]))
    tasks = [(0, 0, 2, 0, 1e9, 2e5), (2, 2, 2, 2, 5e8, 2e5), (3, 0, KEEP, 0, 1e9, 1e5), (4, 1, KEEP, 1, 4e9, 4e5)]
    one(state(1.05, tasks))
    one(state(1.5, tasks))
    found = seen["instance"]
    scale = 4.0  # s: the longest run time, 4e9 cycles at 1 GHz
    np.testing.assert_allclose(found.slope + found.offset, 1.0)
    np.testing.assert_allclose(found.offset, 0.0, atol=1e-12)  # 1e4 cycles per B
    np.testing.assert_allclose(found.own_work * scale, [0.0, 0.0, 5e8 / 2e9])
    np.testing.assert_allclose(found.coming_work * scale, [0.0, 0.0, 1e9 / 2e9])
    np.testing.assert_allclose(found.leaving * scale, [0.0, 0.0, 0.1 * 1e4 / 1e5], atol=1e-9)
    assert found.replicas.tolist() == [2, 2, 2]
    # 3 and 4 at e2: 0.1 s and 4 x 0.2 s of way, all work of this edge, and results that go back
    expected = max(0.25, 4 * 0.2) + 0.5 + (1e9 + 4e9) / 2e9 + 0.2 * 0.1
    assert responses(found, np.array([2, 2]))[2] * scale == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kind", [Corais, CoraisGreedy, CoraisSearch, CoraisExact])
def test_solvers_share_what_one_edge_cannot_do(kind):
    if kind is CoraisExact:
        pytest.importorskip("highspy")
    one = policy(kind)
    found = np.array([KEEP])
    tasks = [(k, k, KEEP, 0, 2e9) for k in range(12)]
    for step in range(8):
        found = np.maximum(found, one(state(0.25 * step, tasks)))
    assert found.min() >= 0
    # The way takes 0.3 s, the work 12 s at one edge. The likeliest edge of equal requests is the same one.
    assert len(set(found.tolist())) == (1 if kind is CoraisGreedy else 3)


def test_the_policies_have_names_and_decide_in_rounds():
    for name, kind in (
        ("corais", Corais), ("corais-greedy", CoraisGreedy), ("corais-search", CoraisSearch),
        ("corais-exact", CoraisExact),
    ):  # fmt: skip
        one = scheduler(name)
        assert one.make is kind
        assert one.decisions == {"interval"}


def test_without_the_adapter_all_edges_decide_at_once():
    assert Here()(state(0.0, [(0, 0, KEEP, 1, 1e9), (1, 1, KEEP, 0, 1e9)])).tolist() == [2, 2]


def real_policy(name, **settings):
    """A scheduler of real tasks: devices 0 to 2, each at one of the edges 3 to 5."""
    nodes = [Node(f"c{k}", "device", "device", cores=1, clock=1e9) for k in range(3)]
    nodes += [Node(f"e{k}", "edge", "edge", cores=2, clock=1e9) for k in range(3)]
    scene = Scene.build(tuple(nodes))
    offered = {"corais": {"regions": {"all": "*"}, "central": {}, "every": 0.25, "missed": 3, "takes": 0.0, **settings}}
    found = HostPolicy(name, 0.0, scene, SimpleNamespace(scene=scene, offered=offered))
    columns = {
        "host": np.tile(np.arange(3, 6, dtype=np.int32), 3), "serving": np.repeat(np.arange(3, 6, dtype=np.int32), 3),
        "transfer": WAY.ravel(), "assigned": np.zeros(9, np.int32), "up": np.ones(9, bool),
    }  # fmt: skip
    found.heard([Frame("reach", 0.0, np.repeat(np.arange(3, dtype=np.int32), 3), columns)])
    return found


def record(number, device, work, at=0.0):
    task = SourceTask(at, device, 1e5, 1e4, work, 1e5)
    return TaskRecord(number, 0, task, at)


LOAD = SimpleNamespace(memory=0.0, deadline=1.0)


def placed(policy, time, records, waiting):
    return policy.place(time, {one.serial: one for one in records}, waiting, [LOAD], lambda _device, _load: {3, 4, 5})


def test_real_tasks_wait_for_briefs_and_answers_as_simulated_ones_do():
    """As above: 0.3 s to the scheduler, its round at 0.5 s, 0.1 s for the decision, and 0.3 s back."""
    one = real_policy("cosim.extensions.corais.tests.test_territory:Here", central={"all": "e1"}, takes=0.1)
    found = [placed(one, t, [record(0, 0, 1e9)], {0}) for t in (0.0, 0.25, 0.4, 0.5, 0.75, 0.89, 0.9)]
    assert found == [{}] * 6 + [{0: 5}]
    assert one.summary()["rounds"] == 1


def test_work_of_real_tasks_under_way_counts_until_they_end():
    one = real_policy("cosim.extensions.corais.tests.test_territory:Watching", central={"all": "e2"})
    assert placed(one, 0.0, [record(0, 2, 3e9)], {0}) == {0: 5}
    placed(one, 0.25, [record(0, 2, 3e9), record(1, 2, 1e9, 0.25)], {1})
    placed(one, 0.5, [record(2, 2, 1e9, 0.5)], {2})  # both have ended
    seen = one._chosen.policy.seen
    scale = [float((found.slope + found.offset).max()) for found in seen]
    assert scale == pytest.approx([1.0] * 3)
    longest = [3.0, 2.0, 5.0 / 3.0]  # s, of all equal inputs so far: the mean of their work at 1 GHz
    assert [found.own_work[2] * s for found, s in zip(seen, longest, strict=True)] == pytest.approx([0.0, 1.5, 0.0])


def test_hosts_that_a_real_task_cannot_go_to_get_none():
    one = real_policy("cosim.extensions.corais.tests.test_territory:Here", central={"all": "e1"})
    records = {0: record(0, 1, 1e9)}
    assert one.place(0.0, records, {0}, [LOAD], lambda _device, _load: {3, 4}) == {0: 4}
    assert one.place(0.0, records, {0}, [LOAD], lambda _device, _load: set()) == {}


class Watching(Here):
    """Keeps the instances that it decides."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def solve(self, instance):
        self.seen.append(instance)
        return super().solve(instance)
