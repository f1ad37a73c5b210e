"""What a camera sees, as the dashboard shows it."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest

from cosim.contract.frame import Frame
from cosim.physics.vehicles.camera import Camera
from cosim.physics.vehicles.views import FILE, Scenery
from cosim.physics.vehicles.weeds import WeedField, growth
from cosim.report.web.pictures import SIDE, LivePictures, Pictures, parts
from cosim.talk.publish import TickSnapshot

NODES = [{"at": [0.0, 0.0, 0.0]}, {"at": None}, {"at": [5.0, 5.0, 0.0]}]


def seen(x=5.0, pitch=0.0):
    return {
        "m.node": np.array([1]), "m.x": np.array([x]), "m.y": np.array([5.0]), "m.z": np.array([12.0]),
        "m.heading": np.array([90.0]), "v.node": np.array([1]), "v.pitch": np.array([pitch]), "v.roll": np.array([0.0]),
        "c.node": np.array([1]), "c.light": np.array([2e4]),
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "logs" / "vehicle").mkdir(parents=True)
    field = WeedField(0.0, 0.0, 1.0, np.full((10, 10), 1.0))
    eye = Camera(1.2, 0.7, 4000, 2000, gimbal=False)
    mast = Camera(1.2, 0.7, 400, 200, tilt=1.2, mount=6.0)
    bodies = {1: (True, 0.4, 0.0), 3: (False, 1.0, 0.0)}
    Scenery(field, growth((1,)), {1: eye, 2: mast}, bodies).save(tmp_path / "logs" / "vehicle" / FILE)
    return tmp_path


def test_a_picture_is_rendered_small_and_kept_until_there_is_another(folder):
    pictures = Pictures(folder)
    data = pictures.png(1, NODES, seen())
    assert data.startswith(b"\x89PNG")
    assert [int.from_bytes(data[k : k + 4], "big") for k in (16, 20)] == [SIDE, SIDE // 2]
    assert pictures.png(1, NODES, seen()) is data
    assert pictures.png(1, NODES, seen(x=6.0)) != data
    assert pictures.png(1, NODES, seen(pitch=5.0)) != data


def test_a_mast_sees_from_where_it_stands_and_before_any_report(folder):
    pictures = Pictures(folder)
    alone = pictures.png(2, NODES, {})
    assert alone.startswith(b"\x89PNG")
    ahead = {"m.node": np.array([3]), "m.x": np.array([5.0]), "m.y": np.array([20.0]), "m.z": np.zeros(1),
             "m.heading": np.zeros(1)}  # fmt: skip
    assert pictures.png(2, NODES, ahead) != alone


def test_a_run_under_way_shows_what_its_newest_frames_report(folder):
    live, slot, names = LivePictures(folder), np.array([1], np.int32), ("mast", "uav", "other")
    scene = {"nodes": [{"id": name, **node} for name, node in zip(names, NODES, strict=True)]}
    place = {name: seen()[f"m.{name}"] for name in ("x", "y", "z", "heading")}
    turn = {name: np.zeros(1) for name in ("pitch", "roll")}
    first = (
        Frame("mobility", 1.0, slot, {**place, "x": np.zeros(1)}),
        Frame("picture", 1.0, slot, {"light": np.array([2e4])}),
    )
    then = (Frame("mobility", 2.0, slot, place), Frame("vehicle", 2.0, slot, turn))
    for time, frames in ((1.0, first), (2.0, then)):
        live.take(TickSnapshot(int(time), time, frames, scene=scene))
    assert live.png("uav") == Pictures(folder).png(1, NODES, seen())
    assert live.png("mast") is live.png("nobody") is None


def test_who_has_no_picture_has_none(folder, tmp_path):
    assert Pictures(folder).png(0, NODES, seen()) is None
    assert Pictures(folder).png(1, NODES, {}) is None
    assert Pictures(folder).png(1, NODES, seen(x=math.nan)) is None
    assert Pictures(None).png(1, NODES, seen()) is None
    (folder / "logs" / "vehicle" / FILE).write_bytes(b"no field")
    assert Pictures(folder).png(1, NODES, seen()) is None


def test_a_stream_has_each_picture_once_and_ends_with_its_run(folder):
    pictures, looks = Pictures(folder), []
    reported = [{}, seen(), seen(), seen(x=6.0)]

    def look():
        looks.append(pictures.png(1, NODES, reported[min(len(looks), 3)]))
        return looks[-1]

    async def read():
        return [part async for part in parts(look, lambda: len(looks) < 6)]

    *shown, end = asyncio.run(read())
    assert end == b"--picture--\r\n"
    assert len(shown) == 2
    for part, picture in zip(shown, (looks[1], looks[3]), strict=True):
        head, _, data = part.partition(b"\r\n\r\n")
        assert head == b"--picture\r\nContent-Type: image/png\r\nContent-Length: %d" % len(picture)
        assert data == picture + b"\r\n"
