"""What hosts that really compute add to frames and books."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosim.adapters.continuum.tests.test_continuum_adapter import EDGE, SlotRange, begin, load, scene, served
from cosim.contract.adapter import Inputs
from cosim.contract.frame import Frame
from cosim.contract.signals import NODE_METERS, RESOURCES
from cosim.results.ledgers import ledger_faults


def measured(time, cpu, power=np.nan, meter="none", present=True):
    """The edge host at slot 0 says so about itself."""
    row = {"present": present, "cpu": cpu, "power": power, "meter": NODE_METERS.index(meter)}
    columns = {c.name: np.array([row.get(c.name, np.nan)]).astype(c.dtype) for c in RESOURCES.columns}
    return Frame("resources", time, np.array([0], np.int32), columns)


def ran(words, **fields):
    """Host rows of slot 0 and the books after 20 s; `words(time)` are what it measures."""
    world = scene(replace(EDGE, **fields), *scene().nodes[1:], workloads=(load(SlotRange(2)),))
    made, rows = begin(world, scheduler="nearest"), []
    for time in range(21):
        frames = {**served(float(time)), "resources": [measured(float(time), *words(time))]}
        host = {frame.signal: frame for frame in made.step(float(time), Inputs(frames))}["host"]
        rows.append({name: float(host[name][0]) for name in ("utilisation", "power", "energy", "cost")})
    return rows, made.finish()


def test_load_without_a_meter_is_modelled_by_the_power_curve():
    alone, quiet = ran(lambda _: (np.nan,))
    with_load, books = ran(lambda _: (0.25,))
    for a, b in zip(alone[1:], with_load[1:], strict=True):
        assert b["utilisation"] == pytest.approx(a["utilisation"] + 0.25)
        assert b["power"] == pytest.approx(a["power"] + 0.25 * 20.0)  # 20 to 40 W
        assert b["cost"] - a["cost"] == pytest.approx(1e-7 * (b["energy"] - a["energy"]))
    assert with_load[-1]["energy"] - alone[-1]["energy"] == pytest.approx(20 * 0.25 * 20.0)
    assert books["energy"]["by_node"]["edge-1"] == pytest.approx(with_load[-1]["energy"])
    assert books["energy"]["total"] - quiet["energy"]["total"] == pytest.approx(100.0)
    assert books["utilisation"]["edge-1"] - quiet["utilisation"]["edge-1"] == pytest.approx(0.25)
    assert books["real_load"]["modelled"] == ["edge-1"]
    assert books["origins"] == {"host": ["measured", "modelled", "simulated"]}
    assert "real_load" not in quiet
    assert ledger_faults(books) == ledger_faults(quiet) == []


def test_a_meter_replaces_the_model():
    rows, books = ran(lambda _: (0.5, 33.0, "ina"))
    assert rows[-1]["energy"] == pytest.approx(20 * 33.0)
    assert [row["power"] for row in rows[1:]] == pytest.approx([33.0] * 20)
    assert (books["real_load"]["metered"], books["real_load"]["modelled"]) == (["edge-1"], [])
    assert books["origins"] == {"host": ["measured", "simulated"]}
    assert ledger_faults(books) == []


def test_a_host_is_never_busier_than_its_cores_nor_measured_when_it_is_away():
    rows, _ = ran(lambda time: (1.0, np.nan, "none", time < 10))
    alone, _ = ran(lambda _: (np.nan,))
    assert [row["utilisation"] for row in rows[1:10]] == pytest.approx([1.0] * 9)
    assert [row["utilisation"] for row in rows[10:]] == [row["utilisation"] for row in alone[10:]]
