"""The radio adapter: what it makes of positions, traffic, events and identities."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from pydantic import ValidationError

from cosim.adapters.radio import ADAPTER
from cosim.adapters.radio.config import RadioConfig
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Event, Fleet, Node, Scene, SlotRange
from cosim.contract.errors import ScenarioError
from cosim.contract.frame import Frame, SlotTable, fault
from cosim.contract.node_keys import Cell, Radio
from cosim.contract.signals import CELL, LINK
from cosim.physics.radio import cells, nr, pathloss, power

RADIO = Radio()
CALM = {"shadowing": "0 dB", "interference": False}


def station(name, x, **changes):
    cell = {"power": 30.0, "gain": 8.0, "noise_figure": 5.0, "height": 10.0, "carrier": 3.5e9, "bandwidth": 20e6}
    return Node(name, "station", "edge", (x, 0.0, 0.0), cell=Cell.si(**{**cell, **changes}))


def scene(*nodes, capacity=0):
    fleet = Fleet("cars", "source", 0, capacity, Node("cars", "vehicle", "device", radio=RADIO))
    return Scene.build(nodes, (fleet,) if capacity else ())


def phone(name, x):
    return Node(name, "phone", "device", (x, 0.0, 0.0), radio=RADIO)


def started(where, seed=(1, 2, 3), **config):
    adapter = ADAPTER.build(RadioConfig.model_validate(config))
    adapter.start(Context("radio", where, 1.0, 100.0, seed, ".", "."))
    return adapter


def mobility(time, slots, x, table=None):
    n = len(slots)
    columns = {name: np.zeros(n) for name in ("x", "y", "z", "speed", "heading")}
    columns["x"] = np.asarray(x, np.float64)
    return Frame("mobility", time, np.asarray(slots, np.int32), columns, table)


def table(first, generations, epoch=1):
    ids = tuple(f"v{i}" for i in range(len(generations)))
    return SlotTable(first, ids, np.array(generations, np.int32), epoch)


def traffic(time, slots, uploads, downloads, sent=0.0, received=0.0):
    n = len(slots)
    columns = {
        "uploads": np.broadcast_to(np.int32(uploads), n).copy(),
        "downloads": np.broadcast_to(np.int32(downloads), n).copy(),
        "sent": np.broadcast_to(np.float64(sent), n).copy(),
        "received": np.broadcast_to(np.float64(received), n).copy(),
    }
    return Frame("traffic", time, np.asarray(slots, np.int32), columns)


def step(adapter, time=0.0, *, move=(), carry=(), events=()):
    link, cell = adapter.step(time, Inputs({"mobility": list(move), "traffic": list(carry)}, list(events)))
    assert fault(link, LINK, 1000) == ""
    assert fault(cell, CELL, 1000) == ""
    return link, cell


def test_without_a_cell_the_author_is_told_how_to_write_one():
    with pytest.raises(ScenarioError, match=r"no base station.* has a 'cell'.*cell: \{\}"):
        started(scene(phone("p", 0.0)))


def test_all_mistakes_in_cells_are_reported_together():
    lost = Node("lost", "station", "edge", None, cell=station("a", 0.0).cell)
    with pytest.raises(ScenarioError) as caught:
        started(scene(lost, station("wide", 0.0, bandwidth=1e9)))
    assert [problem.path for problem in caught.value.problems] == ["nodes.lost.at", "nodes.wide.cell.bandwidth"]


@pytest.mark.parametrize("wrong", [{"shadowing": 8.1}, {"shadowing": "-1 dB"}, {"model": "nr"}, {"exponents": 3.0}])
def test_wrong_configuration_is_refused(wrong):
    with pytest.raises(ValidationError):
        RadioConfig.model_validate(wrong)


def test_a_link_is_what_the_formulas_say():
    adapter = started(scene(station("bs", 0.0), phone("p", 200.0)), exponent=3.1, access_delay="1 ms", **CALM)
    link, cell = step(adapter)
    distance = math.hypot(200.0, 8.5)
    received = 38.0 - pathloss.close_in(distance, 3.5e9, 3.1)
    sinr = received - power.noise(51 * 12 * 30e3, 9.0)
    mcs = nr.mcs(nr.cqi(np.array([sinr])))
    errors = nr.bler(np.array([sinr]), mcs)
    assert link.slot.tolist() == [1]
    assert link["cell"].tolist() == [0]
    assert link["rsrp"][0] == pytest.approx(received - 10 * math.log10(12 * 51))
    assert link["snr"][0] == pytest.approx(float(sinr))
    assert link["downlink_rate"][0] == pytest.approx(float((nr.rate(mcs, 51, 0.75, 0.14) * (1 - errors))[0]))
    assert link["delay"][0] == pytest.approx(1e-3 + distance / pathloss.LIGHT)
    up = 23.0 + 8.0 - pathloss.close_in(distance, 3.5e9, 3.1) - power.noise(51 * 12 * 30e3, 5.0)
    mcs = nr.mcs(nr.cqi(np.array([up])))
    errors_up = nr.bler(np.array([up]), mcs)
    assert link["uplink_rate"][0] == pytest.approx(float((nr.rate(mcs, 51, 0.25, 0.08) * (1 - errors_up))[0]))
    assert link["loss"][0] == pytest.approx(max(errors[0], errors_up[0]) ** 4)
    assert cell["attached"].tolist() == [1]


@pytest.mark.parametrize("model", ["ci", "umi", "free-space"])
def test_farther_devices_have_weaker_links(model):
    phones = [phone(f"p{i}", x) for i, x in enumerate((50.0, 150.0, 450.0, 5000.0))]
    adapter = started(scene(station("bs", 0.0), *phones), model=model, shadowing="0 dB")
    link, _ = step(adapter)
    if model != "umi":
        assert (np.diff(link["rsrp"]) < 0).all()
        assert (np.diff(link["downlink_rate"]) <= 0).all()
    assert link["rsrp"][0] > link["rsrp"][3]


def test_without_coverage_there_is_no_rate():
    link, cell = step(started(scene(station("bs", 0.0), phone("p", 5000.0)), **CALM))
    assert link["cell"].tolist() == [-1]
    assert link["uplink_rate"].tolist() == link["downlink_rate"].tolist() == [0.0]
    assert link["loss"].tolist() == [1.0]
    assert np.isfinite(link["rsrp"]).all()
    assert cell["attached"].tolist() == [0]


def test_driving_past_two_stations_hands_over_once():
    adapter = started(scene(station("a", 0.0), station("b", 600.0), capacity=3), **CALM)
    served = []
    for k in range(61):
        link, _ = step(adapter, float(k), move=[mobility(float(k), [2], [10.0 * k])])
        served.append(int(link["cell"][0]))
    assert served[0] == 0
    assert served[-1] == 1
    assert link["handovers"].tolist() == [1]
    assert served.index(1) > 31  # hysteresis: not before the middle
    summary = adapter.finish()
    assert summary["handovers"] == 1
    assert summary["coverage"] == 1.0
    json.dumps(summary, allow_nan=False)


def test_hysteresis_saves_handovers_under_shadowing():
    def drive(hysteresis):
        where = scene(station("a", 0.0), station("b", 400.0), capacity=20)
        adapter = started(where, hysteresis=hysteresis, time_to_trigger="0 s")
        for k in range(60):
            step(adapter, float(k), move=[mobility(float(k), range(2, 22), 150.0 + k + np.arange(20))])
        return adapter.finish()["handovers"]

    assert drive("6 dB") < 0.6 * drive("0 dB")


def test_a_failed_station_serves_nobody_until_it_recovers():
    adapter = started(scene(station("a", 0.0), station("b", 600.0), phone("p", 100.0)), **CALM)
    down = Event(1.0, "fail", (SlotRange(0),))
    assert step(adapter, 0.0)[0]["cell"].tolist() == [0]
    link, cell = step(adapter, 1.0, events=[down])
    assert link["cell"].tolist() == [1]
    assert cell["attached"].tolist() == [0, 1]
    assert step(adapter, 2.0)[0]["cell"].tolist() == [1]
    step(adapter, 3.0, events=[Event(3.0, "recover", (SlotRange(0),))])
    assert step(adapter, 4.0)[0]["cell"].tolist() == [0]


def test_a_failed_device_has_no_link():
    adapter = started(scene(station("a", 0.0), phone("p", 100.0), phone("q", 100.0)), **CALM)
    assert step(adapter, events=[Event(0.0, "fail", (SlotRange(1),))])[0]["cell"].tolist() == [-1, 0]


def test_a_degraded_link_is_slower_later_and_lossy_until_restored():
    adapter = started(scene(station("a", 0.0), phone("p", 100.0), phone("q", 100.0)), **CALM)
    where = ((SlotRange(1),), (SlotRange(0),))
    before = step(adapter)[0]
    event = Event(1.0, "degrade", link=where, delay=0.12, loss=0.05, rate=0.5)
    link = step(adapter, 1.0, events=[event])[0]
    assert link["delay"][0] == pytest.approx(before["delay"][0] + 0.12)
    assert link["uplink_rate"][0] == pytest.approx(before["uplink_rate"][0] / 2)
    assert link["loss"][0] == pytest.approx(0.05, abs=1e-3)
    assert link["uplink_rate"][1] == before["uplink_rate"][1]
    restored = step(adapter, 2.0, events=[Event(2.0, "restore", link=(where[1], where[0]))])[0]
    assert restored["delay"].tolist() == before["delay"].tolist()


def test_active_devices_share_the_airtime():
    phones = [phone(f"p{i}", 50.0 + 100.0 * i) for i in range(4)]
    adapter = started(scene(station("a", 0.0), *phones), **CALM)
    alone, _ = step(adapter)
    link, cell = step(adapter, 1.0, carry=[traffic(0.0, [1, 2], [1, 2], 0)])
    assert link["uplink_rate"][0] == pytest.approx(alone["uplink_rate"][0] / 2)
    assert link["uplink_rate"][1] == pytest.approx(alone["uplink_rate"][1] / 2)  # its two uploads share it
    assert link["uplink_rate"][2] == pytest.approx(alone["uplink_rate"][2] / 3)  # it would be the third
    assert link["downlink_rate"].tolist() == alone["downlink_rate"].tolist()
    assert cell["active"].tolist() == [2]
    assert cell["rate"][0] == pytest.approx(link["uplink_rate"][0] + link["uplink_rate"][1])
    assert cell["rate"][0] <= alone["uplink_rate"].max()


def test_use_of_the_air_shows_as_utilisation_and_queueing():
    adapter = started(scene(station("a", 0.0), phone("p", 100.0)), **CALM)
    idle = step(adapter, 0.0)[0]
    step(adapter, 1.0, carry=[traffic(0.0, [1], 0, 1)])
    bits = 0.5 * float(idle["downlink_rate"][0])
    link, cell = step(adapter, 2.0, carry=[traffic(1.0, [1], 0, 1, received=bits / 8)])
    assert cell["utilisation"][0] == pytest.approx(0.75 * 0.5)
    wait = 1500 * 8 / float(idle["downlink_rate"][0])  # M/M/1 at half load: one service time
    assert link["delay"][0] - idle["delay"][0] == pytest.approx(wait)
    held = step(adapter, 3.0, carry=[traffic(1.0, [1], 0, 1, received=bits / 8)])[1]
    assert held["utilisation"].tolist() == cell["utilisation"].tolist()


def test_busy_neighbours_disturb_and_idle_ones_do_not():
    nodes = (station("a", 0.0), station("b", 500.0), phone("p", 150.0), phone("q", 450.0))
    adapter = started(scene(*nodes), shadowing="0 dB")
    quiet = step(adapter, 0.0)[0]
    step(adapter, 1.0, carry=[traffic(0.0, [2, 3], 1, 1)])
    loud = step(adapter, 2.0, carry=[traffic(1.0, [2, 3], 1, 1, sent=[0.0, 1e9], received=[0.0, 1e9])])[0]
    assert loud["snr"][0] < quiet["snr"][0] - 3.0
    assert loud["snr"][1] == pytest.approx(quiet["snr"][1])
    assert loud["uplink_rate"][0] < quiet["uplink_rate"][0]
    other = scene(station("a", 0.0), station("b", 500.0, carrier=3.7e9), *nodes[2:])
    apart = started(other, shadowing="0 dB")
    step(apart, 0.0)
    step(apart, 1.0, carry=[traffic(0.0, [2, 3], 1, 1)])
    clear = step(apart, 2.0, carry=[traffic(1.0, [2, 3], 1, 1, sent=[0.0, 1e9], received=[0.0, 1e9])])[0]
    assert clear["snr"][0] == pytest.approx(quiet["snr"][0])


def test_a_new_generation_starts_from_nothing():
    adapter = started(scene(station("a", 0.0), station("b", 600.0), capacity=1))
    drawn = []
    for k, generation in enumerate((0, 0, 1)):
        frame = mobility(float(k), [2], [100.0], table(2, [generation], epoch=generation + 1))
        drawn.append(step(adapter, float(k), move=[frame])[0])
    assert drawn[0]["rsrp"].tolist() == drawn[1]["rsrp"].tolist()
    assert drawn[2]["rsrp"][0] != drawn[1]["rsrp"][0]
    for x in (100.0, 300.0, 550.0, 600.0):
        last = step(adapter, 9.0, move=[mobility(9.0, [2], [x], table(2, [1], 2))])[0]
    assert last["handovers"][0] > 0
    fresh = step(adapter, 10.0, move=[mobility(10.0, [2], [100.0], table(2, [2], 3))])[0]
    assert fresh["handovers"].tolist() == [0]


def test_links_depend_on_nobody_else():
    where = scene(station("a", 0.0), station("b", 500.0), capacity=9)
    together, alone = (started(where) for _ in range(2))
    for k in range(5):
        order = np.random.default_rng(k).permutation(9)
        many = step(together, float(k), move=[mobility(float(k), 2 + order, 50.0 * order + 7 * k)])[0]
        one = step(alone, float(k), move=[mobility(float(k), [6], [50.0 * 4 + 7 * k])])[0]
        row = many.slot.tolist().index(6)
        assert many["rsrp"][row] == one["rsrp"][0]
        assert many["cell"][row] == one["cell"][0]


def test_the_seed_alone_decides():
    where = scene(station("a", 0.0), phone("p", 100.0))
    first, again, other = (step(started(where, seed=seed))[0] for seed in ((1,), (1,), (2,)))
    assert first.same_as(again)
    assert first["rsrp"][0] != other["rsrp"][0]


def test_a_flying_station_is_where_mobility_says():
    adapter = started(scene(station("a", 0.0), phone("p", 1000.0)), **CALM)
    far = step(adapter)[0]["rsrp"][0]
    near = step(adapter, 1.0, move=[mobility(1.0, [0], [900.0])])[0]["rsrp"][0]
    assert near > far + 20


def test_the_machine_code_fits_whatever_the_frames_are_like():
    adapter = started(scene(station("a", 0.0), station("b", 600.0), capacity=3))
    for k, locked in enumerate((False, True)):
        frames = mobility(float(k), [2, 3, 4], [1.0, 2.0 + k, 3.0]), traffic(float(k), [2, 3, 4], 1, 1)
        for array in (frame.slot for frame in frames):
            array.flags.writeable = not locked
        for array in (frame[name] for frame in frames for name in frame.columns):
            array.flags.writeable = not locked
        step(adapter, float(k), move=frames[:1], carry=frames[1:])
    assert len(cells.receive.signatures) == len(cells.associate.signatures) == 1
    assert ADAPTER.is_compiled()


def test_nobody_present_is_an_empty_frame():
    link, cell = step(started(scene(station("a", 0.0), capacity=3)))
    assert len(link) == 0
    assert cell["attached"].tolist() == [0]


def test_a_run_without_devices_has_a_summary():
    adapter = started(scene(station("a", 0.0)))
    step(adapter)
    summary = adapter.finish()
    assert summary["mean_snr"] is None
    json.dumps(summary, allow_nan=False)
    adapter.close()
    adapter.close()


def test_proportional_fair_cells_give_more_under_fading_and_the_same_without():
    nodes = [station("a", 0.0), *(phone(f"p{k}", 500.0 + k) for k in range(6))]
    rates = {}
    for fading in ("none", "rayleigh"):
        for scheduler in ("round-robin", "proportional-fair"):
            adapter = started(
                scene(*nodes), fading=fading, scheduler=scheduler, delay_spread="300 ns", log=True, **CALM
            )
            total = []
            for time in range(40):
                carry = traffic(float(time), range(1, 7), 1, 1)
                made = adapter.step(float(time), Inputs({"traffic": (carry,)}))
                found = {frame.signal: frame for frame in made}
                total.append(found["link"]["downlink_rate"])
                assert found["ue"]["prbs"].sum() == pytest.approx(51.0)
            rates[fading, scheduler] = np.array(total)
    assert rates["none", "round-robin"] == pytest.approx(rates["none", "proportional-fair"])
    gain = rates["rayleigh", "proportional-fair"].mean(axis=0) / rates["rayleigh", "round-robin"].mean(axis=0)
    assert (gain > 1.1).all()
    assert (gain < sum(1.0 / k for k in range(1, 7))).all()  # that of rates in proportion to power
