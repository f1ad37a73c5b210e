"""What the interval model does, one behaviour at a time."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.extensions.cosco.interval import (
    QUIRKS,
    ContainerArrivals,
    ContainerWorkload,
    HostFleet,
    Interval,
    Type,
    aiotbench,
    azure_fog,
    batch,
    bitbrain_fog,
    bitbrains,
    compatible,
    compiled,
    defog,
    simple_fog,
    static,
)
from cosim.extensions.cosco.interval.fleet import POWER, table
from cosim.extensions.cosco.interval.layout import FIGURES, POLICIES
from cosim.extensions.cosco.interval.quirks import CONSTANT_COST, switches
from cosim.extensions.cosco.interval.replicas import PARAMETERS
from cosim.extensions.cosco.interval.workload import MIPS_PER_MHZ, traces
from tests.extensions import needs

HOST = Type(1000.0, 1000.0, 1000.0, (100.0, 100.0), (100.0, 100.0), 10.0, 20.0, (50.0, 150.0), 0.5, 0.36)
BUILT_IN = POLICIES[1:]


def loads(*rows, mips=500.0, peak=1000.0, ram=100.0, samples=None):
    """One profile; rows of (interval of creation, MI, deadline in intervals)."""
    demand = np.zeros((1, len(samples or [0]), 6))
    demand[0, :, 0] = mips if samples is None else samples
    demand[0, :, 1] = ram
    workload = ContainerWorkload(
        ("p",), demand, np.array([demand.shape[1]]), np.array([peak]), np.zeros(1), np.ones(1), work=np.zeros(1),
        due=np.ones((1, 2), np.int64),
    )  # fmt: skip
    return workload.replay([(created, 0, work, due) for created, work, due in rows])


def alone(*rows, hosts=2, quirks=(), length=100.0, **options):
    settings = {key: options.pop(key) for key in ("mips", "peak", "ram", "samples") if key in options}
    fleet = HostFleet((HOST,), (0,) * hosts, router=100.0)
    return Interval(fleet, loads(*rows, **settings), 1, policy=None, quirks=quirks, length=length, **options)


def test_a_container_is_transferred_and_gets_the_spare_mips():
    one = alone((0, 40_000.0, 1), slots=3)
    row = one.step([(0, 0)])
    ended = one.drain()
    assert row["completed"] == 1
    assert ended["begun"][0] == pytest.approx(100.0 / 20.0 + 0.5)
    assert ended["finish"][0] == ended["response"][0] == pytest.approx(5.5 + 40.0)
    busy = 40.0 * 150.0 + 60.0 * 50.0
    assert row["energy"] == pytest.approx(busy + 100.0 * 50.0)
    assert row["utilisation"] == pytest.approx(0.4 / 2)
    assert row["cost"] == pytest.approx(2 * 0.36 * 100.0 / 3600.0)


def test_two_containers_share_until_one_ends():
    one = alone((0, 10_000.0, 1), (0, 30_000.0, 1), hosts=1, slots=2, ram=0.0)
    one.step([(0, 0), (1, 0)])
    # 0.5 s latency; both at 500 MIPS until the first is done after 20 s, then the other at 1000
    np.testing.assert_allclose(one.drain()["finish"], [20.5, 20.5 + 20.0])


def test_a_long_transfer_goes_on_in_the_next_interval_or_takes_work_back():
    row = (0, 50_000.0, 9)
    fair = alone(row, ram=3000.0, hosts=1)
    fair = Interval(
        replace(fair.fleet, types=(replace(HOST, ram=4000.0),)), fair.workload, 1, policy=None, length=100.0
    )
    fair.step([(0, 0)])
    assert fair.world.slots["done"][0] == 0.0
    for _ in range(2):
        fair.step([])
    assert fair.drain()["finish"][0] == pytest.approx(150.5 + 50.0)
    odd = Interval(fair.fleet, fair.workload, 1, policy=None, length=100.0, quirks=["negative-run-time"])
    odd.step([(0, 0)])
    assert odd.world.slots["done"][0] < 0.0
    assert odd.world.slots["running"][0] < 0.0


def test_waiting_is_part_of_the_response():
    rows = [(0, 90_000.0, 3)] * 3
    one = alone(*rows, hosts=1, slots=1, ram=0.0)
    figures = [one.step([(0, 0)] if one.state().host[0] < 0 else []) for _ in range(3)]
    assert [row["waiting"] for row in figures] == [2.0, 1.0, 0.0]
    np.testing.assert_allclose(one.drain()["response"], [90.5, 190.5, 290.5])
    odd = alone(*rows, hosts=1, slots=1, ram=0.0, quirks=["execution-only-response"])
    for _ in range(3):
        odd.step([(0, 0)] if odd.state().host[0] < 0 else [])
    np.testing.assert_allclose(odd.drain()["response"], [90.5] * 3)


def test_a_deadline_is_kept_or_missed_to_the_moment():
    one = alone((0, 99_000.0, 1), (0, 99_900.0, 1), ram=0.0)
    row = one.step([(0, 0), (1, 1)])
    assert row["late"] == 0.0
    row = one.step([])
    assert row["completed"] == row["late"] == 1.0


def test_a_demand_of_zero_idles_or_retires():
    one = alone((0, 5e5, 9), samples=[500.0, 0.0, 500.0], ram=0.0, peak=500.0)
    one.step([(0, 0)])
    assert [one.step([])["active"] for _ in range(3)] == [1.0] * 3
    odd = alone((0, 5e5, 9), samples=[500.0, 0.0, 500.0], ram=0.0, peak=500.0, quirks=["zero-retires"])
    odd.step([(0, 0)])
    assert odd.step([])["active"] == 0.0


def test_an_overloaded_host_shares_or_stands_still():
    options = {"samples": [400.0, 900.0, 900.0], "ram": 0.0, "hosts": 1, "slots": 2}
    rows = [(0, 9e5, 99), (0, 9e5, 99)]
    one, odd = alone(*rows, **options), alone(*rows, **options, quirks=["overload-stops"])
    for simulation in (one, odd):
        simulation.step([(0, 0), (1, 0)])
    assert one.step([])["utilisation"] == pytest.approx(1.0)
    assert odd.step([])["utilisation"] == 0.0


def test_hosts_without_containers_can_be_off():
    one = alone((0, 40_000.0, 1), (2, 40_000.0, 1), switch_off=True, boot=20.0, ram=0.0)
    first = one.step([(0, 0)])
    assert first["energy"] == pytest.approx(40.0 * 150.0 + 60.0 * 50.0)
    assert one.step([])["energy"] == 0.0
    one.step([(0, 0)])
    np.testing.assert_allclose(one.drain()["finish"], [40.5, 200.0 + 20.0 + 40.0])


def test_a_container_that_fits_nowhere_waits_at_the_front():
    one = alone((0, 1e4, 9), (0, 1e4, 9), hosts=1, slots=2, mips=800.0, ram=0.0)
    row = one.step([(1, 0), (0, 0)])
    assert (row["started"], row["refused"], row["waiting"]) == (1.0, 1.0, 1.0)
    assert one.drain()["container"].tolist() == [0]  # the older one, whatever the order of the decisions
    assert one.state().container.tolist() == [1]


def test_a_host_that_fails_loses_its_containers():
    one = alone((0, 5e6, 9), (0, 5e6, 9))
    one.step([(0, 0), (1, 1)])
    one.fail([0])
    ended = one.drain()
    assert ended["container"].tolist() == [0]
    assert np.isnan(ended["finish"]).all()
    assert one.step([])["energy"] < 100.0 * 150.0 + 1e-6
    assert one.state().up.tolist() == [False, True]
    one.recover([0])
    assert one.state().up.all()
    for act in (one.fail, one.recover):
        with pytest.raises(ValueError, match="there is no host 2; there are 0 to 1"):
            act([1, 2])
    assert one.state().up.all()


@pytest.mark.parametrize("name", [n for n, q in QUIRKS.items() if q.part == "step"])
def test_each_quirk_changes_something(name):
    fleet = azure_fog(10)
    slow = replace(fleet, types=tuple(replace(kind, up=3.0, down=4.0, disk_rates=(60, 10)) for kind in fleet.types))
    chance = np.random.Generator(np.random.PCG64(4))
    demand = chance.uniform(100.0, 2500.0, (6, 9, 6))
    demand[:, :, 1] = chance.uniform(0.0, 2000.0, (6, 9))
    demand[:, :, 2:] = 5.0
    demand[0, 3, 0] = 0.0
    workload = traces(list("abcdef"), demand, np.full(6, 2600.0), np.ones(6), ContainerArrivals("poisson", 3.0))
    workload = replace(workload, duration=(4.0, 1.0))
    runs = []
    counting = ["order-dependent", "last-host-source"]  # what the two rules of counting need
    beside = counting if name in ("moves-recounted", "new-counted-apart") else []
    for quirks in (beside, [*beside, name]):
        one = Interval(slow, workload, 3, policy="shuffle", quirks=quirks)
        runs.append((one.run(60), one.drain()))
    same = all(np.array_equal(runs[0][0][k], runs[1][0][k]) for k in FIGURES)
    same &= all(np.array_equal(runs[0][1][k], runs[1][1][k], equal_nan=True) for k in runs[0][1])
    assert not same


def test_quirks_of_fleet_workload_and_cost():
    odd = azure_fog(10, frozenset({"latency-by-index"})).hosts()[0]["latency"]
    assert odd.tolist() == [0.003] * 6 + [0.076] * 4
    assert azure_fog(10).hosts()[0]["latency"].tolist() == [0.003] * 8 + [0.076] * 2
    assert bitbrain_fog(3, frozenset({"swapped-bandwidth"})).hosts()[0]["up_link"].tolist() == [2000, 4000, 10000]
    usage = np.full((2, 12), 600.0)
    fair = bitbrains(usage, 1000.0, 8000.0, network_kb_s=(7.0, 9.0))
    strange = bitbrains(usage, 1000.0, 8000.0, network_kb_s=(7.0, 9.0), quirks=frozenset({"bitbrains-units"}))
    assert fair.demand[0, 0].tolist() == [600.0 * MIPS_PER_MHZ, 8.0, 0.0, 0.0, 0.0, 0.0]
    assert strange.demand[0, 0].tolist() == [600.0 * MIPS_PER_MHZ, 2.0, 0.007, 0.009, 0.0, 0.0]
    assert Interval(azure_fog(10), static(300.0), 1, quirks=["constant-cost"]).cost() == CONSTANT_COST
    assert pytest.approx(782.4) == CONSTANT_COST
    one = Interval(azure_fog(10), static(300.0), 1)
    one.run(12)
    assert one.cost() == pytest.approx(4 * 0.0472 + 4 * 0.189 + 2 * 0.333)


def test_the_compatible_sets():
    assert "first-task-load" not in compatible()
    assert compatible() < compatible("simtune") == set(QUIRKS)
    assert switches([]).sum() == 0
    with pytest.raises(ValueError, match="there is no quirk 'x'"):
        switches(["x"])


@pytest.mark.parametrize("fleet", [azure_fog, bitbrain_fog, simple_fog])
def test_fleets_of_any_size(fleet):
    hosts, power = fleet(123).hosts()
    assert len(hosts) == len(power) == 123
    assert np.all(hosts["mips"] > 0)
    one = Interval(fleet(123), static(300.0), 1)
    assert one.run(20)["completed"].sum() > 0


def test_a_power_table_is_brought_to_eleven_points():
    np.testing.assert_allclose(table((10.0, 20.0)), np.linspace(10.0, 20.0, 11))
    np.testing.assert_allclose(table(POWER["B2s"]), POWER["B2s"])
    with pytest.raises(ValueError, match="two points"):
        table((1.0,))


def test_containers_come_as_the_laws_say():
    for law, mean in (("poisson", 1.2), ("poisson", 40.0), ("normal", 5.0)):
        one = Interval(azure_fog(1), static(300.0, ContainerArrivals(law, mean, 1.5)), 2, keep=False)
        come = one.run(4000)["arrived"]
        expected = mean - 0.5 if law == "normal" else mean  # the normal one is cut to whole numbers
        assert come.mean() == pytest.approx(expected, abs=4 * come.std() / 60)
        if law == "poisson":
            assert come.var() == pytest.approx(mean, rel=0.1)
        else:
            assert come.min() >= 1.0


@pytest.mark.parametrize(
    "workload", [aiotbench(arrivals=ContainerArrivals(mean=3)), defog(arrivals=ContainerArrivals(mean=3))]
)
def test_applications_come_by_their_weights(workload):
    one = Interval(simple_fog(20), workload, 2)
    one.run(600)
    ended = one.drain()
    counts = np.bincount(ended["profile"], minlength=len(workload.names)) / len(ended["profile"])
    np.testing.assert_allclose(counts, workload.share / workload.share.sum(), atol=0.05)
    assert ended["work"].mean() == pytest.approx(400_000.0, rel=0.05)
    assert set((ended["deadline"] / 300.0).tolist()) == {5.0, 6.0, 7.0}


def test_traces_give_the_work_of_their_first_samples():
    demand = np.zeros((1, 50, 6))
    demand[0, :, 0] = np.arange(1, 51)
    demand[0, 40:, 0] = np.nan
    workload = replace(traces(["a"], demand, [100.0], [1.0]), duration=(20.0, 0.0))
    one = Interval(simple_fog(3), workload, 2, length=10.0)
    one.run(30)
    assert set(one.drain()["work"].tolist()) == {10.0 * sum(range(1, 25))}


@given(st.integers(0, 2**64 - 1), st.sampled_from(BUILT_IN), st.booleans())
@settings(max_examples=25, deadline=None)
def test_the_books_close(seed, policy, odd):
    fleet = azure_fog(20)
    one = Interval(
        fleet, static(300.0, ContainerArrivals("poisson", 3.0)), seed, policy=policy, quirks=compatible() if odd else ()
    )
    figures = one.run(60)
    last = {name: values[-1] for name, values in figures.items()}
    # under the peer's rules the ends of the last interval are booked in the one that is open now
    done = figures["completed"].sum() + (one.world.row[FIGURES.index("completed")] if odd else 0)
    assert figures["arrived"].sum() + one.world.row[0] == one.world.rules["created"][0]
    active = np.count_nonzero(one.world.slots["container"] >= 0)
    assert one.world.rules["created"][0] == done + active + one.world.rules["queued"][0]
    assert len(one.drain()["container"]) == done
    assert figures["energy"].sum() == pytest.approx(one.world.hosts["energy"].sum())
    assert figures["cost"].sum() == pytest.approx(one.world.hosts["cost"].sum())
    assert figures["started"].sum() == one.world.rules["created"][0] - last["waiting"] - one.world.row[0]
    if not odd:
        ended_work = one.world.hosts["busy"].sum()
        assert ended_work <= 60 * 300.0 * one.world.hosts["mips"].sum()


@pytest.mark.parametrize("policy", BUILT_IN)
@pytest.mark.parametrize("quirks", [(), compatible()], ids=["corrected", "compatible"])
def test_a_snapshot_goes_back_to_the_bit(policy, quirks):
    one = Interval(azure_fog(20), static(300.0, ContainerArrivals("poisson", 6.0)), 9, policy=policy, quirks=quirks)
    one.run(17)
    kept = one.snapshot()
    first, ended = one.run(40), one.drain()
    one.restore(kept)
    again, ended_again = one.run(40), one.drain()
    assert all(first[name].tobytes() == again[name].tobytes() for name in first)
    assert all(ended[name].tobytes() == ended_again[name].tobytes() for name in ended)


def test_steps_and_runs_are_the_same():
    runs = [Interval(azure_fog(20), static(300.0), 9, policy="shuffle") for _ in range(2)]
    whole = runs[0].run(30)
    single = [runs[1].step() for _ in range(30)]
    assert all(whole[name].tolist() == [row[name] for row in single] for name in FIGURES)


def test_a_policy_of_ones_own_sees_what_it_decides_about():
    seen = []

    def decide(view):
        seen.append(view)
        new = view.slot[view.host < 0]
        return np.stack([new, np.full(len(new), np.argmin(view.demanded / view.mips))], axis=1)

    one = Interval(azure_fog(20), static(300.0), 4, policy=decide)
    figures = one.run(25)
    assert [view.interval for view in seen] == list(range(1, 26))
    assert figures["started"].sum() > 40
    view = seen[-1]
    placed = view.host >= 0
    assert view.demanded.sum() == pytest.approx(view.demand[placed].sum())
    assert np.all(view.remaining > 0.0)


def test_batch_is_what_single_runs_are_with_any_number_of_workers():
    fleet, workload = azure_fog(20), static(300.0, ContainerArrivals("poisson", 4.0))
    seeds = range(5)
    single = [Interval(fleet, workload, seed, policy="first-fit").run(30) for seed in seeds]
    for workers in (1, 2, 3):
        many = batch(fleet, workload, seeds, 30, workers=workers, policy="first-fit")
        assert many.figures.shape == (1, 5, 30, len(FIGURES))
        for number, one in enumerate(single):
            assert all(many[name][0, number].tobytes() == one[name].tobytes() for name in FIGURES)


def test_a_batch_of_parameters_meets_the_same_containers():
    fleet, workload = azure_fog(10), replace(static(300.0, ContainerArrivals("poisson", 2.0)), spread=0.3)
    values = {name: [1.0, 1.0] for name in PARAMETERS} | {
        "overhead": [0.0, 20.0], "arrivals": [2.0, 2.0], "spread": [0.3, 0.3], "speed": [1.0, 2.0],
    }  # fmt: skip
    many = batch(fleet, workload, [1, 2], 50, parameters=values, policy="round-robin")
    plain = batch(fleet, workload, [1, 2], 50, policy="round-robin")
    assert many.figures[0].tobytes() == plain.figures[0].tobytes()
    assert np.array_equal(many["arrived"][0], many["arrived"][1])
    assert np.all(many.totals()["response"][0] != many.totals()["response"][1])


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_every_parameter_has_an_effect(name):
    fleet, workload = azure_fog(10), replace(static(300.0, ContainerArrivals("poisson", 2.0)), spread=0.3)
    slow = replace(fleet, types=tuple(replace(kind, up=5.0, down=5.0) for kind in fleet.types))
    changed = {"arrivals": 3.0, "spread": 0.6, "overhead": 9.0}.get(name, 1.3)
    neutral = {"arrivals": 2.0, "spread": 0.3, "overhead": 0.0}.get(name, 1.0)
    many = batch(slow, workload, [1], 40, parameters={name: [neutral, changed]}, policy="shuffle", workers=1)
    assert many.figures[0].tobytes() != many.figures[1].tobytes()


def test_a_batch_whose_queues_grow_beyond_the_ring():
    crowd = static(300.0, ContainerArrivals("poisson", 60.0))
    many = batch(azure_fog(2), crowd, [1, 2], 60, policy="first-fit")
    single = Interval(azure_fog(2), crowd, 2, policy="first-fit").run(60)
    assert single["waiting"][-1] > 2000
    assert many["waiting"][0, 1].tolist() == single["waiting"].tolist()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Interval(azure_fog(0), static(1.0), 1), "at least one host"),
        (lambda: Interval(azure_fog(1), static(1.0), 1, policy="best"), "there is no policy 'best'"),
        (lambda: Interval(azure_fog(1), static(1.0), 1, length=0.0), "an interval of 0.0 s"),
        (lambda: Interval(azure_fog(1), static(1.0), 1, length=5.0, boot=6.0), "a boot time of 6.0 s"),
        (lambda: Interval(azure_fog(1), static(1.0), 1, overhead=-1.0), "an overhead of -1.0 s"),
        (lambda: Interval(azure_fog(1), static(1.0), 1, slots=0), "0 slots"),
        (lambda: Interval(azure_fog(1), static(1.0, ContainerArrivals(mean=-1.0)), 1), "must not be negative"),
        (lambda: Interval(azure_fog(1), replace(static(1.0), due=None), 1), "needs 'due'"),
        (lambda: Interval(azure_fog(1), static(1.0).replay([(0, 9, 1, 1)]), 1), "a profile of 0..3"),
        (lambda: Interval(replace(azure_fog(1), router=0.0), static(1.0), 1), "must be positive"),
        (lambda: Interval(azure_fog(1), static(1.0), 1).step([(0, 7)]), "there are hosts 0..0"),
        (lambda: Interval(azure_fog(1), static(1.0), 1).step([(5, 0)]), "slot 5, which has no container"),
        (lambda: alone((0, 1.0, 1)).step([(0, 0), (0, 1)]), "the same slot"),
        (lambda: bitbrains(np.ones((1, 20)), 1.0, 1.0), "none of 1 machines"),
        (lambda: batch(azure_fog(1), static(1.0), [1], 1, parameters={"x": [1.0]}), "no parameter 'x'"),
        (lambda: batch(azure_fog(1), static(1.0), [1], 1, policy=lambda view: []), "built-in policies only"),
        (
            lambda: batch(azure_fog(1), static(1.0), [1], 1, parameters={"work": [1.0], "speed": [1.0, 2.0]}),
            "different lengths",
        ),
    ],
)
def test_mistakes_are_said(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_it_says_that_it_is_compiled():
    assert compiled()


def test_the_page_names_every_quirk_and_parameter():
    page = (Path(__file__).parents[4] / "docs" / "benchmarks" / "interval.md").read_text("utf-8")
    missing = [name for name, quirk in QUIRKS.items() if f"| `{name}` | {quirk.wrong}" not in page]
    assert not missing


def test_gaps_in_a_machine_s_record_are_left_out():
    usage = np.full((2, 30), np.nan)
    usage[0, 5:] = 600.0 + np.arange(25)
    usage[1, ::2] = 700.0
    workload = bitbrains(usage, 1000.0, np.arange(60.0).reshape(2, 30) * 1000)
    assert workload.length.tolist() == [25, 15]
    np.testing.assert_allclose(workload.demand[0, :25, 0], (600.0 + np.arange(25)) * MIPS_PER_MHZ)
    np.testing.assert_allclose(workload.demand[1, :15, 1], np.arange(30.0, 60.0, 2.0))


BITBRAINS = Path(__file__).resolve().parents[4] / "../shared/data/cloud_traces/bitbrains"


@pytest.mark.data
@needs("traces")
@pytest.mark.skipif(not BITBRAINS.is_dir(), reason="the real input data is not beside the checkout")
@pytest.mark.parametrize("quirks", [frozenset(), compatible()], ids=["corrected", "compatible"])
def test_real_machines_run(quirks):
    from cosim.extensions.traces.bitbrains import read_packed

    found = read_packed(BITBRAINS / "bitbrains_small_usage.csv.gz", BITBRAINS / "bitbrains_small_vms.csv")
    capacity = found.cores * found.clock / 1e6
    usage = found.utilisation * capacity[:, None]
    busiest = usage * (1000.0 / np.nanmean(usage, axis=1))[:, None]  # so that all are of the size that counts
    workload = bitbrains(
        busiest, np.full(len(capacity), 4000.0), 1e6, arrivals=ContainerArrivals("normal", 5.0, 1.5), quirks=quirks
    )
    one = Interval(azure_fog(50, quirks), workload, 7, quirks=quirks, policy="least-loaded")
    figures = one.run(200)
    assert figures["completed"].sum() > 100
    assert np.isfinite(one.drain()["response"]).all()
