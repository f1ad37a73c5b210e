"""What a drone took last, as the dashboard shows it."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest

from cosim.physics.vehicles.weeds import FILE, WeedField, growth
from cosim.report.web.pictures import SIDE, Pictures, parts

REPORTED = {"taken": 3.0, "x": 5.0, "y": 5.0, "heading": 90.0, "pixel": 0.005, "light": 2e4, "found": 7.0}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "logs" / "vehicle").mkdir(parents=True)
    field = WeedField(0.0, 0.0, 1.0, np.full((10, 10), 1.0))
    field.save(tmp_path / "logs" / "vehicle" / FILE, growth((1,)), {"uav": (4000, 2000)})
    return tmp_path


def test_a_picture_is_rendered_small_and_kept_until_there_is_another(folder):
    pictures = Pictures(folder)
    data = pictures.png("uav", REPORTED)
    assert data.startswith(b"\x89PNG")
    assert [int.from_bytes(data[k : k + 4], "big") for k in (16, 20)] == [SIDE, SIDE // 2]
    assert pictures.png("uav", REPORTED) is data
    assert pictures.png("uav", {**REPORTED, "x": 6.0}) != data


def test_who_has_no_picture_has_none(folder, tmp_path):
    assert Pictures(folder).png("tractor", REPORTED) is None
    assert Pictures(folder).png("uav", {}) is None
    assert Pictures(folder).png("uav", {**REPORTED, "taken": math.nan}) is None
    assert Pictures(None).png("uav", REPORTED) is None
    (folder / "logs" / "vehicle" / FILE).write_bytes(b"no field")
    assert Pictures(folder).png("uav", REPORTED) is None


def test_a_stream_has_each_picture_once_and_ends_with_its_run(folder):
    pictures, looks = Pictures(folder), []
    reported = [{}, REPORTED, REPORTED, {**REPORTED, "x": 6.0}]

    def look():
        looks.append(pictures.png("uav", reported[min(len(looks), 3)]))
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
