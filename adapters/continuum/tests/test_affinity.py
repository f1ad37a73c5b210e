"""Constraints on hosts: what the file says, what is refused, and that no scheduler breaks one."""

import math
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.adapters.continuum import ADAPTER
from cosim.adapters.continuum.affinity import tables
from cosim.adapters.continuum.tests.test_continuum_adapter import CLOUD, EDGE, UAV, begin, load, scene
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Affinity, Link, SlotRange
from cosim.contract.equipment import Accelerator
from cosim.contract.errors import ScenarioError
from cosim.contract.laws import Law
from cosim.contract.link import LinkState
from cosim.contract.signals import TASK_STATUS
from cosim.engine.continuum.layout import APART, BESIDE, JOIN, MOVE, RUN, UP
from cosim.scenario.load import load as load_scenario
from cosim.scenario.plan.scene import SceneBuilder
from cosim.schedulers import scheduler_names
from cosim.schedulers.state import LOCAL, decides
from tests.extensions import named

FROM = SlotRange(3, 4)
ANY = Affinity()


def hosts(*slots, workloads=()):
    return Affinity(tuple(map(SlotRange, slots)) or None, workloads)


def stream(name, rate, affinity=ANY, anti_affinity=ANY, **more):
    more = {"work": Law("exponential", 6e8), "arrivals": "poisson", "stop": 4.0, **more}
    return load(FROM, name=name, rate=rate, affinity=affinity, anti_affinity=anti_affinity, **more)


def world(*workloads, device=UAV):
    """Four sources by wire at two edge hosts, slots 0 and 1, and a cloud, slot 2."""
    nodes = (EDGE, replace(EDGE, id="edge-2"), CLOUD, *(replace(device, id=f"u{k}") for k in range(4)))
    links = [Link((SlotRange(0),), (SlotRange(1, 2),), LinkState(100e6, 0.02))]
    links += [Link((SlotRange(3 + k),), (SlotRange(k % 2),), LinkState(50e6, 0.002)) for k in range(4)]
    return scene(*nodes, links=tuple(links), workloads=workloads)


CONSTRAINED = world(
    stream("base", 3.0),
    stream("bound", 2.0, hosts(0, 2), Affinity(None, ("alone",))),
    stream("alone", 2.0, anti_affinity=hosts(1, workloads=("alone",))),
    stream("beside", 1.0, Affinity(None, ("base",))),
)


def there(engine):
    """(workloads, hosts) tasks in the engine's tables that are at a host or on their way to it."""
    s = engine.state
    tasks = s.tasks[np.isin(s.tasks["phase"], (UP, RUN, MOVE, JOIN)) & (s.tasks["host"] >= 0) & (s.tasks["join"] < 0)]
    place = s.nodes["host"][tasks["host"]]
    found = np.zeros((len(s.workloads), len(s.hosts)), int)
    np.add.at(found, (tasks["workload"][place >= 0], place[place >= 0]), 1)
    return found, tasks


def kept(engine, allowed, bonds):
    """No task is where it may not be, and no two share a host that are to be apart."""
    found, tasks = there(engine)
    np.testing.assert_array_equal(found, engine.state.beside)
    assert allowed[tasks["workload"], tasks["host"]].all()
    for one, other in zip(*np.nonzero(bonds == APART), strict=True):
        most = 1 if one == other else 0
        assert (np.minimum(found[one], found[other]) <= most).all()


def steps(scene, count, period, **config):
    """Steps of an adapter under a scheduler; the tasks that ended."""
    one = ADAPTER.build(ADAPTER.load_config()(**config))
    one.start(Context("continuum", scene, period, duration=count * period, seed=(1, 2, 3), root=".", scratch="."))
    allowed, bonds = tables(scene)
    rows = []
    for k in range(count + 1):
        rows.append(one.step(k * period, Inputs())[0])
        kept(one._engine, allowed, bonds)
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0].columns}


def spans(tasks, workload, host):
    """From the decision, when it was made, to the end of the computation of tasks at a host, by start."""
    mine = (tasks["workload"] == workload) & (tasks["host"] == host)
    return sorted(zip(tasks["created"][mine], tasks["computed"][mine], strict=True))


