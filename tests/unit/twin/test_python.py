"""`cosim.calibrate`: the verb of the command line as a function."""

import csv

import numpy as np
import pytest

import cosim


def scenario(**more):
    return {
        "name": "meter", "run": {"duration": "40 s", "step": "1 s"}, "adapters": {"continuum": {}},
        "nodes": {"gateway": {"kind": "edge", "cpu": "1 x 1 GHz", "power": {"idle": "2 W", "max": "7 W"}},
                  "camera": {"kind": "device"}},
        "links": [{"between": ["camera", "gateway"], "rate": "1 Gbit/s", "delay": "1 ms"}],
        "workloads": {"see": {"from": "camera", "arrivals": "every 1 s", "work": "500 Mcycles"}},
        **more,
    }  # fmt: skip


def test_a_value_is_found_from_python(tmp_path):
    with (tmp_path / "power.csv").open("w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream)
        out.writerow(["time", "power"])
        random = np.random.default_rng(1)
        out.writerows([[k, 3.0 + 4.0 * 0.5 + 0.02 * random.standard_normal()] for k in range(2, 40)])
    calibrate = {
        "free": {"nodes.gateway.power.idle": {"bounds": ["1 W", "5 W"]}},
        "observed": {"power": {"file": "power.csv", "signal": "host.power", "nodes": "gateway"}},
    }
    reported = []
    found = cosim.calibrate(
        cosim.Scenario(scenario(calibrate=calibrate), folder=tmp_path),
        runs=60, out=tmp_path / "out", progress=reported.append,
    )  # fmt: skip
    assert isinstance(found, cosim.Calibration)
    assert found.runs <= 60
    assert 2.8 < float(found.value("nodes.gateway.power.idle")) < 3.2
    assert reported
    assert (tmp_path / "out" / "meter" / "calibration.json").is_file()
    assert (tmp_path / "out" / "meter" / "meter.calibration.yaml").is_file()


def test_a_scenario_without_the_block_is_refused(tmp_path):
    with pytest.raises(cosim.ScenarioError, match="has no block 'calibrate'"):
        cosim.calibrate(scenario(), out=tmp_path)
