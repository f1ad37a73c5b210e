"""What happens to tasks, one behaviour at a time."""

import math

import numpy as np
import pytest

from cosim.engine.continuum import Engine, Kind, WorkloadStream
from cosim.engine.continuum.layout import CAPACITY, COMPLETED, DEADLINE, LEFT, LINK_FAILED, NO_COVERAGE, NODE_FAILED
from cosim.schedulers import BUILTIN
from tests.unit.engine.continuum.worlds import CLOCK, attach, every, exponential, field, fixed, system

NEAREST, LEAST_LOADED, CLOUD, LOCAL, RANDOM, ROUND_ROBIN, HYBRID = range(7)


def first(engine, until=60.0):
    engine.advance(until)
    ended = engine.drain()
    return {name: column[0].item() for name, column in ended.items()}


def test_a_task_takes_upload_computation_and_download():
    engine = field(every(100.0, 0.5 * CLOCK, size=1e6, back=5e5))
    attach(engine, 3, 0, rate=8e6, delay=0.02, loss=0.5)  # 0.5 MB/s of goodput
    task = first(engine, 120.0)
    start = task["created"]
    assert task["status"] == COMPLETED
    assert task["host"] == 0
    assert task["uploaded"] - start == pytest.approx(2.0 + 0.02)
    assert task["started"] == task["uploaded"]
    assert task["computed"] - task["started"] == pytest.approx(0.5)
    assert task["ended"] - task["computed"] == pytest.approx(1.0 + 0.02)


def test_the_way_to_the_cloud_adds_the_backhaul():
    engine = field(every(100.0, 3 * CLOCK, size=1e6, back=1e6), scheduler=CLOUD)
    attach(engine, 3, 0)
    task = first(engine, 120.0)
    assert task["host"] == 2
    assert task["uploaded"] - task["created"] == pytest.approx(1.0 + 0.1 + 0.010)
    assert task["computed"] - task["started"] == pytest.approx(1.0)
    assert task["ended"] - task["computed"] == pytest.approx(0.1 + 0.010 + 1.0)


def test_transfers_of_a_device_share_its_uplink():
    engine = field(every(0.5, 1.0, size=1e6, stop=0.999))
    attach(engine, 3, 0, rate=8e6)
    engine.advance(10.0)
    ended = engine.drain()
    assert len(ended["ended"]) == 2
    # 0.5 s alone, 1 s shared, 0.5 s alone
    np.testing.assert_allclose(ended["uploaded"] - ended["created"], [1.5, 1.5], rtol=1e-9)


def test_a_change_of_the_rate_holds_from_its_time_on():
    engine = field(every(100.0, 1.0, size=1e6))
    attach(engine, 3, 0, rate=8e6)
    start = engine.state.due[0]
    engine.advance(start + 0.25)
    attach(engine, 3, 0, rate=2e6)
    task = first(engine, start + 10.0)
    assert task["uploaded"] - task["created"] == pytest.approx(0.25 + 0.75 * 4)


def test_results_follow_the_device_to_its_new_cell():
    engine = field(every(100.0, CLOCK, size=1e3, back=1e6))
    attach(engine, 3, 0, rate=8e6)
    start = engine.state.due[0]
    engine.advance(start + 0.5)
    attach(engine, 3, 1, rate=8e6)
    task = first(engine, start + 20.0)
    assert task["host"] == 0
    assert task["ended"] - task["computed"] == pytest.approx(0.110 + 0.110 + 1.0)  # 0-2, 2-1, then the air


def test_a_fixed_link_needs_no_radio():
    engine = field(every(100.0, CLOCK, size=1e6), links=[(3, 0, 8e6, 0.1)])
    task = first(engine, 120.0)
    assert task["status"] == COMPLETED
    assert task["uploaded"] - task["created"] == pytest.approx(1.1)


def test_a_device_with_a_processor_computes_by_itself():
    engine = field(every(100.0, CLOCK, size=1e6), scheduler=LOCAL, device=Kind(cores=1, clock=CLOCK / 2))
    task = first(engine, 120.0)
    assert (task["host"], task["status"]) == (3, COMPLETED)
    assert task["ended"] - task["created"] == pytest.approx(2.0)


