"""Warnings of a plan."""

from __future__ import annotations

import pytest

from cosim.contract.errors import ScenarioError
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan

HEAD = "apiVersion: cosim/v1\nkind: Scenario\nname: vain\nrun: {duration: 1 s}\n"
TASKS = "workloads: {w: {from: uav-*, arrivals: poisson 1 Hz, input: 1 kB, output: 1 kB, work: 1 Mcycles}}\n"


def warnings(folder, drone, house, adapters="wifi: {}, continuum: {}", links="[]"):
    file = folder / "vain.cosim.yaml"
    file.write_text(
        f"{HEAD}adapters: {{{adapters}}}\nnodes:\n  uav-[1..2]: {{kind: uav, at: [0 m, 0 m], {drone}}}\n"
        f"  house: {{kind: edge, at: [9 m, 0 m], cpu: 1 x 1 GHz, {house}}}\nlinks: {links}\n{TASKS}"
    )
    return compile_plan(load(file)).warnings


ADHOC, STATION, POINT = "wifi: {}", "wifi: {mode: station}", "wifi: {mode: access-point}"


@pytest.mark.parametrize(("drone", "house"), [(ADHOC, ADHOC), (STATION, ADHOC), (ADHOC, POINT)])
def test_tasks_without_a_way_are_refused(tmp_path, drone, house):
    with pytest.raises(ScenarioError) as error:
        warnings(tmp_path, drone, house)
    assert "'uav-1' and 1 more cannot reach any host, so all tasks of 'w' made there fail" in str(error.value)
    assert "wifi: {mode: station}" in str(error.value)


def test_cores_of_devices_that_the_scheduler_does_not_choose_are_no_way(tmp_path):
    (found,) = warnings(tmp_path, f"{ADHOC}, cpu: 1 x 1 GHz", ADHOC)
    assert "'uav-1' and 1 more cannot reach any host" in found
    assert "scheduler 'least-loaded' does not choose devices, 'local' does" in found


@pytest.mark.parametrize(
    ("drone", "house", "more"),
    [
        (STATION, POINT, {}),
        (f"{ADHOC}, cpu: 1 x 1 GHz", ADHOC, {"adapters": "wifi: {}, continuum: {scheduler: local}"}),
        (f"{ADHOC}, cpu: 1 x 1 GHz", ADHOC, {"adapters": "wifi: {}, continuum: {scheduler: edf}"}),
        (ADHOC, f"{ADHOC}, cell: {{}}", {"adapters": "wifi: {}, radio: {}, continuum: {}"}),
        (ADHOC, ADHOC, {"links": "[{between: [uav-*, house], rate: 1 Mbit/s, delay: 1 ms}]"}),
    ],
)
def test_tasks_that_have_a_way_are_not(tmp_path, drone, house, more):
    assert warnings(tmp_path, drone, house, **more) == ()


def test_interfaces_that_no_adapter_joins_are_told(tmp_path):
    links = "[{between: [uav-*, house], rate: 1 Mbit/s, delay: 1 ms}]"
    (warning,) = warnings(tmp_path, ADHOC, ADHOC, adapters="continuum: {}", links=links)
    assert "'uav-1' and 2 more are given 'wifi', but no adapter makes links of it" in warning


@pytest.mark.parametrize(("image", "reported"), [("vuva", "'vuav'"), ("vedgnode", "'vedgenode'")])
def test_images_that_are_nearly_ours_are_refused(tmp_path, image, reported):
    with pytest.raises(ScenarioError, match=f"'{image}' is none of our images; did you mean {reported}") as error:
        warnings(tmp_path, f"{STATION}, runs: {image}", POINT)
    assert "vain.cosim.yaml:7" in str(error.value)


@pytest.mark.parametrize("image", ["vuav", "nginx", "example.org/vuva:1"])
def test_images_of_ours_and_of_others_are_not(tmp_path, image):
    assert warnings(tmp_path, f"{STATION}, runs: '{image}'", POINT) == ()
