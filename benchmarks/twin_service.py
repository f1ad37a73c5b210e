"""HTTP services on this machine at four loads, and the prediction of the two not fitted (`--job service`).

Each service is measured under loads of 25 % and 45 % of what it can do, which are fitted, and of 62 % and
92 %, which are predicted: mean and 95th percentile of the response, and whether they lie in the predicted
90 % bands. The loads that are predicted are recorded twice, with the same requests at the same times: `apart` is
how far the second recording lies from the first one, and `again inside` whether it lies in the band as well.
Every prediction replays the measured arrivals. Measured are `inference` and the kinds of `benchmarks.http_service`:
two of them unless `--services` names others, since each takes six tables of 12 s and half a minute of
computing. Measured in the moment; where other programs use the machine, measuring is refused and the service
counts as refused, with the reason, unless `--busy` takes it as it is.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.http_service import KINDS
from benchmarks.predictive import predictive
from cosim.contract.errors import Problem, RunError, ScenarioError
from cosim.testbed.measuring.loads import measure
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.scenario.requests import scenario_of
from cosim.twin.scenario.study import study
from cosim.twin.search import Budget

LOADS, HELD_BACK, RUNS, DRAWS = (0.25, 0.45, 0.62, 0.92), 2, 2500, 200
SERVICES = ("inference", *KINDS)
_USUAL, _SECONDS = ("inference", "exponential"), 12.0  # services; s a load
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
    _say(f"{kind}: measuring {len(LOADS)} loads, {(len(LOADS) + HELD_BACK) * seconds:.0f} s or more")
    with tempfile.TemporaryDirectory() as folder:
        with serving(kind, slower) as url:
            found = measure(
                Path(folder), url=url, loads=LOADS, held_back=HELD_BACK, seconds=seconds, seed=seed, busy=busy
            )
        _say(f"{kind}: calibrating with two loads, predicting {HELD_BACK}")
        own = scenario_of(Path(folder), found.tables, held_back=HELD_BACK, seed=seed)
        problem = study(own.scenario, folder=Path(folder) / "work").problem
        answer = calibrate(problem, budget=Budget(RUNS), seed=seed)
        again = {round(100 * each.load): each for each in found.again}
        rows = []
        for part, case in (("fit", problem.fit), ("held back", problem.held_back)):
            for row in predictive(case, answer, count=DRAWS) if case is not None else ():
                for load, rate in zip(own.loads, LOADS, strict=True):
                    percent = round(100 * rate)
                    if row["signal"] != f"load-{percent} response":
                        continue
                    predicted: dict[str, object] = {"service": kind, **row, "load": load, "fitted": part == "fit"}
                    if percent in again:
                        second = again[percent].mean if row["figure"] == "mean" else again[percent].p95
                        predicted["apart"] = second / float(str(row["measured"])) - 1.0
                        predicted["again inside"] = float(str(row["low"])) <= second <= float(str(row["high"]))
                    rows.append(predicted)
    station, worst = own.identified.station, max(found.disturbances, key=lambda each: each.severity)
    return rows, {
        "service": kind, "servers": station.servers, "sharing": station.sharing, "a request, s": station.service,
        "spread": station.spread, "besides, s": station.latency, "contention": station.contention,
        "varies": own.identified.levels.deviation, "disturbed blocks": len(found.warnings),
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


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(
    data: Path | None, held_back: Path | None, quick: bool, services: Sequence[str] = (), busy: bool = False
) -> dict[str, object]:
    """A row per service, load and figure; a row per service of what was found.

    Raises `ScenarioError` for a name that is no service's.
    """
    del data, held_back
    unknown = [name for name in services if name not in SERVICES]
    if unknown:
        raise ScenarioError(Problem(f"there is no service '{unknown[0]}'", hint=f"these are: {', '.join(SERVICES)}"))
    rows: list[dict[str, object]] = []
    found: list[dict[str, object]] = []
    refused: list[dict[str, object]] = []
    for kind in services or _USUAL[: 1 if quick else None]:
        begun = time.monotonic()
        try:
            some, predicted = one(kind, _SECONDS, busy=busy)
        except RunError as error:
            refused.append({"service": kind, "refused": str(error)})
            _say(f"{kind}: {error}")
            continue
        rows += some
        found.append({**predicted, "s": time.monotonic() - begun})
        _say(f"{kind}: {judged(some)['held back, inside']} predicted figures inside, {found[-1]['s']:.0f} s")
    return {"figures": rows, "services": found, "refused": refused, **judged(rows)}