def test_no_coverage_after_the_patience():
    engine = field(every(100.0, CLOCK, size=1e6), patience=2.0)
    task = first(engine, 120.0)
    assert task["status"] == NO_COVERAGE
    assert task["ended"] - task["created"] == pytest.approx(2.0)
    assert task["host"] == -1


def test_changes_elsewhere_do_not_renew_the_patience():
    links = [(3, 0, 8e6, 0.0), (4, 1, 8e6, 0.0), (0, 1, 8e6, 0.001)]
    engine = field(every(100.0, 1.0), devices=2, links=links, patience=2.0)
    engine.set_links([0], [0.0], [0.0], [0.0])
    start = engine.state.due[0]
    for k in range(30):  # another device's link comes and goes, and every waiting task tries again each time
        engine.advance(start + 0.3 * k)
        engine.set_links([1], [k % 2], [0.0], [0.0])
    ended = engine.drain()
    mine = ended["device"] == 3
    assert ended["status"][mine].tolist() == [NO_COVERAGE]
    assert ended["ended"][mine][0] - start == pytest.approx(2.0)


def test_a_transfer_survives_an_outage_shorter_than_the_patience():
    engine = field(every(100.0, 1.0, size=1e6), patience=2.0)
    attach(engine, 3, 0, rate=8e6)
    start = engine.state.due[0]
    engine.advance(start + 0.5)
    attach(engine, 3, -1)
    engine.advance(start + 2.4)
    attach(engine, 3, 1, rate=8e6)
    task = first(engine, start + 9.0)
    assert task["status"] == COMPLETED
    assert task["uploaded"] - start == pytest.approx(2.4 + 0.5 + 0.220)  # then from cell 1 to host 0


def test_a_transfer_ends_with_an_outage_longer_than_the_patience():
    engine = field(every(100.0, 1.0, size=1e6), patience=2.0)
    attach(engine, 3, 0, rate=8e6)
    start = engine.state.due[0]
    engine.advance(start + 0.5)
    attach(engine, 3, -1)
    task = first(engine, start + 9.0)
    assert task["status"] == NO_COVERAGE
    assert task["ended"] - start == pytest.approx(2.5)


def test_tasks_of_a_device_that_leaves():
    engine = field(every(100.0, 1.0, size=1e6))
    attach(engine, 3, 0, rate=8e6)
    start = engine.state.due[0]
    engine.advance(start + 0.5)
    engine.vanish([3])
    assert first(engine, start + 0.5)["status"] == LEFT
    engine.advance(1000.0)
    assert engine.created == 1  # and it makes no more


def test_the_next_device_at_a_slot_draws_other_tasks():
    engine = field(WorkloadStream(rate=1.0, work=exponential(1.0)))
    attach(engine, 3, 0)
    engine.advance(20.0)
    engine.vanish([3])
    before = engine.drain()["work"]
    engine.appear([3], [1])
    attach(engine, 3, 0)
    engine.advance(40.0)
    assert not np.isin(engine.drain()["work"], before).any()


def test_a_full_host_refuses():
    engine = field(every(1.0, 100 * CLOCK), host=Kind(cores=1, clock=CLOCK, slots=2))
    attach(engine, 3, 0)
    engine.advance(4.5)
    assert engine.drain()["status"].tolist() == [CAPACITY] * (engine.created - 2)


@pytest.mark.parametrize("node", [0, 3])
def test_a_failing_host_or_device_takes_its_tasks_along(node):
    engine = field(every(100.0, 10 * CLOCK))
    attach(engine, 3, 0)
    start = engine.state.due[0]
    engine.advance(start + 1.0)
    engine.fail([node])
    assert first(engine, start + 1.0)["status"] == NODE_FAILED


def test_a_failed_device_makes_no_tasks_until_it_recovers():
    engine = field(every(1.0, 1.0))
    attach(engine, 3, 0)
    engine.fail([3])
    engine.advance(10.0)
    assert engine.created == 0
    engine.recover([3])
    engine.advance(20.0)
    assert engine.created == 10