@pytest.mark.parametrize("name", named("schedulers", scheduler_names("task")))
def test_no_scheduler_per_task_breaks_a_constraint(name):
    here = CONSTRAINED
    if name == "local":
        here = world(
            stream("base", 1.0), stream("bound", 1.0, hosts(3, 4, 5, 6)), device=replace(UAV, cores=1, clock=2e9)
        )
    elif name == "cloud":
        here = world(stream("bound", 2.0, hosts(2)), stream("alone", 1.0, anti_affinity=Affinity(None, ("alone",))))
    tasks = steps(here, 30, 0.2, scheduler=name)
    done = tasks["status"] == TASK_STATUS.index("completed")
    assert done.sum() > 20
    if name in ("local", "cloud"):
        return
    tasks = {column: values[done] for column, values in tasks.items()}
    alone = [spans(tasks, 2, host) for host in range(3)]
    assert not alone[1]
    for host in (0, 2):
        for (_, end), (start, _) in pairwise(alone[host]):
            assert end <= start + 1e-12
        for start, end in alone[host]:
            assert not any(a < end - 1e-12 and start < b - 1e-12 for a, b in spans(tasks, 1, host))
    for host in range(3):
        base = spans(tasks, 0, host)
        for start, _ in spans(tasks, 3, host):
            assert any(a <= start <= b for a, b in base)


@pytest.mark.parametrize("decide", [pytest.param(None, marks=pytest.mark.slow), "300 ms"])
@pytest.mark.parametrize("name", named("schedulers", scheduler_names("interval")))
def test_no_scheduler_per_interval_breaks_a_constraint(name, decide):
    if name == "corais-exact":
        pytest.importorskip("highspy")
    tasks = steps(CONSTRAINED, 12, 0.25, scheduler=name, decide=decide)
    assert (tasks["status"] == TASK_STATUS.index("completed")).sum() > 5


@decides("interval")
def stubborn(state):
    """Any host for any task, whatever can be reached; placed ones move all the time."""
    return (state.tasks["chance"] * (len(state.hosts) + 1)).astype(int) - 1


def careless(request, reach, hosts):
    """Any host, or the device, whatever can be reached."""
    return min(int(request.chance * (len(hosts) + 1)), len(hosts)) - 1 if request.chance > 0.1 else LOCAL


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**32), nodes=st.lists(st.sets(st.integers(0, 6), min_size=1), min_size=3, max_size=3),
    apart=st.sets(st.sampled_from([*combinations(range(3), 2), (0, 0), (1, 1), (2, 2)])),
    policy=st.sampled_from(["stubborn", "careless"]), decide=st.sampled_from([None, "100 ms"]),
)  # fmt: skip
def test_a_policy_that_looks_at_nothing_breaks_no_constraint(seed, nodes, apart, policy, decide):
    names = "abc"
    loads = [
        stream(name, 3.0, hosts(*sorted(nodes[k] | {0})), Affinity(None, tuple(names[b] for a, b in apart if a == k)))
        for k, name in enumerate(names)
    ]
    here = world(*loads, device=replace(UAV, cores=1, clock=1e9))
    config = {"scheduler": f"{__name__}:{policy}", **({"decide": decide} if policy == "stubborn" else {})}
    one = ADAPTER.build(ADAPTER.load_config()(**config))
    one.start(Context("continuum", here, 0.05, duration=3.0, seed=(seed, 2, 3), root=".", scratch="."))
    allowed, bonds = tables(here)
    for k in range(40):
        one.step(0.05 * k, Inputs())
        kept(one._engine, allowed, bonds)


def test_one_at_a_time_is_the_loss_of_erlang():
    """Poisson arrivals at hosts that take one task each: B of Erlang's formula, whatever the law of the service."""
    offered, servers = 1.5, 2
    rate = 3.0
    hold = Law("exponential", offered / rate * 2e9)
    alone = stream(
        "alone",
        rate / 4,
        anti_affinity=hosts(2, workloads=("alone",)),
        work=hold,
        input=Law("fixed", 0.0),
        stop=math.inf,
    )
    quick = replace(world(alone), links=tuple(replace(link, state=LinkState(1e12, 0.0)) for link in world(alone).links))
    tasks = steps(quick, 40, 100.0, scheduler="least-loaded")
    lost = np.mean(tasks["status"] == TASK_STATUS.index("capacity"))
    terms = [offered**k / math.factorial(k) for k in range(servers + 1)]
    blocked = terms[-1] / sum(terms)
    assert len(tasks["task"]) > 11_000
    assert lost == pytest.approx(blocked, abs=4 * math.sqrt(blocked / len(tasks["task"])))  # some four deviations


