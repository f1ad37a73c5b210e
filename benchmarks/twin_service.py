"""HTTP services on this machine at four loads, and the prediction of the two not fitted (`--job service`).

Each service is measured under loads of 30 % and 55 % of what it can do, which are fitted, and of 75 % and
92 %, which are predicted: mean and 95th percentile of the response, and whether they lie in the predicted
90 % bands. The loads that are predicted are recorded twice, with the same requests at the same times: `apart` is
how far the second recording lies from the first one, and `again inside` whether it lies in the band as well.
Every prediction replays the measured arrivals. The inference service comes first, then the kinds of
`benchmarks.http_service`. Measured in the moment; where other programs use the machine, measuring is refused
and the service counts as refused, with the reason.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.http_service import KINDS
from cosim.contract.errors import RunError
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.fitting.coverage import predictive
from cosim.twin.scenario.study import study
from cosim.twin.search import Budget
from cosim.twin.telemetry.here import measure

LOADS, HELD_BACK, RUNS, DRAWS = (0.3, 0.55, 0.75, 0.92), 2, 2500, 200
_OF = {"fixed": 15.0, "exponential": 20.0, "two": 30.0, "threads": 12.0, "mixed": 20.0,
       "modes": 15.0, "locked": 25.0, "async": 20.0}  # ms a request  # fmt: skip


@contextmanager
def serving(kind: str, slower: float = 1.0) -> Iterator[str | None]:
    """The address of a service of `kind`, None for the one that `measure` starts itself.

    `slower` says how many times the usual work a request is.
    """
    if kind not in KINDS:
        yield None
        return
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = int(one.getsockname()[1])
    command = [sys.executable, "-m", "benchmarks.http_service", kind, str(slower * _OF[kind]), str(port)]
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


def one(
    kind: str, seconds: float, *, seed: int = 1, slower: float = 1.0, busy: bool = False
) -> tuple[list[dict[str, object]], dict[str, object]]:
    """Rows of the figures of one service, and what was found of it. Raises `RunError` where measuring is refused."""
    with tempfile.TemporaryDirectory() as folder:
        with serving(kind, slower) as url:
            found = measure(
                Path(folder), url=url, loads=LOADS, held_back=HELD_BACK, seconds=seconds, seed=seed, busy=busy
            )
        problem = study(found.scenario, folder=Path(folder) / "work").problem
        answer = calibrate(problem, budget=Budget(RUNS), seed=seed)
        again = {round(100 * each.load): each for each in found.again}
        rows = []
        for part, case in (("fit", problem.fit), ("held back", problem.held_back)):
            for row in predictive(case, answer, count=DRAWS) if case is not None else ():
                for load, rate in zip(found.own.loads, LOADS, strict=True):
                    percent = round(100 * rate)
                    if row["signal"] != f"load-{percent} response":
                        continue
                    told: dict[str, object] = {"service": kind, **row, "load": load, "fitted": part == "fit"}
                    if percent in again:
                        second = again[percent].mean if row["figure"] == "mean" else again[percent].p95
                        told["apart"] = second / float(str(row["measured"])) - 1.0
                        told["again inside"] = float(str(row["low"])) <= second <= float(str(row["high"]))
                    rows.append(told)
    station, worst = found.own.identified.station, max(found.disturbances, key=lambda each: each.severity)
    return rows, {
        "service": kind, "servers": station.servers, "sharing": station.sharing, "a request, s": station.service,
        "spread": station.spread, "besides, s": station.latency, "contention": station.contention,
        "varies": found.own.identified.levels.deviation, "disturbed blocks": len(found.warnings),
        "worst block": str(worst), "warnings": len(answer.warnings),
    }  # fmt: skip


def judged(rows: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """How many of the predicted figures were near, and inside their bands."""
    late = [row for row in rows if not row["fitted"]]
    near = [row for row in late if row["figure"] == "mean" and float(str(row["load"])) <= 0.8]
    return {
        "held back, inside": f"{sum(bool(row['inside']) for row in late)} of {len(late)}",
        "recorded again, inside": f"{sum(bool(row['again inside']) for row in late)} of {len(late)}",
        "means within 15 % at 80 % load or less": _within(near, "off"),
        "means recorded again within 15 % of the first recording": _within(near, "apart"),
    }


def _within(rows: Sequence[Mapping[str, object]], name: str) -> str:
    return f"{sum(abs(float(str(row[name]))) <= 0.15 for row in rows)} of {len(rows)}"


def run(data: Path | None, held_back: Path | None, quick: bool) -> dict[str, object]:
    """A row per service, load and figure; a row per service of what was found."""
    del data, held_back
    rows: list[dict[str, object]] = []
    services: list[dict[str, object]] = []
    refused: list[dict[str, object]] = []
    for kind in ("inference",) if quick else ("inference", *KINDS):
        try:
            some, told = one(kind, 8.0 if quick else 20.0)
        except RunError as error:
            refused.append({"service": kind, "refused": str(error)})
            continue
        rows += some
        services.append(told)
    return {"figures": rows, "services": services, "refused": refused, **judged(rows)}
