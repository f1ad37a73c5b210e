"""The detector of jammed-city on networks whose masts share a carrier: neighbours are no jammers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import cosim

SHIPPED = Path(__file__).resolve().parents[1] / "scenarios" / "jammed-city" / "data" / "detector.npz"
RADIO = {
    "model": "umi", "fading": "rician", "link_adaptation": "outer-loop", "cqi_delay": "500 ms", "harq": "combining",
    "link_failure": {"t310": "1 s"}, "log": True,
}  # fmt: skip


def ran(folder, load, *, jammer=False, response=False, detector=True, seed=1):
    """The tables of a minute with two masts on one carrier, a weaker one on another, and eight phones."""
    made = cosim.Scenario("reuse")
    made.set("run", duration="60 s", step="500 ms", seed=seed)
    more = {"response": {"do": "other-carrier", "hold": "10 s", "settle": "5 s"}} if response else {}
    made.adapter("radio", **RADIO, background=load, **more)
    made.adapter("continuum", scheduler="nearest")
    if detector:
        made.adapter("detector", model=str(SHIPPED))
    made.kind("jammer", tier="device")
    for k, (x, power, carrier) in enumerate(((60, 30, "3.5"), (340, 30, "3.5"), (200, 20, "3.54"))):
        cell = {"power": f"{power} dBm", "carrier": f"{carrier} GHz", "bandwidth": "20 MHz"}
        made.node(f"mast-{k}", kind="base-station", at=[f"{x} m", "200 m"], cpu="8 x 3 GHz", cell=cell)
    for k, (x, y) in enumerate(np.random.default_rng(seed).uniform(20.0, 380.0, (8, 2)).tolist()):
        made.node(f"phone-{k}", kind="device", at=[f"{x:.0f} m", f"{y:.0f} m"])
    made.workload(
        "upload", source="phone-*", arrivals="poisson 1 Hz", input="200 kB", output="50 kB", work="20 Mcycles"
    )
    if jammer:
        made.node("van", kind="jammer", at=["120 m", "200 m"], jammer={"power": "36 dBm", "active": False})
        made.event("20 s", "jammer-on", node="van", lasting="20 s")
    folder = cosim.run(made, out=folder).folder
    return {
        name: pq.read_table(folder / "frames" / name / f"{by}.parquet").to_pydict()
        for name, by in (("alarm", "detector"), ("jamming", "radio"), ("link", "radio"))
        if (folder / "frames" / name).is_dir()
    }


@pytest.mark.parametrize("load", ["10 %", "50 %", "95 %"])
def test_masts_on_one_carrier_raise_no_alarm(load, tmp_path):
    assert np.mean(ran(tmp_path, load)["alarm"]["on"]) <= 0.02


@pytest.mark.slow
def test_without_a_jammer_a_response_moves_no_phone(tmp_path):
    for load in ("20 %", "80 %"):
        with_it = ran(tmp_path, load, response=True)
        assert with_it["link"]["cell"] == ran(tmp_path, load, detector=False)["link"]["cell"]


def test_a_jammer_beside_a_mast_that_shares_its_carrier_is_detected(tmp_path):
    seen = ran(tmp_path, "50 %", jammer=True)
    loss, on = np.array(seen["jamming"]["loss"]), np.array(seen["alarm"]["on"])
    assert (loss >= 10.0).sum() > 50
    assert on[loss >= 10.0].mean() > 0.8
