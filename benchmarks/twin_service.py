"""An HTTP service on this machine at three loads or more, and the prediction of those not fitted (`--job service`).

The inference service with one worker is measured under loads of 30 % and 55 % of what it can do, which are fitted,
and of 75 % and 92 %, which are predicted: mean and 95th percentile of the response, and whether they lie in the
predicted 90 % bands. Every prediction replays the measured arrivals. Measured in the moment, so other work on
the machine is in the figures; `others` is the share of its cores that other programs used meanwhile.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.fitting.coverage import predictive
from cosim.twin.scenario.study import study
from cosim.twin.search import Budget
from cosim.twin.telemetry.here import measure

LOADS, HELD_BACK, RUNS, DRAWS = (0.3, 0.55, 0.75, 0.92), 2, 4000, 200


def _busy() -> tuple[float, float]:
    """CPU s used by all programs since the machine started, and the wall clock (s)."""
    with Path("/proc/stat").open(encoding="ascii") as stream:
        fields = [float(word) for word in stream.readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK"), time.monotonic()


def run(data: Path | None, held_back: Path | None, quick: bool) -> dict[str, object]:
    """A row per load and figure."""
    del data, held_back
    with tempfile.TemporaryDirectory() as folder:
        busy, began = _busy()
        found = measure(Path(folder), loads=LOADS, held_back=HELD_BACK, seconds=10.0 if quick else 30.0)
        later, ended = _busy()
        used = (later - busy) / (ended - began)
        own = sum(min(load, 1.0) for load in found.loads) / len(found.loads)
        problem = study(found.scenario, folder=Path(folder) / "work").problem
        answer = calibrate(problem, budget=Budget(RUNS))
        rows = [
            {**row, "fitted": part == "fit"}
            for part, case in (("fit", problem.fit), ("held back", problem.held_back))
            if case is not None
            for row in predictive(case, answer, count=DRAWS)
        ]
    return {
        "figures": rows,
        "values": [{"name": e.name, "value": e.value, "low": e.low, "high": e.high} for e in answer.estimates],
        "a request alone, s": found.service,
        "others, cores": max(used - own, 0.0),
        "warnings": list(answer.warnings),
    }
