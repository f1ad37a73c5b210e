"""Tiles of a drone's pictures: what is sent shows the field, what comes back is judged by what grows there."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from cosim.adapters.live import ADAPTER
from cosim.adapters.live.check import problems
from cosim.adapters.live.config import LiveConfig, OffloadBlock
from cosim.adapters.live.tests.test_live_adapter import context, workload
from cosim.adapters.live.tests.test_live_real import real, scene
from cosim.adapters.live.tiles import TILE, Tiles
from cosim.contract.entities import SlotRange
from cosim.contract.frame import Frame, fault
from cosim.contract.laws import Law
from cosim.testbed.inference.plants import picture, weeds
from cosim.testbed.live.work import call

BLOCK = {"run": "forward", "kernel": "weeds", "path": "network", "pictures": "vehicle", "size": 200}
REPORTED = {"vehicle": {"weeds": "weeds.asc", "pictures": {"uav": [800, 600]}}}
TAKEN = {"pictures": 1, "taken": 3.0, "x": 10.0, "y": 10.0, "heading": 40.0, "pixel": 0.01, "area": 48.0,
         "light": 3e4, "found": 1.0, "density": 0.1}  # fmt: skip


@pytest.fixture
def given(tmp_path):
    """A drone over 20 x 20 m with two weeds per m2, and a house."""
    rows = "\n".join(["2 " * 20] * 20)
    (tmp_path / "weeds.asc").write_text(f"ncols 20\nnrows 20\nxllcorner 0\nyllcorner 0\ncellsize 1\n{rows}\n")
    load = workload(5.0, sources=(SlotRange(0),), input=Law("fixed", 130e3), output=Law("fixed", 400.0))
    found = scene(replace(real("uav", "device"), id="uav"), real("edge"), workloads=(load,))
    return replace(context(tmp_path, found), root=str(tmp_path), offered=REPORTED)


def config(**block):
    return LiveConfig.model_validate({"offload": {"detect": {**BLOCK, **block}}})


def taken(**values):
    columns = {name: np.array([value]) for name, value in {**TAKEN, **values}.items()}
    return Frame("picture", 3.0, np.array([0], np.int32), columns)


@pytest.fixture
def tiles(given):
    made = Tiles(config(), given)
    yield made
    made.close()


def tile(tiles, task):
    """What the device sends for `task`."""
    return tiles.send(task, "vehicle", tiles.ahead(0, "vehicle", 200).result(30))


def test_every_tile_of_a_picture_is_sent_once_before_one_is_sent_again(tiles):
    assert not picture(tile(tiles, 0)).any()  # nothing was taken yet
    tiles.take([taken(taken=math.nan)])
    assert not picture(tile(tiles, 1)).any()
    tiles.take([taken()])
    sent = [tile(tiles, k) for k in range(2, 14)]
    assert len(set(sent)) == 12
    painted = tiles.ahead(0, "vehicle", 200).result(30)
    assert tiles.send(5, "vehicle", painted) == tiles.send(5, "vehicle", painted)  # sent again, it is the same


def test_what_the_service_finds_is_judged_and_told(tiles):
    tiles.take([taken()])
    for task in range(12):
        places = weeds(picture(tile(tiles, task)))
        tiles.judge(task, 0, 1, json.dumps({"result": places}).encode().ljust(400))
    tile(tiles, 12)
    tiles.judge(12, 0, 1, b"no answer")
    frame = tiles.frame(4.0)
    assert fault(frame, TILE, 2) == ""
    assert len(frame.slot) == 12
    reported = tiles.summary()
    assert reported["looked_at"] == 12
    assert reported["weeds"] == frame["weeds"].sum() == pytest.approx(96, abs=40)  # of 48 m2
    assert reported["found"] == reported["hits"] + reported["false_alarms"]
    assert reported["recall"] > 0.8  # no crop stands in the way
    assert reported["precision"] > 0.8
    assert len(tiles.frame(5.0).slot) == 0


def test_a_device_sends_its_tile_and_fills_it_up(monkeypatch):
    sent = []

    def post(_connections, _host, _port, path, data, _deadline):
        sent.append((path, data))
        return json.dumps({"result": [], "came": 1.0, "queued": 0.0, "computed": 0.1, "clock": "x"}).encode()

    monkeypatch.setattr("cosim.testbed.live.work._post", post)
    data = b"P6\n9 9\n255\n" + bytes(range(243))
    task = {
        "to": "127.0.0.1:80",
        "cycles": 0.0,
        "kernel": "weeds",
        "least": 0.0,
        "size": 9,
        "output": 300,
        "bytes": 5000,
    }
    call({**task, "input": data}, 1e9, ["127.0.0.0/8"], 1e12)
    call({**task, "input": b""}, 1e9, ["127.0.0.0/8"], 1e12)
    assert [path for path, _ in sent] == ["/run/weeds?size=9&output=300"] * 2
    assert sent[0][1] == data + bytes(5000 - len(data))
    assert sent[1][1] == b"\x5a\xa5" * 2500


@pytest.mark.parametrize(
    ("block", "reported", "words"),
    [
        ({"pictures": "camera"}, REPORTED, "'camera' takes no pictures"),
        ({}, {"vehicle": {"weeds": None, "pictures": {}}}, "'vehicle' takes no pictures"),
        ({}, {"vehicle": {"weeds": "weeds.asc", "pictures": {"other": [9, 9]}}}, "uav: no camera"),
        ({"size": 300}, REPORTED, "a tile of 300 x 300 pixels has 270032 B"),
    ],
)
def test_pictures_that_cannot_be_sent_are_refused(given, block, reported, words):
    found = problems(config(**block), replace(given, offered=reported))
    assert any(words in problem.message for problem in found)


def test_tiles_are_for_the_kernel_that_reads_them():
    for wrong in ({"kernel": "blur"}, {"path": "management"}):
        with pytest.raises(ValidationError):
            OffloadBlock.model_validate({**BLOCK, **wrong})
    assert "tile" in ADAPTER.ports_of(config()).writes
    assert "tile" not in ADAPTER.ports_of(LiveConfig.model_validate({})).writes


def test_a_scene_with_pictures_is_accepted(given):
    assert [problem for problem in problems(config(), given) if problem.fatal and "wait" not in problem.hint] == []
