"""EdgeCloudSim's configurations in compatible mode against its own results.

Call it as `python -m benchmarks.edgecloudsim --data DIR [--runs 20] [--config ID] [--json]`, or with `--peer DIR`.

DIR holds `index.csv` (config_id and the three input files of each configuration) and, if there are
results to compare with, `golden.csv` (mean and sd of every metric over independent iterations).
Every metric gets a verdict: equivalent (two one-sided tests at the margin), different (Welch,
corrected over all metrics), or undecided, with the number of our runs that would decide. Failures of
less than 2 % of the tasks are compared as pooled proportions, at a margin of at least 0.1 percentage
points. Configurations without results run too. Exit code 0: nothing is different; 1: something is;
2: the data cannot be used.

With `--peer DIR`, a compiled copy of EdgeCloudSim that you have, fresh configurations are drawn and run by it
instead (`benchmarks.edgecloudsim_peer`); CPU seconds are compared as well, its JVM's start included.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.edgecloudsim_peer import REFERENCE_CPU
from benchmarks.equivalence import (
    Comparison,
    Sample,
    Verdict,
    compare_means,
    compare_pooled,
    compare_rates,
    verdict,
)
from benchmarks.golden import DataError, Golden, read_golden, read_studies

from benchmarks import edgecloudsim_peer
from benchmarks.measure import Table, parser, print_result
from cosim.contract.children import pool
from cosim.extensions.edgecloudsim.offloading.simulation import simulate
from cosim.extensions.edgecloudsim.offloading.study import OffloadingStudy
from cosim.results.student import holm

MARGIN = 0.03  # of their mean
RARE = 2.0  # %, failures below are compared as proportions
RARE_MARGIN = 0.1  # percentage points: one task in a thousand
NOT_COMPATIBLE = ("ai-based",)  # its networks are trained on each simulator's own runs: figures differ by design


@dataclass(frozen=True, slots=True)
class Run:
    """One run of ours; `cpu` s without getting ready."""

    metrics: dict[str, float]
    tasks: int
    events: int
    cpu: float


@dataclass(slots=True)
class Row:
    """One metric of one configuration."""

    config: str
    metric: str
    unit: str
    theirs: Sample
    ours: Sample
    comparison: Comparison | None  # None: not compared
    p_corrected: float = 1.0
    verdict: Verdict = "none"

    def as_dict(self) -> dict[str, object]:
        found: dict[str, object] = {
            "metric": self.metric, "unit": self.unit, "theirs": self.theirs.mean, "theirs_sd": self.theirs.sd,
            "their_runs": self.theirs.runs, "ours": self.ours.mean, "ours_sd": self.ours.sd, "our_runs": self.ours.runs,
            "difference": _relative(self.theirs.mean, self.ours.mean), "verdict": self.verdict,
        }  # fmt: skip
        if self.comparison is not None:
            needed = self.comparison.needed
            found |= {
                "margin": self.comparison.margin, "p_equal": self.comparison.p_equal,
                "p_equal_corrected": self.p_corrected, "p_outside": self.comparison.p_outside,
                "runs_needed": needed if math.isfinite(needed) else None,
            }  # fmt: skip
        return found


def carry_out(job: tuple[OffloadingStudy, int]) -> Run:
    """Run a study with a seed. Getting ready, which compiles or loads the compiled code, is not counted."""
    study, seed = job
    get_ready(study)
    begun = time.process_time()
    outcome = simulate(study, seed)
    metrics = outcome.metrics()
    return Run(metrics, outcome.created, outcome.events, time.process_time() - begun)


_READY: set[str] = set()  # models whose code this process has loaded


def get_ready(study: OffloadingStudy) -> None:
    """Load, or compile, the code of the study's model."""
    if study.model not in _READY:
        simulate(replace(study, duration=min(study.duration, 60.0), warm_up=0.0), 0)
        _READY.add(study.model)


def seeds_of(config: str, runs: int) -> list[int]:
    """One seed per run, others for every configuration, so that these are independent."""
    return [int(seed) for seed in np.random.SeedSequence(list(config.encode())).generate_state(runs, np.uint32)]


