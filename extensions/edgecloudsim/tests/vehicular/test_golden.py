"""The vehicular model with its peer's quirks against results of the peer itself."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from cosim.extensions.edgecloudsim.offloading import compatible, simulate
from cosim.extensions.edgecloudsim.offloading.transport import ring_road

stats = pytest.importorskip("scipy.stats")

GOLDEN = Path(__file__).resolve().parents[4].parent / "shared/data/edgecloudsim/golden.csv"
RUNS = 40
# devices, minutes, minutes of warm-up
CASES = {"a5_RANDOM_100": (100, 10, 3), "a5_RANDOM_400_6min": (400, 6, 1)}
NOT_OURS = {"reference_cpu_s_per_iteration"}

pytestmark = [pytest.mark.data, pytest.mark.skipif(not GOLDEN.is_file(), reason=f"there is no {GOLDEN}")]


def reference(case):
    """metric -> (mean, standard deviation, iterations), by our names of the applications."""
    with GOLDEN.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["config_id"] == case and row["metric"] not in NOT_OURS]
    found = {}
    for row in rows:
        figure, bracket, application = row["metric"].partition("[")
        name = figure + bracket + application.lower().replace("_", "-")
        found[name] = float(row["mean"]), float(row["sd"]), int(row["iterations"])
    return found


@pytest.mark.parametrize("case", CASES)
def test_all_figures_are_the_peers_within_noise(case):
    devices, minutes, warm_up = CASES[case]
    study = ring_road(devices, duration=60.0 * minutes, warm_up=60.0 * warm_up, quirks=compatible("app5"))
    runs = [simulate(study, seed).metrics() for seed in range(RUNS)]
    chances = {}
    for name, (mean, deviation, iterations) in reference(case).items():
        ours = np.array([run[name] for run in runs])
        if deviation == 0.0 and ours.std() == 0.0:
            assert ours[0] == mean, name
            continue
        welch = stats.ttest_ind_from_stats(mean, deviation, iterations, ours.mean(), ours.std(ddof=1), RUNS, False)
        chances[name] = float(welch.pvalue)
        if name.startswith(("service_time_s[", "processing_time_s[", "network_delay_s[")):
            assert ours.mean() == pytest.approx(mean, rel=0.03), name
    assert len(chances) > 30
    # Holm 1979: reject from the least chance on while it is below 5 % over the number of tests left
    least = sorted(chances.items(), key=lambda item: item[1])
    assert least[0][1] > 0.05 / len(least), least[:5]
