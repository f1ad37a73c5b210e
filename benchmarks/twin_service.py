"""HTTP services on this machine at four loads, and the prediction of the two not fitted (`--job service`).

Each service is measured under loads of 30 % and 55 % of what it can do, which are fitted, and of 75 % and
92 %, which are predicted: mean and 95th percentile of the response, and whether they lie in the predicted
90 % bands. Every prediction replays the measured arrivals. The inference service comes first, then the kinds of
`benchmarks.http_service`. Measured in the moment, so other work on the machine is in the figures; `others`
is how many of its cores other programs used meanwhile.
"""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.http_service import KINDS
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.fitting.coverage import predictive
from cosim.twin.scenario.study import study
from cosim.twin.search import Budget
from cosim.twin.telemetry.here import measure

LOADS, HELD_BACK, RUNS, DRAWS = (0.3, 0.55, 0.75, 0.92), 2, 2500, 200
_OF = {"fixed": 15.0, "exponential": 20.0, "two": 30.0, "threads": 12.0, "mixed": 20.0}  # ms a request


def _used() -> tuple[float, float, float]:
    """CPU s used by all programs since the machine started, by this one and its children, and the wall clock (s)."""
    with Path("/proc/stat").open(encoding="ascii") as stream:
        fields = [float(word) for word in stream.readline().split()[1:9]]
    busy = (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return busy, sum(one.ru_utime + one.ru_stime for one in own), time.monotonic()


@contextmanager
def _serving(kind: str) -> Iterator[str | None]:
    """The address of a service of `kind`, None for the one that `measure` starts itself."""
    if kind not in KINDS:
        yield None
        return
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = int(one.getsockname()[1])
    command = [sys.executable, "-m", "benchmarks.http_service", kind, str(_OF[kind]), str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _one(kind: str, seconds: float) -> tuple[list[dict[str, object]], dict[str, object]]:
    """Rows of the figures of one service, and what was found of it."""
    with tempfile.TemporaryDirectory() as folder:
        busy, own, began = _used()
        with _serving(kind) as url:
            found = measure(Path(folder), url=url, loads=LOADS, held_back=HELD_BACK, seconds=seconds)
        later, mine, ended = _used()
        problem = study(found.scenario, folder=Path(folder) / "work").problem
        answer = calibrate(problem, budget=Budget(RUNS))
        rows = [
            {"service": kind, **row, "load": load, "fitted": part == "fit"}
            for part, case in (("fit", problem.fit), ("held back", problem.held_back))
            if case is not None
            for row in predictive(case, answer, count=DRAWS)
            for load, rate in zip(found.own.loads, LOADS, strict=True)
            if row["signal"] == f"load-{round(100 * rate)} response"
        ]
    station = found.own.identified.station
    told: dict[str, object] = {
        "service": kind, "servers": station.servers, "sharing": station.sharing, "a request, s": station.service,
        "spread": station.spread, "besides, s": station.latency, "contention": station.contention,
        "varies": found.own.identified.levels.deviation, "others, cores": (later - busy - mine + own) / (ended - began),
        "warnings": len(answer.warnings),
    }  # fmt: skip
    return rows, told


def run(data: Path | None, held_back: Path | None, quick: bool) -> dict[str, object]:
    """A row per service, load and figure; a row per service of what was found."""
    del data, held_back
    made = [_one(kind, 8.0 if quick else 20.0) for kind in (("inference",) if quick else ("inference", *KINDS))]
    rows = [row for some, _ in made for row in some]
    late = [row for row in rows if not row["fitted"]]
    near = [row for row in late if row["figure"] == "mean" and float(str(row["load"])) <= 0.8]
    return {
        "figures": rows,
        "services": [told for _, told in made],
        "held back, inside": f"{sum(bool(row['inside']) for row in late)} of {len(late)}",
        "means within 15 % at 80 % load or less": (
            f"{sum(abs(float(str(row['off']))) <= 0.15 for row in near)} of {len(near)}"
        ),
    }