def simulated(studies: dict[str, OffloadingStudy], runs: int, jobs: int) -> Iterator[tuple[str, list[Run]]]:
    """The runs of every configuration, in the order of the configurations."""
    work = {name: [(study, seed) for seed in seeds_of(name, runs)] for name, study in studies.items()}
    if jobs == 1:
        for name, todo in work.items():
            yield name, [carry_out(job) for job in todo]
        return
    for study in {study.model: study for study in studies.values()}.values():
        get_ready(study)  # compiles once, for all processes
    with pool(jobs) as processes:
        pending = {name: [processes.submit(carry_out, job) for job in todo] for name, todo in work.items()}
        for name, futures in pending.items():
            yield name, [future.result() for future in futures]


def compared(config: str, golden: dict[str, Golden], runs: list[Run], margin: float, policy: str = "") -> list[Row]:
    """One row per metric of theirs; those that we do not give, or that neither side has seen, without a test.

    Policies of `NOT_COMPATIBLE` are shown without a test.
    """
    rows = []
    for metric, figure in golden.items():
        if metric == REFERENCE_CPU:
            continue
        values = [run.metrics.get(metric, math.nan) for run in runs]
        row = Row(config, metric, figure.unit, figure.sample, Sample.of(values), None)
        row.comparison = None if policy in NOT_COMPATIBLE else _compare(row, golden, runs, margin)
        rows.append(row)
    return rows


def _compare(row: Row, golden: dict[str, Golden], runs: list[Run], margin: float) -> Comparison | None:
    theirs, ours = row.theirs, row.ours
    if math.isnan(theirs.mean) or math.isnan(ours.mean):
        return None
    base, _, of = row.metric.partition("[")
    if base.startswith("failed_") and base.endswith("_pct") and max(theirs.mean, ours.mean) < RARE:
        counted = f"tasks_counted[{of}" if of else "tasks_counted"
        if counted in golden:
            tasks = golden[counted].sample.mean, Sample.of([run.metrics.get(counted, 0.0) for run in runs]).mean
            return compare_rates(theirs, ours, tasks, max(margin * theirs.mean, RARE_MARGIN))
    return compare_means(theirs, ours, margin * abs(theirs.mean))


def judge(rows: list[Row]) -> None:
    """Give every row its verdict; differences are corrected over all rows."""
    tested = [row for row in rows if row.comparison is not None]
    corrected = holm([row.comparison.p_equal for row in tested if row.comparison])
    for row, p_value in zip(tested, corrected, strict=True):
        row.p_corrected = p_value
        if row.comparison is not None:
            row.verdict = verdict(row.comparison, p_value)


def pooled(rows: list[Row], margin: float) -> list[dict[str, Any]]:
    """The relative difference of every metric over all configurations, with a verdict of its own.

    Left out are failures, whose means of few runs are too skewed for the weights, and metrics of single
    applications, which depend on one another within a run.
    """
    groups: dict[str, list[tuple[Sample, Sample]]] = {}
    for row in rows:
        if (
            row.comparison is not None
            and row.theirs.mean
            and not row.metric.startswith("failed")
            and "[" not in row.metric
        ):
            groups.setdefault(row.metric, []).append((row.theirs, row.ours))
    found = {name: compare_pooled(pairs, margin) for name, pairs in groups.items()}
    corrected = holm([comparison.p_equal for _, comparison in found.values()])
    return [
        {
            "metric": name, "configurations": len(groups[name]), "difference": difference,
            "p_equal_corrected": p_value, "p_outside": comparison.p_outside, "verdict": verdict(comparison, p_value),
        }
        for (name, (difference, comparison)), p_value in zip(found.items(), corrected, strict=True)
    ]  # fmt: skip


def _relative(theirs: float, ours: float) -> float | None:
    return (ours - theirs) / theirs if theirs else (0.0 if ours == theirs else None)


def _figure(value: float) -> str:
    return f"{value:.5g}"


