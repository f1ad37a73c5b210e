"""Virtual machines on the bus."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from ruamel.yaml import YAML

from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Event, Node, Scene, SlotRange
from cosim.contract.equipment import Power
from cosim.contract.errors import ScenarioError
from cosim.contract.frame import fault
from cosim.contract.signals import CATALOGUE
from cosim.extensions.extcloudsim.adapter import ADAPTER, MIGRATION, SERVER
from cosim.results.ledgers import ledger_faults

HOSTS = tuple(
    Node(f"{place}-{i}", "server", tier, cores=4, clock=3e9, power=Power((50.0, 100.0, 120.0)))
    for place, tier in (("coal", "cloud"), ("sun", "edge"))
    for i in (1, 2)
)
SCENE = Scene.build((Node("uav", "uav", "device"), *HOSTS))
MACHINES = {"web": {"count": 6, "cpu": "2 GHz", "ram": "1 GB", "sla": 2}}
PLACES = {"coal": {"nodes": "coal-*"}, "sun": {"nodes": ["sun-*"], "price": "60 /MWh"}}


def begin(root=".", scene=SCENE, duration=3600.0, **config):
    adapter = ADAPTER.build(ADAPTER.load_config()(**({"machines": MACHINES} | config)))
    adapter.start(Context("datacentre", scene, 60.0, duration, (1, 2), str(root), "."))
    return adapter


def run(adapter, until=3600.0, every=60.0, events=()):
    moves = []
    for time in np.arange(0.0, until + 1.0, every):
        due = [event for event in events if time - every < event.at <= time]
        frames = {frame.signal: frame for frame in adapter.step(float(time), Inputs({}, due))}
        for name, frame in frames.items():
            signal = {"server": SERVER, "migration": MIGRATION}.get(name) or CATALOGUE[name]
            assert fault(frame, signal, SCENE.capacity) == ""
        moves.append(frames["migration"])
    return frames, moves


def test_an_hour_and_its_books():
    adapter = begin(places=PLACES, wan=[{"between": ["coal", "sun"], "rate": "200 Mbit/s"}])
    frames, moves = run(adapter)
    books = adapter.finish()
    assert ledger_faults(books) == []
    host = frames["host"]
    assert host.slot.tolist() == [1, 2, 3, 4]
    assert host["running"].sum() == 6
    assert host["energy"].sum() == pytest.approx(books["energy"]["total"])
    assert sum(books["energy"]["by_place"].values()) == pytest.approx(books["energy"]["total"])
    cost = books["cost"]
    assert cost["total"] == pytest.approx(cost["energy"] + cost["penalty"]["total"] + cost["transfer"])
    assert sum(len(frame) for frame in moves) == books["machines"]["migrations"]
    work = books["work"]
    assert work["wanted"] == pytest.approx(work["done"] + work["dropped"] + work["waiting"])


def test_compatible_physics_with_a_rule_switched_off():
    peer = {"physics": "compatible", "places": PLACES, "placer": "best-fit", "governor": "cost", "detector": "thr"}
    empty = {}
    for sleeps in (True, False):
        adapter = begin(**peer, quirks={"instant-off": not sleeps})
        frames, moves = run(adapter)
        books = adapter.finish()
        assert sum(len(frame) for frame in moves) == books["machines"]["migrations"] >= 6  # the first place is left
        assert frames["host"]["running"].tolist()[:2] == [0, 0]
        empty[sleeps] = frames["host"]["power"].min()
    assert empty == {True: 10.0, False: 0.0}


def test_events_and_disasters_take_hosts_down():
    events = [Event(400.0, "fail", (SlotRange(0, 3),)), Event(1000.0, "recover", (SlotRange(2),))]
    adapter = begin(places=PLACES, disasters=[{"at": "20 min", "place": "sun", "share": "50 %", "for": "10 min"}])
    frames, _ = run(adapter, events=events)
    books = adapter.finish()
    assert frames["host"]["up"].tolist() == [False, True, True, True]
    assert books["hosts"]["down"] == pytest.approx(3200.0 + 600.0 + 600.0)
    assert books["machines"]["restarts"] >= 1
    assert books["cost"]["penalty"]["crash"] > 0.0


def test_random_failures_repeat_with_the_seed():
    down = []
    for _ in range(2):
        adapter = begin(hosts={"*": {"mtbf": "20 min", "repair": "5 min"}})
        run(adapter)
        down.append(adapter.finish()["hosts"]["down"])
    assert down[0] == down[1] > 0.0


def test_traces_and_price_files(tmp_path):
    (tmp_path / "vms").mkdir()
    for i in range(2):
        (tmp_path / "vms" / f"vm-{i}").write_text("50\n60\n")
    (tmp_path / "price.txt").write_text("100\n200\n")
    machines = {"vm": {"count": 2, "cpu": "1 GHz", "ram": "1 GB", "traces": {"path": "vms", "scale": "1 %"}}}
    places = {"all": {"nodes": "*", "prices": "price.txt", "price_step": "30 min"}}
    adapter = begin(tmp_path, machines=machines, places=places)
    frames, _ = run(adapter)
    assert frames["server"]["demand"].sum() == pytest.approx(2 * 0.6 / 12.0)
    assert frames["server"]["price"][0] == pytest.approx(200.0 / 3.6e9)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"hosts": {"nobody": {}}}, "'nobody' names no host"),
        ({"places": {"moon": {"nodes": "moon-*"}}}, "place 'moon' has no host"),
        ({"quirks": {"odd": True}}, "no quirk 'odd'"),
        ({"physics": "compatible"}, "no placer 'power-aware'; known: best-fit, dvfs, first-fit"),
        ({"physics": "compatible", "placer": "dvfs", "places": {"all": {"nodes": "*", "cap": "1 kW"}}}, "no caps"),
        ({"disasters": [{"at": "1 s", "place": "moon"}]}, "disasters.0.place: there is no place 'moon'"),
        ({"wan": [{"between": ["moon", "moon"]}]}, "wan.0.between.1: leads from 'moon' to itself"),
        ({"detector": "nowhere.module:f"}, "cannot be imported"),
        ({"machines": {"a": {"cpu": "1 GHz", "ram": "1 GB", "traces": {"path": "gone.csv"}}}}, "gone.csv"),
        ({"places": {"all": {"nodes": "*", "prices": "gone.txt"}}}, "gone.txt"),
    ],
)
def test_mistakes_are_said_at_the_start(config, said, tmp_path):
    with pytest.raises(ScenarioError, match=said):
        begin(tmp_path, **config)


@pytest.mark.parametrize(
    "config",
    [
        {"machines": {}},
        {"machines": MACHINES, "relocate": True},
        {"machines": MACHINES, "hosts": {"*": {"platform": "epyc"}}},
        {"machines": MACHINES, "places": {"a": {"nodes": "*", "carbon": 300}}},
        {"machines": MACHINES, "threshold": "0 %"},
    ],
)
def test_configurations_that_make_no_sense_are_refused(config):
    with pytest.raises(ValidationError):
        ADAPTER.load_config()(**config)


README = (Path(__file__).parents[2] / "adapter/README.md").read_text()


@pytest.mark.parametrize("text", [part.split("```")[0] for part in README.split("```yaml\n")[1:]] + [ADAPTER.example])
def test_the_example_blocks_are_valid(text):
    block = YAML(typ="safe").load(text)
    ADAPTER.load_config()(**block.get("adapters", block)["datacentre"])
