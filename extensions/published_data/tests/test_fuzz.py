"""Published tables in any form: what is read of them is right, refused or noted."""

from __future__ import annotations

from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.extensions.published_data import battery, fiveg, noise, power
from cosim.extensions.published_data.tests.jobs.test_fiveg import COLUMNS
from cosim.extensions.published_data.tests.jobs.test_power import HEADER
from tests.unit.sources.forms import hold, refuses_bombs
from tests.unit.sources.test_fuzz import each

PHONES = [f"B_2020.01.03_10.00.00.csv,t,1.5,2.5,30,7,LTE,-90,-10,{k},9,-60,{k}000,-95,-11" for k in range(1, 9)]
SCORES = [f"{1000 + k},2023-09-{1 + k // 24:02d} {k % 24:02d}:00:00,7" for k in range(121)]
FLIGHTS = [f"{n},{k / 10},{4.1 - 0.001 * k - 0.01 * n:.4f}" for n in (1, 2, 3) for k in range(201)]
SERVERS = [",".join(["M", f"X{n}", "C", *(str(50 + n + 9 * k) for k in range(11))]) for n in (1, 2)]
LEVELS = [f"{100 + 3 * k},{40 + k},{-80 - k},{k % 2}" for k in range(9)]
TABLES = {
    "flights_10hz.csv": (battery.read, ["flight,t_s,battery_voltage", *FLIGHTS]),
    "spec_data.csv": (power.read_servers, [",".join(HEADER), *SERVERS]),
    "cpu__here_large.csv": (noise.read, ["value,starttime,VM_id", *SCORES]),
    "download_driving.csv": (fiveg.read_drives, [COLUMNS, *PHONES]),
    "filtered_even_altitudes.csv": (fiveg.read_flights, ["2D_Distance,altitude_m,RSRP,Cell_id", *LEVELS]),
}


def whole(found: object) -> str:
    """All that was read, so that two readings can be compared although they hold NaN."""
    parts = found if isinstance(found, list | tuple) else [found]
    return repr([astuple(one) if hasattr(one, "__dataclass_fields__") else one for one in parts])


@pytest.mark.parametrize("name", TABLES)
@each
@given(st.data())
def test_other_forms(tmp_path_factory, name, data):
    read, lines = TABLES[name]
    hold(lambda at: whole(read(at)), tmp_path_factory.mktemp("f"), {name: "\n".join(lines)}, data.draw)


@pytest.mark.slow
def test_bombs(tmp_path):
    read, lines = TABLES["spec_data.csv"]
    refuses_bombs(read, tmp_path, {"spec_data.csv": "\n".join(lines)})