def table_of(config: str, rows: list[Row]) -> Table:
    columns = ["metric", "unit", "theirs", "+-", "ours", "+-", "difference", "verdict", "runs needed"]
    table = Table(config, columns)
    for row in rows:
        if row.theirs.mean == 0.0 == row.ours.mean:
            continue  # seen by neither
        change = _relative(row.theirs.mean, row.ours.mean)
        needed = row.comparison.needed if row.comparison else math.nan
        few = "reference too few" if math.isinf(needed) else f"{needed:.0f}"
        table.add(
            [
                row.metric, row.unit, _figure(row.theirs.mean), _figure(row.theirs.sd), _figure(row.ours.mean),
                _figure(row.ours.sd), f"{change:+.2%}" if change is not None else "-", row.verdict,
                few if row.verdict == "undecided" else "",
            ]
        )  # fmt: skip
    return table


def speed_of(config: str, study: OffloadingStudy, runs: list[Run], golden: dict[str, Golden]) -> dict[str, Any]:
    """CPU seconds per run, ours (mean) and theirs, and what was done in them."""
    cpu = math.fsum(run.cpu for run in runs)
    reference = golden[REFERENCE_CPU].sample.mean if REFERENCE_CPU in golden else None
    own = cpu / len(runs)
    return {
        "config_id": config, "model": study.model, "policy": study.policy, "devices": study.devices, "runs": len(runs),
        "cpu_s_per_run": own, "tasks_per_cpu_s": sum(run.tasks for run in runs) / cpu,
        "events_per_cpu_s": sum(run.events for run in runs) / cpu, REFERENCE_CPU: reference,
        "speed_up": reference / own if reference else None,
    }  # fmt: skip


def arguments() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--data", type=Path, help="folder with index.csv, the files it names, and golden.csv")
    made.add_argument("--peer", type=Path, metavar="DIR", help="a copy of EdgeCloudSim, instead of --data")
    made.add_argument("--drawn", type=int, default=5, help="fresh configurations for it (default: %(default)s)")
    made.add_argument("--first", type=int, default=1, help="number of the first one (default: %(default)s)")
    made.add_argument("--iterations", type=int, default=20, help="its runs of each (default: %(default)s)")
    made.add_argument("--golden", type=Path, help="their results (default: golden.csv in the data folder, if there)")
    made.add_argument("--config", action="append", default=[], help="only this configuration; may be repeated")
    made.add_argument("--runs", type=int, default=20, help="of ours per configuration (default: %(default)s)")
    made.add_argument("--jobs", type=int, default=1, help="processes (default: %(default)s)")
    made.add_argument("--margin", type=float, default=MARGIN, help="of equivalence, relative (default: %(default)s)")
    return made.parse_args()


def recorded(options: argparse.Namespace) -> tuple[dict[str, OffloadingStudy], dict[str, dict[str, Golden]]]:
    """The studies of a data folder, and its results. Raises `DataError`."""
    file = options.golden or options.data / "golden.csv"
    golden = read_golden(file) if options.golden or file.exists() else {}
    return read_studies(options.data, options.config), golden


def fresh(options: argparse.Namespace) -> tuple[dict[str, OffloadingStudy], dict[str, dict[str, Golden]]]:
    """Studies drawn for a copy of the peer, and what it says of them. Raises `DataError`."""
    edgecloudsim_peer.look(options.peer)
    studies, golden = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.first, options.first + options.drawn):
            drawn = edgecloudsim_peer.draw(options.peer, number, Path(folder))
            print(f"EdgeCloudSim runs {drawn.name}", file=sys.stderr, flush=True)
            studies[drawn.name] = drawn.study
            golden[drawn.name] = edgecloudsim_peer.golden_of(options.peer, drawn, options.iterations)
    return studies, golden