def test_a_cell_that_fails_leaves_its_devices_without_coverage():
    engine = field(every(1.0, 1.0), patience=0.5)
    attach(engine, 3, 0)
    engine.fail([0])
    engine.advance(5.0)
    ended = engine.drain()
    assert set(ended["status"]) == {NO_COVERAGE}
    engine.recover([0])
    engine.advance(10.0)
    assert COMPLETED in engine.drain()["status"]


def test_hosts_that_are_all_down():
    engine = field(every(1.0, 1.0), links=[(3, 0, 8e6, 0.0), (3, 1, 8e6, 0.0)])
    engine.fail([0, 1, 2])
    engine.advance(1.5)
    assert set(engine.drain()["status"]) == {NODE_FAILED}


def test_a_broken_link_ends_what_is_on_it():
    engine = field(every(100.0, 1.0, size=100e6), scheduler=CLOUD)
    attach(engine, 3, 0, rate=1e12)
    start = engine.state.due[0]
    engine.advance(start + 1.0)
    engine.set_links([1], [0.0], [0.0], [0.0])
    task = first(engine, start + 1.0)
    assert (task["status"], task["host"]) == (LINK_FAILED, 2)


def test_no_way_to_the_host():
    engine = field(every(1.0, 1.0, size=1e3), scheduler=CLOUD)
    attach(engine, 3, 0)
    engine.set_links([0, 1, 2], 0.0, np.zeros(3), 0.0)
    engine.advance(1.5)
    assert set(engine.drain()["status"]) == {LINK_FAILED}
    engine.set_links([0, 1, 2], 1.0, np.zeros(3), 0.0)
    engine.advance(3.5)
    assert COMPLETED in engine.drain()["status"]


def test_tasks_go_round_a_broken_link():
    engine = field(every(100.0, 1.0, size=1e6), scheduler=CLOUD)
    attach(engine, 3, 0, rate=8e6)
    engine.set_links([1], [0.0], [0.0], [0.0])
    task = first(engine, 120.0)
    assert task["uploaded"] - task["created"] == pytest.approx(1.0 + 1.001 + 0.110)  # 0-1, 1-2


def test_a_degraded_link_is_slower_later_and_lossier():
    engine = field(every(100.0, 1.0, size=1e6), scheduler=CLOUD)
    attach(engine, 3, 0, rate=8e6)
    engine.set_links([1], [0.5], [0.3], [0.2])
    task = first(engine, 120.0)
    assert task["uploaded"] - task["created"] == pytest.approx(1.0 + 0.1 / 0.5 / 0.8 + 0.010 + 0.3)


def test_late_tasks_complete_or_are_dropped():
    load = every(100.0, 2 * CLOCK, deadline=0.5)
    late, dropped = field(load), field(load, drop_late=True)
    for engine in (late, dropped):
        attach(engine, 3, 0)
    task = first(late, 120.0)
    assert (task["status"], task["late"]) == (COMPLETED, 1)
    task = first(dropped, 120.0)
    assert (task["status"], task["late"]) == (DEADLINE, 0)
    assert task["ended"] - task["created"] == pytest.approx(0.5)


def test_power_follows_the_cores_in_use():
    engine = field(every(100.0, 4 * CLOCK))
    attach(engine, 3, 0)
    engine.advance(150.0)
    runs = engine.created
    meters = engine.meters([0, 1, 2])
    # node 0: one of two cores for 4 s per task, 15 W instead of 10 W
    np.testing.assert_allclose(meters.energy, [1500 + 5 * 4 * runs, 1500, 15000])
    np.testing.assert_allclose(meters.busy, [4 * runs, 0, 0])


