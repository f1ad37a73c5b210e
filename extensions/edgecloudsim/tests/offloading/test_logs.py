"""The log files of EdgeCloudSim and of its extension, line by line."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.extensions.edgecloudsim.offloading.logs import java, prefix_of, write_logs
from cosim.extensions.edgecloudsim.offloading.simulation import Simulation
from cosim.extensions.edgecloudsim.offloading.study import Application, EdgePlace, OffloadingStudy, StudyLinks, Vm


def study(**changes):
    host = ((Vm(2, 1000.0), Vm(2, 1000.0)),)
    return OffloadingStudy(**({
        "model": "app1", "architecture": "two-tier-with-eo", "policy": "next-fit", "devices": 30, "duration": 240.0,
        "warm_up": 30.0, "dwell": (60.0, 50.0, 40.0), "links": StudyLinks(wlan=2e8, wan=15e6, wan_propagation=0.1),
        "applications": (
            Application("VIDEO", 60.0, 5.0, 45.0, 15.0, 1500.0, 25.0, 2000.0, 1, 20.0, 0.3, 2.0, 20.0, 2.0),
            Application("HEALTH", 40.0, 3.0, 45.0, 15.0, 100.0, 25.0, 900.0, 1, 20.0, 0.0, 0.0, 30.0, 2.0),
        ),
        "places": tuple(EdgePlace(f"p{k}", k, 0.0, k, k, host, (0.1, 3.0, 0.0, 0.0)) for k in range(3)),
        "cloud": ((Vm(4, 10000.0),) * 2,), "load_interval": 6.0, "location_interval": 60.0, "access_interval": 30.0,
    } | changes))  # fmt: skip


@pytest.fixture(scope="module")
def finished():
    simulation = Simulation(study(), 3, trace=True)
    simulation.advance(240.0)
    return simulation.outcome(), simulation.drain()


def lines(folder, name):
    first, *rest = (folder / name).read_text().splitlines()
    assert first.startswith("#")
    return [line.split(";") for line in rest]


def numbers(row):
    return [float(value.replace(",", ".")) for value in row]


def test_the_general_file_has_the_figures_in_their_places(finished, tmp_path):
    outcome, _ = finished
    write_logs(tmp_path, outcome, "edgecloudsim", wall=1.2)
    found = outcome.metrics()
    prefix = "SIMRESULT_TWO_TIER_WITH_EO_NEXT_FIT_30DEVICES"
    total, edge, cloud, mobile, links, run = map(numbers, lines(tmp_path, f"{prefix}_ALL_APPS_GENERIC.log"))
    failed = outcome.tally[1]
    assert total == [
        found["completed"], found["failed"], found["uncompleted"], 0.0, found["service_time_s"],
        found["processing_time_s"], found["network_delay_s"], 0.0, found["cost"], failed["capacity"].sum(),
        failed["mobility"].sum(), found["qoe_completed_pct"], found["qoe_all_pct"], 0.0,
    ]  # fmt: skip
    assert total[0] > 0
    assert total[9] + total[10] == total[1] > 0
    for row, name in ((edge, "edge"), (cloud, "cloud"), (mobile, "mobile")):
        assert len(row) == 9
        assert (row[0], row[4], row[5], row[7]) == (
            found[f"completed_{name}"], found[f"service_time_{name}_s"], found[f"processing_time_{name}_s"],
            found[f"vm_util_{name}_pct"],
        )  # fmt: skip
    assert sum(row[0] for row in (edge, cloud, mobile)) == total[0]
    assert sum(row[1] for row in (edge, cloud, mobile)) == total[1]
    assert links == [
        found["wlan_delay_s"],
        found["man_delay_s"],
        found["wan_delay_s"],
        found["gsm_delay_s"],
        0,
        0,
        0,
        0,
    ]
    assert run == [20.0, 0.0]
    one = [numbers(row) for row in lines(tmp_path, f"{prefix}_VIDEO_GENERIC.log")]
    assert [len(row) for row in one] == [14, 9, 9, 9, 8]
    assert one[0][0] == found["completed[VIDEO]"]


def test_the_samples_have_a_time_and_a_column_each(finished, tmp_path):
    outcome, _ = finished
    write_logs(tmp_path, outcome, "edgecloudsim")
    prefix = prefix_of(outcome.study)
    load = [numbers(row) for row in lines(tmp_path, f"{prefix}_VM_LOAD.log")]
    assert [row[0] for row in load] == pytest.approx([6.0 * k for k in range(1, len(load) + 1)])
    assert load == outcome.loads.tolist()
    places = [numbers(row) for row in lines(tmp_path, f"{prefix}_LOCATION.log")]
    assert all(len(row) == 4 and sum(row[1:]) == 30 for row in places)
    assert len(places) >= 3
    for way in ("UPLOAD", "DOWNLOAD"):
        delays = [numbers(row) for row in lines(tmp_path, f"{prefix}_AP_{way}_DELAY.log")]
        assert all(len(row) == 2 for row in delays)  # the first access point; there is no 7th and 11th
        assert len(delays) >= 7


def test_every_finished_task_stands_in_one_of_two_files(finished, tmp_path):
    outcome, rows = finished
    write_logs(tmp_path, outcome, "edgecloudsim", rows=rows)
    prefix = prefix_of(outcome.study)
    good, bad = lines(tmp_path, f"{prefix}_SUCCESS.log"), lines(tmp_path, f"{prefix}_FAIL.log")
    ledger = outcome.ledger()
    assert len(good) == ledger["completed"]
    assert len(good) + len(bad) + ledger["uncompleted"] == ledger["created"]
    assert {len(row) for row in good} == {17}
    assert {len(row) for row in bad} == {13}
    assert sum(row[12] == "1" for row in bad) == ledger["capacity"]
    assert sum(row[12] == "4" for row in bad) == ledger["mobility"]
    first = good[0]
    at = rows["serial"].tolist().index(int(first[0]))
    assert (int(first[1]), int(first[7])) == (rows["device"][at], int(rows["length"][at]))
    assert (float(first[10]), float(first[11])) == (rows["created"][at], rows["ended"][at])
    assert math.isclose(float(first[12]), sum(float(value) for value in first[13:17]))
    kinds = {(row[2] == "1000", row[5]) for row in good}
    assert kinds == {(True, "2"), (False, "1")}  # cloud machines in datacentre 1000


def test_the_extension_writes_names_and_decimal_commas(finished, tmp_path):
    outcome, rows = finished
    write_logs(tmp_path, outcome, "unical", rows=rows)
    prefix = prefix_of(outcome.study)
    general = lines(tmp_path, f"SERVICE_PERFORMANCE_({prefix}_ALL_APPS_GENERIC).csv")
    names, values = general[0::2], general[1::2]
    assert [len(row) for row in names] == [len(row) for row in values] == [15, 9, 9, 9, 8, 2]
    assert dict(zip(names[0], values[0], strict=True))["failedDueToDeviceDeath"] == "0"
    assert values[0][4] == java(outcome.metrics()["service_time_s"]).replace(".", ",")
    head, *tasks = lines(tmp_path, "PER_TASK_DETAILS.csv")
    assert len(head) == 23
    assert {len(row) for row in tasks} == {23}
    assert not any("." in value for row in tasks for value in row)
    assert {row[1] for row in tasks} == {"COMPLETED", "FAILED"}
    assert lines(tmp_path, "DEVICES_LOCATION.csv")[0] == ["TIME", "EDGE SERVER 0", "EDGE SERVER 1", "EDGE SERVER 2"]


def test_the_extensions_loads_have_the_energies_so_far_in_wh(finished, tmp_path):
    outcome, _ = finished
    meters = np.arange(30.0).reshape(10, 3) * 3600.0
    write_logs(tmp_path, outcome, "unical", meters=meters)
    head, *rows = lines(tmp_path, "VM_LOAD.csv")
    assert len(head) == 7
    assert [numbers(row) for row in rows[:10]] == [
        [*outcome.loads[k], 3.0 * k, 3.0 * k + 1.0, 3.0 * k + 2.0] for k in range(10)
    ]
    assert all(math.isnan(float(value)) for row in rows[10:] for value in row[4:])


@pytest.mark.parametrize(("value", "text"), [
    (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (0.1, "0.1"), (1e-3, "0.001"), (9.99e-4, "9.99E-4"), (1e7, "1.0E7"),
    (9999999.0, "9999999.0"), (123456789.125, "1.23456789125E8"), (-2.5e-10, "-2.5E-10"), (float("nan"), "NaN"),
    (float("inf"), "Infinity"), (float("-inf"), "-Infinity"), (24.066666666666666, "24.066666666666666"),
])  # fmt: skip
def test_numbers_are_written_as_java_writes_them(value, text):
    assert java(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_java_writes_is_the_number(value):
    assert float(java(value)) == value