def main() -> int:
    options = arguments()
    try:
        if (options.data is None) == (options.peer is None):
            raise DataError(
                "which data? give --data FOLDER with index.csv and the files that it names, or --peer FOLDER with a "
                "compiled copy of EdgeCloudSim"
            )
        if options.runs < 2 or options.jobs < 1 or options.margin <= 0.0:
            raise DataError("--runs must be at least 2, --jobs at least 1 and --margin above 0")
        if options.drawn < 1 or options.iterations < 2:
            raise DataError("--drawn must be at least 1 and --iterations at least 2")
        studies, golden = recorded(options) if options.peer is None else fresh(options)
    except DataError as error:
        print(error, file=sys.stderr)
        return 2
    begun = time.monotonic()
    rows: list[Row] = []
    speeds = []
    for config, runs in simulated(studies, options.runs, options.jobs):
        figures = golden.get(config, {})
        rows += compared(config, figures, runs, options.margin, studies[config].policy)
        speeds.append(speed_of(config, studies[config], runs, figures))
        if not figures:
            rows += [
                Row(
                    config,
                    name,
                    "",
                    Sample(0, math.nan, math.nan),
                    Sample.of([run.metrics[name] for run in runs]),
                    None,
                )
                for name in runs[0].metrics
            ]
        done = f"{len(speeds)}/{len(studies)}"
        print(f"{done} {config}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    judge(rows)
    overall = pooled(rows, options.margin)
    report(rows, overall, speeds, options)
    verdicts = {*(row.verdict for row in rows), *(row["verdict"] for row in overall)}
    return 1 if "different" in verdicts else 0


def report(
    rows: list[Row], overall: list[dict[str, Any]], speeds: list[dict[str, Any]], options: argparse.Namespace
) -> None:
    """Print the tables or the JSON object."""
    by_config = {speed["config_id"]: [row for row in rows if row.config == speed["config_id"]] for speed in speeds}
    counts = {
        name: sum(row.verdict == name for row in rows) for name in ("equivalent", "different", "undecided", "none")
    }
    hopeless = [
        row for row in rows if row.verdict == "undecided" and row.comparison and math.isinf(row.comparison.needed)
    ]
    lacking = {row.metric for row in rows if math.isnan(row.ours.mean) and not math.isnan(row.theirs.mean)}
    summary: dict[str, object] = {
        **counts, "equivalent_as_zero": sum(row.theirs.mean == 0.0 == row.ours.mean for row in rows),
        "undecided_with_any_runs_of_ours": len(hopeless),
        "configurations": len(speeds), "margin": options.margin, "rare_margin_pct": RARE_MARGIN,
        "not_given": sorted(lacking),
        "not_compatible": [s["config_id"] for s in speeds if s["policy"] in NOT_COMPATIBLE],
    }  # fmt: skip
    data = {
        "configurations": [{**s, "metrics": [row.as_dict() for row in by_config[s["config_id"]]]} for s in speeds],
        "pooled": overall,
        "summary": summary,
    }
    pooled_table = Table("all configurations together", ["metric", "configurations", "difference", "verdict"])
    for each in overall:
        pooled_table.add([each["metric"], each["configurations"], f"{each['difference']:+.2%}", each["verdict"]])
    speed_table = Table("speed", ["configuration", "CPU s per run", "theirs", "tasks / CPU s", "events / CPU s"])
    for speed in speeds:
        theirs = f"{speed[REFERENCE_CPU]:.3g}" if speed[REFERENCE_CPU] else "-"
        speed_table.add(
            [speed["config_id"], f"{speed['cpu_s_per_run']:.3g}", theirs, f"{speed['tasks_per_cpu_s']:,.0f}",
             f"{speed['events_per_cpu_s']:,.0f}"]
        )  # fmt: skip
    summary_table = Table("summary", ["figure", "value"])
    for name, value in summary.items():
        summary_table.add([name, value])
    tables = [
        *(table_of(config, found) for config, found in by_config.items()),
        pooled_table,
        speed_table,
        summary_table,
    ]
    print_result("edgecloudsim", _finite(data), tables, as_json=options.json)


def _finite(data: Any) -> Any:
    """`data` with null for what is not a number, which JSON does not have."""
    if isinstance(data, float) and not math.isfinite(data):
        return None
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    return [_finite(value) for value in data] if isinstance(data, list) else data


if __name__ == "__main__":
    sys.exit(main())
