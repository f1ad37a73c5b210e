"""Where a signal comes from: from those who wrote rows of it."""

from __future__ import annotations

import pytest

from cosim.contract.signals import TASK
from cosim.results.convert import signals_entry
from cosim.results.stream import Spec

ORIGINS = {"model": "simulated", "machines": "measured"}


@pytest.mark.parametrize(
    ("rows", "origin"),
    [((5, 3), "measured/simulated"), ((0, 3), "measured"), ((5, 0), "simulated"), ((0, 0), "measured/simulated")],
)
def test_who_wrote_no_row_lends_no_origin(rows, origin):
    specs = [(Spec.of(TASK, name, (), ()), count) for name, count in zip(ORIGINS, rows, strict=True)]
    entry = signals_entry(specs, ORIGINS)["task"]
    assert (entry["origin"], entry["adapters"], entry["rows"]) == (origin, ["model", "machines"], sum(rows))
