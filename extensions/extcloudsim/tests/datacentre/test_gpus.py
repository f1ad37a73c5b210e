"""Machines with GPUs: a GPU is one machine's alone, and draws power by its own use."""

import numpy as np
import pytest

from cosim.contract.adapter import Context
from cosim.contract.entities import Accelerator, Node, Power, Scene
from cosim.contract.errors import ScenarioError
from cosim.engine.continuum.price import constant
from cosim.extensions.extcloudsim.adapter import ADAPTER
from cosim.extensions.extcloudsim.adapter.check import problems
from cosim.extensions.extcloudsim.datacentre.platforms import HostKind
from cosim.extensions.extcloudsim.tests.adapter.test_datacentre_adapter import begin, run
from cosim.extensions.extcloudsim.tests.datacentre.worlds import hosts_of, machines_of, model_of
from cosim.results.ledgers import ledger_faults

FLAT = HostKind(idle=50.0, full=150.0, resting=10.0)
PLACERS = ["best-fit", "power-aware", "dvfs", "first-fit", "worst-fit", "cost-aware"]


def with_gpus(arrays, gpus, **more):
    return arrays._replace(gpus=np.array(gpus, np.float64), **{k: np.array(v, np.float64) for k, v in more.items()})


def model_with(gpus, asked, utilisation, *, idle=30.0, span=270.0, **more):
    hosts = with_gpus(
        hosts_of(len(gpus), mips=8.0, ram=1e5), gpus, gpu_idle=[idle] * len(gpus), gpu_span=[span] * len(gpus)
    )
    machines = with_gpus(machines_of(len(asked)), asked)
    return model_of(utilisation, hosts=hosts, machines=machines, kinds=(FLAT,), **({"detector": "thr"} | more))


@pytest.mark.parametrize("placer", [*PLACERS, lambda state, machine, load, free: int(np.argmin(load))])
def test_no_host_has_more_machines_than_gpus_and_what_does_not_fit_waits(placer):
    rng = np.random.default_rng(4)
    model = model_with([4, 0, 2], [1, 2, 1, 2, 1, 0, 0], rng.uniform(0.0, 1.0, (7, 40)), placer=placer)
    for period in range(40):
        model.advance(300.0 * (period + 1))
        there = model.at >= 0
        held = np.bincount(model.at[there], model.machines.gpus[there], 3)
        assert (held <= model.hosts.gpus).all()
        assert there.sum() == 6  # 6 GPUs of 7 asked for
    assert model.ledger().away.sum() == pytest.approx(40 * 300.0)


def test_the_peers_procedure_keeps_to_gpus_too():
    model = model_with([1, 1], [1, 1], [[0.1] * 4] * 2, placer="best-fit", quirks=frozenset({"two-loads"}))
    model.advance(900.0)
    assert sorted(model.at.tolist()) == [0, 1]  # without GPUs one host would do


@pytest.mark.parametrize("until", [[600.0], [100.0, 450.0, 600.0]])
def test_energy_follows_the_use_of_gpus_to_the_joule(until):
    """Closed form: idle x GPUs of a host awake, and span x use of those that machines have."""
    more = {"at": np.zeros(1, np.int64), "gpu_utilisation": np.array([[0.25, 0.75]])}
    model = model_with([2], [1], [[0.5] * 2], **more)
    bare = model_with([2], [1], [[0.5] * 2], idle=0.0, span=0.0, **more)
    for time in until:
        model.advance(time)
        bare.advance(time)
    books = model.ledger()
    expected = 2 * 30.0 * 600.0 + 270.0 * 300.0 * (0.25 + 0.75)
    assert books.gpu_energy.sum() == pytest.approx(expected, rel=1e-12)
    assert books.energy.sum() == pytest.approx(bare.ledger().energy.sum() + expected, rel=1e-12)
    assert books.gpu_busy.sum() == pytest.approx(300.0)
    assert sum(bill.energy for bill in books.bills) == pytest.approx(books.energy.sum(), rel=1e-12)


def test_gpus_work_where_their_machine_runs_while_it_moves():
    model = model_with(
        [1, 1], [1], [[1.0]], at=np.zeros(1, np.int64), gpu_utilisation=np.array([[1.0]]), evacuate=False
    )
    model.advance(300.0)
    model.move(0, 1)
    spent = model.arrival[0] - model.time
    model.advance(450.0)  # nothing is decided
    assert 0.0 < spent < 150.0
    np.testing.assert_allclose(model.ledger().gpu_busy, [300.0 + spent, 150.0 - spent], rtol=1e-12)


def test_a_sleeping_hosts_gpus_are_off_and_a_cap_leaves_room_for_gpus():
    model = model_with([1, 8], [1], [[0.5] * 4], at=np.zeros(1, np.int64), caps=(constant(500.0),))
    model.advance(300.0)
    assert model.ledger().gpu_energy.tolist() == [300.0 * (30.0 + 270.0 * 0.5), 0.0]
    assert model.cap()[0] == pytest.approx(500.0 - 165.0)


def scene(*units):
    gpus = [(Accelerator("gpu", n, 1e13, idle=25.0, max=250.0),) if n else () for n in units]
    hosts = [
        Node(f"host-{i}", "server", "cloud", cores=8, clock=3e9, power=Power((50.0, 100.0)), accelerators=of)
        for i, of in enumerate(gpus)
    ]
    return Scene.build((Node("uav", "uav", "device"), *hosts))


def test_a_scenario_with_gpus():
    machines = {
        "train": {"count": 3, "cpu": "2 GHz", "gpus": 2, "gpu_utilisation": {"mean": "90 %", "noise": "5 %"}},
        "web": {"count": 4, "cpu": "1 GHz"},
    }
    adapter = begin(scene=scene(4, 2, 0), machines=machines)
    frames, _ = run(adapter)
    books = adapter.finish()
    assert ledger_faults(books) == []
    gpu = books["accelerators"]["gpu"]
    assert gpu["energy"]["host-2"] == gpu["busy"]["host-2"] == 0.0
    assert 0.7 * 6 * 3600.0 < sum(gpu["busy"].values()) < 6 * 3600.0
    assert books["energy"]["gpus"] == pytest.approx(sum(gpu["energy"].values()))
    assert frames["host"]["energy"].sum() == pytest.approx(books["energy"]["total"])
    # the processors alone would draw at most 100 W each
    assert sum(gpu["energy"].values()) == pytest.approx(6 * 25.0 * 3600.0 + 225.0 * sum(gpu["busy"].values()))


@pytest.mark.parametrize(
    ("machine", "units", "text"),
    [
        ({"gpus": 3}, (2, 1), "no host with memory for it has more than 2"),
        ({"gpus": 1, "ram": "900 GB"}, (2, 1), "no host can take it"),
    ],
)
def test_a_machine_that_no_host_has_gpus_for_is_refused(machine, units, text):
    with pytest.raises(ScenarioError, match=text):
        begin(scene=scene(*units), machines={"m": {"cpu": "1 GHz"} | machine})


def test_too_many_machines_for_the_gpus_are_a_warning():
    config = ADAPTER.load_config()(machines={"m": {"cpu": "1 GHz", "gpus": 1, "count": 4}})
    found = problems(config, Context("datacentre", scene(2, 1), 60.0, 3600.0, (1,), ".", "."))
    assert [(one.fatal, one.message) for one in found] == [
        (False, "the machines ask for 4 GPUs together, the hosts have 3")
    ]
