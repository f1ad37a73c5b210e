import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.geo import FLATTENING, SEMI_MAJOR, LocalFrame, from_ecef, to_ecef

LATITUDE = st.floats(-90, 90)
LONGITUDE = st.floats(-180, 180)
HEIGHT = st.floats(-5_000, 100_000)


def test_known_points_on_the_ellipsoid() -> None:
    x, y, z = to_ecef([0, 0, 90], [0, 90, 0], [0, 0, 0])
    minor = SEMI_MAJOR * (1 - FLATTENING)
    assert np.allclose(x, [SEMI_MAJOR, 0, 0], atol=1e-8)
    assert np.allclose(y, [0, SEMI_MAJOR, 0], atol=1e-8)
    assert np.allclose(z, [0, 0, minor], atol=1e-8)
    assert minor == pytest.approx(6_356_752.3142, abs=1e-4)  # NIMA TR8350.2, derived constant


def test_one_degree_of_arc_at_the_equator() -> None:
    east, north, up = LocalFrame(0, 0).to_local(0, 1)
    assert east == pytest.approx(SEMI_MAJOR * np.sin(np.radians(1)))
    assert north == pytest.approx(0, abs=1e-9)
    assert up == pytest.approx(-SEMI_MAJOR * (1 - np.cos(np.radians(1))))


def test_height_is_up() -> None:
    frame = LocalFrame(39.36, 22.95, 60)
    assert [float(part) for part in frame.to_local(39.36, 22.95, 160)] == pytest.approx([0, 0, 100], abs=1e-6)


def test_steps_to_the_east_and_north_grow_latitude_and_longitude() -> None:
    latitude, longitude, height = LocalFrame(45, 10).to_wgs84([1000, 0], [0, 1000])
    assert longitude[0] > 10
    assert longitude[1] == pytest.approx(10)
    # length of a degree of latitude at 45 degrees on WGS84: 111,131.8 m
    assert 1000 / (latitude[1] - 45) == pytest.approx(111_131.8, rel=1e-4)
    assert height[1] == pytest.approx(1000**2 / (2 * 6.37e6), rel=0.01)  # the earth curves away


@given(LATITUDE, LONGITUDE, HEIGHT)
def test_ecef_and_back(latitude: float, longitude: float, height: float) -> None:
    back = from_ecef(*to_ecef(latitude, longitude, height))
    assert back[0] == pytest.approx(latitude, abs=1e-11)
    assert back[2] == pytest.approx(height, abs=1e-7)
    if abs(latitude) < 89.999:
        assert np.cos(np.radians(back[1] - longitude)) == pytest.approx(1, abs=1e-15)


@given(
    st.floats(-89, 89), LONGITUDE, st.floats(-100, 5_000),
    st.lists(st.tuples(*[st.floats(-200_000, 200_000)] * 2, st.floats(-1_000, 20_000)), min_size=1, max_size=5),
)  # fmt: skip
def test_local_and_back(
    latitude: float, longitude: float, height: float, points: list[tuple[float, float, float]]
) -> None:
    frame = LocalFrame(latitude, longitude, height)
    local = np.array(points).T
    back = np.array(frame.to_local(*frame.to_wgs84(*local)))
    assert back.shape == local.shape
    assert np.allclose(back, local, atol=1e-6)