def test_looking_changes_nothing_and_steps_do_not_matter():
    load = WorkloadStream(
        rate=3.0, work=exponential(0.6 * CLOCK), input=exponential(2e5), output=exponential(1e5), deadline=1.0
    )
    engines = [field(load, devices=5, scheduler=LEAST_LOADED, seed=9, drop_late=True) for _ in range(2)]
    columns = []
    for engine, step in zip(engines, (10, 1), strict=True):
        for k in range(5):
            attach(engine, 3 + k, k % 2, delay=0.003)
        parts = []
        for until in range(step, 201, step):
            engine.advance(float(until))
            engine.ledger()
            engine.meters([0, 3])
            parts.append(engine.drain())
        columns.append({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
    assert len(columns[0]["ended"]) > 2000
    for name, column in columns[0].items():
        assert column.tobytes() == columns[1][name].tobytes(), name
    for name, array in engines[0].state._asdict().items():
        if name not in ("meta", "ended"):
            assert array.tobytes() == getattr(engines[1].state, name).tobytes(), name
    one, other = (engine.ledger() for engine in engines)
    assert one.energy.tobytes() == other.energy.tobytes()
    assert one.input == other.input


def test_the_seed_decides():
    def works(seed):
        engine = field(WorkloadStream(rate=5.0, work=exponential(CLOCK / 10)), seed=seed)
        attach(engine, 3, 0)
        engine.advance(50.0)
        return engine.drain()["work"].tolist()

    assert works(1) == works(1)
    assert works(1) != works(2)


def test_a_source_draws_the_same_whatever_others_do():
    def works(devices):
        engine = field(WorkloadStream(rate=5.0, work=exponential(CLOCK / 100)), devices=devices)
        for k in range(devices):
            attach(engine, 3 + k, 0)
        engine.advance(50.0)
        ended = engine.drain()
        ours = ended["device"] == 3
        return ended["work"][ours][np.argsort(ended["created"][ours])][:150].tolist()

    assert works(1) == works(4)


def test_on_off_sources_keep_their_mean_rate():
    engine = field(WorkloadStream(rate=10.0, work=fixed(1.0), active=2.0, idle=6.0), devices=20)
    engine.advance(2000.0)
    assert engine.created / 20 / 2000 == pytest.approx(10.0 * 0.25, rel=0.05)


def test_share_start_and_stop():
    engine = field(every(1.0, 1.0, share=0.5, start=10.0, stop=20.0), devices=400)
    engine.advance(9.9)
    assert engine.created == 0
    engine.advance(100.0)
    assert engine.created % 10 == 0
    assert engine.created / 10 == pytest.approx(200, rel=0.15)


@pytest.mark.parametrize("name", BUILTIN)
def test_every_scheduler_completes_tasks(name):
    load = WorkloadStream(rate=2.0, work=exponential(CLOCK / 10), input=fixed(1e4))
    engine = field(load, devices=4, scheduler=list(BUILTIN).index(name), device=Kind(cores=1, clock=CLOCK))
    for k in range(4):
        attach(engine, 3 + k, k % 2)
    engine.advance(100.0)
    ended = engine.drain()
    assert np.all(ended["status"] == COMPLETED)
    hosts = set(ended["host"].tolist())
    expected = {"cloud": {2}, "local": {3, 4, 5, 6}, "nearest": {0, 1}}
    assert hosts == expected.get(name, hosts)
    if name in ("random", "round-robin", "least-loaded"):
        assert hosts >= {0, 1}


def test_hybrid_leaves_a_busy_host_for_the_cloud():
    engine = field(every(0.1, 10 * CLOCK), scheduler=HYBRID, threshold=2.0)
    attach(engine, 3, 0)
    engine.advance(0.95)
    state = engine.state
    assert state.hosts["assigned"].tolist() == [4, 0, engine.created - 4]


def nearest_of_ours(request, reach, hosts):
    """The nearest host, in Python."""
    best = -1
    for i in range(len(hosts)):
        if hosts[i]["up"] and reach[i] < math.inf and (best < 0 or reach[i] < reach[best]):
            best = i
    return best


def test_a_scheduler_in_python_decides_like_the_compiled_one():
    load = WorkloadStream(rate=3.0, work=exponential(CLOCK / 5), input=exponential(1e5))
    results = []
    for chosen in (NEAREST, nearest_of_ours):
        engine = field(load, devices=6, scheduler=chosen)
        for k in range(5):  # the last one has no coverage
            attach(engine, 3 + k, k % 2)
        engine.advance(50.0)
        attach(engine, 8, 1)
        engine.fail([0])
        engine.advance(100.0)
        results.append(engine.drain())
    assert len(results[0]["ended"]) > 1000
    for name, column in results[0].items():
        assert column.tobytes() == results[1][name].tobytes(), name


def test_a_wrong_answer_of_a_scheduler_is_named():
    engine = field(every(1.0, 1.0), scheduler=lambda request, reach, hosts: 7)
    with pytest.raises(ValueError, match=r"answered 7 .* 0\.\.2"):
        engine.advance(5.0)


def test_memory_grows_and_rows_are_used_again():
    engine = field(every(0.001, 100 * CLOCK), patience=1000.0)
    engine.advance(5.0)
    assert len(engine.state.tasks) >= 5000
    rows = len(engine.state.tasks)
    engine.vanish([3])
    assert len(engine.drain()["ended"]) == engine.created
    engine.appear([3], [1])
    engine.advance(9.0)
    assert len(engine.state.tasks) == rows


def test_time_does_not_go_back():
    engine = field(every(1.0, 1.0))
    engine.advance(2.0)
    with pytest.raises(ValueError, match="from 2 s to 1 s"):
        engine.advance(1.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda engine: attach(engine, 4, 0),
        lambda engine: attach(engine, -1, 0),
        lambda engine: attach(engine, 3, 4),
        lambda engine: engine.appear([4], [0]),
        lambda engine: engine.vanish([4]),
        lambda engine: engine.fail([-1]),
        lambda engine: engine.recover([4]),
    ],
)
def test_a_node_that_the_system_has_not_is_named(call):
    engine = field(every(1.0, 1.0))
    with pytest.raises(ValueError, match=r"there is no node (4|-1); the system has 4"):
        call(engine)


def test_a_link_or_workload_that_the_system_has_not_is_named():
    with pytest.raises(ValueError, match="there is no link 3; the system has 3"):
        field(every(1.0, 1.0)).set_links([3], 0.5, 0.0, 0.0)
    with pytest.raises(ValueError, match="not one of the 1 of the system"):
        Engine(system(["edge"], [Kind(cores=1, clock=CLOCK)], [every(1.0, 1.0)], [(0, 1)]), 1)


def test_the_end_of_a_run_ends_no_task():
    """What is under way stays so: the rows up to a time do not depend on how much longer the run is."""
    rows = []
    for end in (11.0, 14.0):
        engine = field(every(0.4, 0.1 * CLOCK, size=1e5))
        attach(engine, 3, 0, rate=8e6)
        engine.advance(5.0)
        attach(engine, 3, 0, rate=8e3)  # a crawl: transfers pile up
        engine.advance(9.0)
        attach(engine, 3, 0, rate=12e6)
        engine.advance(end)
        ended = engine.drain()
        rows.append({name: column[ended["ended"] <= 11.0] for name, column in ended.items()})
        assert engine.ledger().in_flight.sum() == engine.created - len(ended["ended"])
    assert all(column.tobytes() == rows[1][name].tobytes() for name, column in rows[0].items())
    late = rows[0]["ended"] > 9.0
    # those that crawled: their responses are far above all others, at whatever time that is
    response = rows[0]["ended"] - rows[0]["created"]
    assert response[late].max() > 3.0 > 1.0 > response[~late].max()


def test_a_lossy_link_that_is_degraded_loses_by_both_causes():
    """Of what survives a loss of 20 % another 50 % is lost: 40 % of the rate is left, not 30 %."""
    engine = field(every(10.0, 0.0, size=1e5), links=[(0, 1, 8e6, 0.0), (3, 0, 8e6, 0.0, 0.2, 0.0)])
    engine.set_links([1], [1.0], [0.0], [0.5])
    engine.advance(30.0)
    ended = engine.drain()
    assert ended["uploaded"][0] - ended["created"][0] == pytest.approx(1e5 / (1e6 * 0.8 * 0.5))
