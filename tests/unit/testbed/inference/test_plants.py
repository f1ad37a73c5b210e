"""Weeds in tiles: what hangs together is counted once, and crop rows are not weeds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cosim.physics.vehicles.tiles import Shot, judged, ppm, render
from cosim.physics.vehicles.weeds import Plants, WeedField, growth
from cosim.testbed.inference.kernels import kernels
from cosim.testbed.inference.plants import components, picture, weeds


def flooded(flags):
    """Labels by filling from each cell that has none."""
    labels, count = np.zeros(flags.shape, int), 0
    for start in np.argwhere(flags):
        if labels[tuple(start)]:
            continue
        count += 1
        open_ = [tuple(start)]
        while open_:
            line, column = open_.pop()
            inside = 0 <= line < flags.shape[0] and 0 <= column < flags.shape[1]
            if inside and flags[line, column] and not labels[line, column]:
                labels[line, column] = count
                open_ += [(line + y, column + x) for y in (-1, 0, 1) for x in (-1, 0, 1)]
    return labels, count


@settings(max_examples=60, deadline=None)
@given(flags=arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9))))
def test_components_are_those_of_a_flood(flags):
    labels, count = components(flags)
    wanted, many = flooded(flags)
    assert count == many
    assert len({*zip(labels.ravel().tolist(), wanted.ravel().tolist(), strict=True)} - {(0, 0)}) == many
    assert ((labels > 0) == flags).all()


def plants(density, *, rows):
    lines = np.array([[x, 0.0, x, 20.0] for x in np.arange(0.25, 20.0, 0.5)]) if rows else np.empty((0, 4))
    return Plants.of(WeedField(0.0, 0.0, 1.0, np.full((20, 20), density), lines), growth((3,)))


def found(grown, pixel, heading, light=5e4):
    sums = np.zeros(3, int)
    for k in range(6):
        shot = Shot(6.0 + k, 8.0 + k, heading, pixel, 256, 256, light)
        sums += judged(shot, grown, weeds(picture(ppm(render(grown, shot, k)))))
    return sums


def test_without_crop_nearly_all_weeds_are_found_and_little_else():
    there, hits, wrong = found(plants(2.0, rows=False), 0.006, 0.4)
    assert there > 20
    assert hits > 0.85 * there
    assert wrong < 0.1 * hits


@pytest.mark.parametrize("heading", [0.0, 0.9])
def test_crop_in_rows_is_left_out_whatever_the_direction(heading):
    grown = plants(0.0, rows=True)
    there, _, wrong = found(grown, 0.008, heading)
    crop = sum(len(Shot(6.0 + k, 8.0 + k, heading, 0.008, 256, 256).seen(grown)[0]) for k in range(6))
    assert there == 0
    assert wrong < 0.06 * crop


def test_in_the_dark_nobody_finds_anything():
    _, hits, wrong = found(plants(2.0, rows=False), 0.006, 0.0, light=50.0)
    assert hits < 0.1 * wrong


def test_the_kernel_says_where_the_weeds_are_and_refuses_what_is_no_picture():
    grown = plants(2.0, rows=False)
    shot = Shot(9.0, 9.0, math.pi, 0.006, 200, 200, 5e4)
    data = ppm(render(grown, shot))
    reported = kernels()["weeds"].run(data + b"\0" * 99, 1)
    assert reported == [(round(x, 1), round(y, 1)) for x, y in weeds(picture(data))]
    for wrong in (b"", b"P5\n2 2\n255\n", b"P6\n9 9\n255\nshort", b"P6\n0 9\n255\n"):
        with pytest.raises(ValueError, match="pixmap"):
            kernels()["weeds"].run(wrong, 1)
