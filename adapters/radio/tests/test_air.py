"""Devices in the air: laws by height, antenna patterns, and what is told of single cells."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from cosim.adapters.radio import ADAPTER
from cosim.adapters.radio.check import problems
from cosim.adapters.radio.config import RadioConfig
from cosim.adapters.radio.keys import Sector
from cosim.adapters.radio.tests.test_radio_adapter import CALM, RADIO, phone, scene, started, station
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Node
from cosim.contract.errors import ScenarioError
from cosim.contract.frame import fault
from cosim.contract.signals import LINK, NEIGHBOUR_CELL
from cosim.physics.radio import aerial, pathloss, power


def with_sector(node, **keys):
    return dataclasses.replace(node, keys=(Sector.model_validate(keys).written(),))


def drone(name, x, z, y=0.0):
    return Node(name, "uav", "device", (x, y, z), radio=RADIO)


def links(adapter):
    link = adapter.step(0.0, Inputs({}, []))[0]
    assert fault(link, LINK, 100) == ""
    return link


def test_distance_and_path_loss_are_those_of_the_law():
    link = links(started(scene(station("bs", 0.0), phone("p", 200.0)), **CALM))
    distance = math.hypot(200.0, 8.5)
    assert link["distance"][0] == pytest.approx(distance)
    assert link["pathloss"][0] == pytest.approx(pathloss.close_in(distance, 3.5e9, 3.1))


def test_a_device_that_hears_nothing_has_no_distance():
    link = links(started(scene(station("bs", 0.0), phone("p", 5000.0)), range="1 km", **CALM))
    assert np.isnan(link["distance"][0])
    assert np.isnan(link["pathloss"][0])


@pytest.mark.parametrize("model", ["rma-av", "uma-av", "umi-av"])
def test_path_loss_in_the_air_is_that_of_the_law_within_its_shadowing(model):
    drones = [drone(f"d{i}", 400.0, 120.0, y=float(i)) for i in range(64)]
    link = links(started(scene(station("bs", 0.0, height=25.0), *drones), model=model, interference=False))
    law = {"rma-av": aerial.RMA_AV, "uma-av": aerial.UMA_AV, "umi-av": aerial.UMI_AV}[model]
    args = (law, 400.0, 25.0, 121.5, 3.5e9)
    seen = aerial.los_loss(*args)
    high = link["pathloss"] - seen
    assert np.median(np.abs(high)) < 2.0 * aerial.shadowing(*args, True)
    assert (link["cell"] == 0).all()


def test_a_drone_high_above_hears_the_side_lobes():
    down = with_sector(
        station("bs", 0.0), downtilt="8 deg", vertical_beamwidth="10 deg", side_lobes="20 dB", front_to_back="25 dB"
    )
    ground, high = links(started(scene(down, phone("p", 80.0), drone("d", 20.0, 100.0)), **CALM))["rsrp"]
    free = links(started(scene(station("bs", 0.0), phone("p", 80.0), drone("d", 20.0, 100.0)), **CALM))["rsrp"]
    elevation = math.degrees(math.atan2(-8.5, 80.0))
    assert free[0] - ground == pytest.approx(12.0 * ((elevation + 8.0) / 10.0) ** 2, abs=1e-6)
    assert free[1] - high == pytest.approx(20.0)


def test_an_antenna_s_pattern_is_no_path_loss():
    plain, back = station("bs", 0.0), with_sector(station("bs", 0.0), azimuth="270 deg")
    losses = [links(started(scene(s, phone("p", 100.0)), **CALM)) for s in (plain, back)]
    assert losses[0]["pathloss"][0] == pytest.approx(losses[1]["pathloss"][0])
    assert losses[0]["rsrp"][0] - losses[1]["rsrp"][0] == pytest.approx(30.0)


def test_three_sectors_share_the_directions():
    sectors = [with_sector(station(f"s{k}", 0.0), azimuth=f"{120 * k} deg") for k in range(3)]
    around = [drone(f"d{k}", 100.0 * math.sin(a), 0.0, y=100.0 * math.cos(a)) for k, a in enumerate(
        math.radians(120.0 * k + 10.0) for k in range(3)
    )]  # fmt: skip
    assert links(started(scene(*sectors, *around), **CALM))["cell"].tolist() == [0, 1, 2]


def test_height_costs_what_the_file_says():
    where = scene(station("bs", 0.0), drone("d", 100.0, 48.5))
    plain, lossy = (links(started(where, height_loss=loss, **CALM))["rsrp"][0] for loss in ("0 dB", "6 dB"))
    assert plain - lossy == pytest.approx(6.0 * 0.5)


def test_still_devices_keep_their_level():
    adapter = started(scene(with_sector(station("bs", 0.0), azimuth="0 deg"), phone("p", 100.0)), height_loss="5 dB")
    first, second = (adapter.step(float(k), Inputs({}, []))[0]["rsrp"][0] for k in range(2))
    assert first == second


def test_neighbours_are_told_by_distance():
    stations = [station(f"bs-{i}", 100.0 * i) for i in range(7)]
    adapter = started(scene(*stations, phone("p", 210.0), phone("q", -50.0)), neighbours=5, **CALM)
    *_, near = adapter.step(0.0, Inputs({}, []))
    assert near.signal == "neighbour_cell"
    assert fault(near, NEIGHBOUR_CELL, 100) == ""
    assert near.slot.tolist() == [7] * 5 + [8] * 5
    assert near["cell"].tolist() == [2, 3, 1, 4, 0, 0, 1, 2, 3, 4]
    assert near["rank"].tolist() == [1, 2, 3, 4, 5] * 2
    assert near["pathloss"][0] == pytest.approx(pathloss.close_in(math.hypot(10.0, 8.5), 3.5e9, 3.1))
    assert near["distance"][0] == pytest.approx(math.hypot(10.0, 8.5))


def test_without_neighbours_the_signal_is_not_written():
    ports = [ADAPTER.ports(RadioConfig.model_validate(keys)) for keys in ({}, {"neighbours": 5})]
    assert ["neighbour_cell" in p.writes for p in ports] == [False, True]


def test_keys_that_would_be_ignored_are_refused():
    around = with_sector(station("bs", 0.0), beamwidth="60 deg")
    lost = with_sector(phone("p", 10.0), azimuth="0 deg")
    with pytest.raises(ScenarioError) as caught:
        started(scene(around, lost), model="uma-av", height_loss="3 dB")
    assert [problem.path for problem in caught.value.problems] == [
        "nodes.bs.sector.beamwidth", "nodes.p.sector", "adapters.radio.height_loss",
    ]  # fmt: skip


@pytest.mark.parametrize(("model", "warned"), [("umi", 1), ("uma-av", 1), ("ci", 0)])
def test_carriers_beyond_a_law_are_told_once(model, warned):
    beyond = scene(*(station(f"bs-{i}", 100.0 * i, carrier=3.5e12) for i in range(3)), phone("p", 10.0))
    config = RadioConfig.model_validate({"model": model})
    found = problems(config, Context("radio", beyond, 1.0, 100.0, (1, 2, 3), ".", "."))
    assert [(p.path, p.fatal) for p in found] == [("nodes.bs-0.cell.carrier", False)] * warned
    assert all("'bs-0' and 2 more" in p.message for p in found)


@pytest.mark.parametrize("model", ["rma-av", "uma-av"])
def test_a_link_to_a_jammer_in_the_air_is_that_of_a_drone_there(model):
    """At 120 m there always is line of sight, whichever end is up there."""
    jammer = Node("j", "jammer", "device", (500.0, 0.0, 118.5), keys=(("jammer", '{"power":"30 dBm"}'),))
    phones = [Node(f"p{k}", "phone", "device", (0.0, float(k), 0.0), radio=RADIO) for k in range(64)]
    adapter = started(scene(station("bs", 0.0), *phones, jammer), model=model, interference=False, log=True)
    truth = next(frame for frame in adapter.step(0.0, Inputs({}, [])) if frame.signal == "jamming")
    channel = 10.0 * math.log10(51 * 12 * 30e3 / 20e6)  # part of its power on the resource blocks
    loss = 30.0 + channel - truth["jn_down"] - float(power.noise(51 * 12 * 30e3, RADIO.noise_figure))
    law = {"rma-av": aerial.RMA_AV, "uma-av": aerial.UMA_AV}[model]
    args = (law, 500.0, 1.5, 120.0, 3.5e9)
    assert np.median(np.abs(loss - aerial.los_loss(*args))) < 2.0 * aerial.shadowing(*args, True)


@pytest.mark.parametrize("fading", ["rician", "rayleigh"])
def test_fading_and_jammers_know_the_laws_of_the_air(fading):
    jammer = Node("j", "jammer", "device", (50.0, 0.0, 0.0), keys=(("jammer", '{"power":"30 dBm"}'),))
    where = scene(with_sector(station("bs", 0.0), azimuth="90 deg"), drone("d", 100.0, 60.0), jammer)
    calm = scene(with_sector(station("bs", 0.0), azimuth="90 deg"), drone("d", 100.0, 60.0))
    jammed, free = (links(started(one, model="uma-av", fading=fading)) for one in (where, calm))
    assert jammed["snr"][0] < free["snr"][0] - 10.0
