"""Daylight against what is known of the sun."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cosim.physics.vehicles.light import Daylight, elevation, illuminance


@pytest.mark.parametrize("latitude", [0.0, 39.36, 60.0])
@pytest.mark.parametrize(("month", "day", "tilt"), [(3, 20, 0.0), (6, 21, 23.44), (9, 22, 0.0), (12, 21, -23.44)])
def test_at_noon_the_sun_stands_at_90_degrees_less_latitude_plus_its_declination(latitude, month, day, tilt):
    highest = max(elevation(latitude, 0.0, datetime(2026, month, day, 11 + k // 60, k % 60, tzinfo=UTC))
                  for k in range(0, 120, 2))  # fmt: skip
    south = 90.0 - latitude + tilt
    assert highest == pytest.approx(min(south, 180.0 - south), abs=0.5)


def test_a_day_at_the_equinox_has_twelve_hours_on_every_latitude():
    for latitude in (0.0, 40.0, 60.0):
        up = [elevation(latitude, 22.95, datetime(2026, 3, 20, k // 60, k % 60, tzinfo=UTC)) > 0 for k in range(1440)]
        assert sum(up) / 60.0 == pytest.approx(12.0, abs=0.2)


def test_where_the_sun_stands_does_not_depend_on_the_clock_that_tells_the_time():
    there = datetime.fromisoformat("2026-05-12T11:00:00+03:00")
    assert elevation(39.36, 22.95, there) == elevation(39.36, 22.95, there.astimezone(UTC))


def test_light_grows_with_the_height_of_the_sun_and_shrinks_with_clouds():
    heights = [-18.0, -6.0, 0.0, 5.0, 30.0, 60.0, 90.0]
    found = [illuminance(height) for height in heights]
    assert found == sorted(found)
    assert 90e3 < illuminance(60.0) < 110e3  # a clear summer's noon has about 100 klx
    assert illuminance(60.0, 1.0) == pytest.approx(0.25 * illuminance(60.0))
    assert 1.0 < illuminance(-6.0) < 10.0  # the end of civil twilight has about 3 lx
    assert Daylight(39.36, 22.95, datetime(2026, 5, 12, 3, tzinfo=UTC)).at(7200.0) > 1e4