@pytest.mark.parametrize(
    ("loads", "config", "reported"),
    [
        ([stream("a", 1.0, hosts(3))], {}, "no host of scheduler 'least-loaded' is left that can run its tasks"),
        ([stream("a", 1.0, hosts(0), hosts(0, 1))], {}, "no host of scheduler"),
        ([stream("a", 1.0, hosts(0))], {"scheduler": "cloud"}, "no host of scheduler 'cloud'"),
        ([stream("a", 1.0, hosts(0))], {"scheduler": "local"}, "its tasks run on 'u0', which makes them, and may not"),
        ([stream("a", 1.0, Affinity(None, ("a",)))], {}, "its tasks wait for 'a', whose tasks wait for them"),
        (
            [stream("a", 1.0, Affinity(None, ("b",))), stream("b", 1.0, Affinity(None, ("a",)))],
            {}, "its tasks wait for 'b', whose tasks wait for them",
        ),
        (
            [stream("a", 1.0, Affinity(None, ("b",))), stream("b", 1.0, anti_affinity=Affinity(None, ("a",)))],
            {}, "its tasks run beside those of 'b', and 'a' keeps away from 'b'",
        ),
        (
            [stream("a", 1.0, hosts(0, workloads=("b",))), stream("b", 1.0, hosts(1))],
            {}, "no host may run its tasks and those of 'b'",
        ),
    ],
)  # fmt: skip
def test_what_no_host_can_meet_is_refused(loads, config, reported):
    device = replace(UAV, cores=1, clock=1e9)
    with pytest.raises(ScenarioError, match=reported):
        begin(world(*loads, device=device), **{"scheduler": "least-loaded", **config})


def test_a_host_without_what_tasks_ask_for_is_none():
    gpu = replace(EDGE, id="gpu", accelerators=(Accelerator("gpu", 1, 1e12),))
    ask = load(SlotRange(2), accelerator="gpu", operations=Law("fixed", 1e9), affinity=hosts(0))
    link = Link((SlotRange(2),), (SlotRange(0, 2),), LinkState(100e6, 0.02))
    with pytest.raises(ScenarioError, match="can run its tasks"):
        begin(scene(EDGE, gpu, UAV, links=(link,), workloads=(ask,)), scheduler="nearest")
    begin(scene(EDGE, gpu, UAV, links=(link,), workloads=(replace(ask, affinity=hosts(1)),)), scheduler="nearest")


FILE = """\
apiVersion: cosim/v1
kind: Scenario
name: bound
run: {duration: 10 s}
adapters: {continuum: {scheduler: nearest}}
nodes:
  dev-[1..2]: {kind: device}
  edge-[1..3]: {kind: edge, cpu: 2 x 2 GHz}
links: [{between: ["dev-*", "edge-*"], rate: 100 Mbit/s}]
workloads:
  base: {from: "dev-*", arrivals: poisson 2 Hz, work: 1 Gcycles}
  vision:
    from: "dev-*"
    arrivals: poisson 2 Hz
    work: 1 Gcycles
    affinity: {hosts: "edge-*", workloads: [base]}
    anti_affinity: {hosts: [edge-3], workloads: [vision]}
"""


def test_the_file_names_hosts_by_selectors_and_workloads_by_name(tmp_path):
    (tmp_path / "a.yaml").write_text(FILE)
    found = load_scenario(tmp_path / "a.yaml")
    allowed, bonds = tables(SceneBuilder(found.scenario, found.world).scene())
    assert allowed.tolist() == [[1] * 5, [0, 0, 1, 1, 0]]
    assert bonds.tolist() == [[0, 0], [BESIDE, APART]]
    (tmp_path / "a.yaml").write_text(FILE.replace("[base]", "[bas]").replace("[edge-3]", "[edge-9]"))
    with pytest.raises(ScenarioError) as refused:
        load_scenario(tmp_path / "a.yaml")
    assert {str(one.path) for one in refused.value.problems} >= {
        "workloads.vision.affinity.workloads.0", "workloads.vision.anti_affinity.hosts.0",
    }  # fmt: skip
