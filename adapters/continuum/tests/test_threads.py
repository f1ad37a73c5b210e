"""Large systems in several threads, and what says when they are not."""

import logging

import numpy as np
import pytest

from cosim.adapters.continuum.tests.test_continuum_adapter import CLOUD, EDGE, UAV, begin, link, load, scene
from cosim.contract.adapter import Inputs
from cosim.contract.entities import SlotRange
from cosim.engine.continuum import regions


def world():
    """Three edge nodes that no link joins, a cloud, and nine drones."""
    nodes = [EDGE.__class__(f"edge-{k}", "edge", "edge", cores=2, clock=1e9) for k in range(3)]
    drones = [UAV.__class__(f"uav-{k}", "uav", "device", radio=UAV.radio) for k in range(9)]
    return scene(*nodes, CLOUD, *drones, links=(), workloads=(load(SlotRange(4, 9), rate=3.0),))


def rows(**config):
    """The `task` frames of ten steps."""
    adapter = begin(world(), **config)
    found = []
    for step in range(10):
        cells = [(4 + k, (k + (step > 5)) % 3, 2e7) for k in range(9)]
        found += adapter.step(float(step), Inputs({"link": (link(float(step), cells),)}))
    return [frame for frame in found if frame.signal == "task"]


def test_threads_change_no_row(monkeypatch):
    whole = rows(scheduler="nearest")
    monkeypatch.setattr(regions, "LARGE", 1)
    monkeypatch.setattr(regions, "_FEW", 1)
    divided = rows(scheduler="nearest", threads=3)
    assert sum(len(frame.slot) for frame in whole) > 150
    for mine, theirs in zip(whole, divided, strict=True):
        assert np.array_equal(mine.slot, theirs.slot)
        assert all(
            np.array_equal(mine[name], theirs[name], equal_nan=name in ("started", "computed")) for name in mine.columns
        )


@pytest.mark.parametrize(
    ("scheduler", "large", "reason"),
    [("least-loaded", 1, "its scheduler looks at hosts anywhere"), ("nearest", 20_000, "fewer than 20,000 sources")],
)
def test_a_system_that_is_not_divided_says_why(monkeypatch, caplog, scheduler, large, reason):
    monkeypatch.setattr(regions, "LARGE", large)
    with caplog.at_level(logging.WARNING):
        begin(world(), scheduler=scheduler, threads=2)
    assert reason in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        begin(world(), scheduler=scheduler)
    assert caplog.text == ""
