"""SUMO itself writes the floating car data; the three formats must replay alike."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from cosim.adapters.replay.tests.test_replay_adapter import started, step

pytestmark = pytest.mark.sumo


def run(*command):
    subprocess.run([str(part) for part in command], check=True, capture_output=True, timeout=120)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    import sumo

    folder, home = tmp_path_factory.mktemp("sumo"), Path(sumo.SUMO_HOME)
    net, trips = folder / "grid.net.xml", folder / "trips.rou.xml"
    run(home / "bin/netgenerate", "--grid", "--grid.number", "3", "--seed", "1", "-o", net)
    flow = '<flow id="f" begin="0" end="60" period="4" from="A0B0" to="B2C2" departLane="best"/>'
    trips.write_text(f"<routes>{flow}</routes>")
    files = {}
    for kind in ("xml", "csv", "parquet"):
        files[kind] = folder / f"fcd.{kind}"
        run(home / "bin/sumo", "-n", net, "-r", trips, "--end", "90", "--seed", "1", "--fcd-output", files[kind])
    return files


def test_the_three_formats_of_sumo_agree(recordings):
    adapters = {kind: started(path.parent, path, capacity=100) for kind, path in recordings.items()}
    busiest = 0
    for k in range(90):
        frames = {kind: step(adapter, float(k)) for kind, adapter in adapters.items()}
        assert frames["xml"].same_as(frames["csv"])
        assert frames["xml"].slot.tolist() == frames["parquet"].slot.tolist()
        for name, column in frames["xml"].columns.items():
            # SUMO writes two decimals as text and the full value as Parquet
            np.testing.assert_allclose(frames["parquet"][name], column, atol=0.0051, err_msg=name)
        busiest = max(busiest, len(frames["xml"]))
    assert busiest >= 5
    summaries = [adapter.finish() for adapter in adapters.values()]
    assert len({(summary["samples"], summary["members"]) for summary in summaries}) == 1
