"""Consolidation in datacentres: our model against reference rows of ExtCloudSim, and at scale.

    python -m benchmarks.extcloudsim --data DIR [--golden FILE] [--rules] [--json]

DIR holds the peer's inputs (utilisation files, vm_params.csv, energy_price.txt, golden.csv). Every row of its golden
files, and of those of the folder `extcloudsim_more` beside it, is run with the peer's physics. `ours` and `theirs`
stand side by side with the relative difference; a row is equal where all are below `TOLERANCE` or equal to the
printed digits. A recorded column that is neither compared nor a setting of the run is an error. Where the course of a
run was recorded, the first decision that differs is named: by its migration (machine, from, to) if there is
moves_gNN.csv, by the figures of the period after it if the row is in expected_periods.csv. `--rules` switches the
peer's rules off one by one. Then N machines on N hosts for a day of 288 periods, corrected physics, in a process of
its own.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks.cloudsim_statistics import OFFSET, STEP, statistics

from benchmarks.measure import Table, host, parser

Row = Mapping[str, str]
Move = tuple[int, int, int, int]  # decision, machine, from, to
PERIODS = 285  # that the peer accounts
END = 86000.0  # s, unless the row has another one
# columns that a run is set up by, and those of the peer's own machine
SETTINGS = {
    "scenario", "status", "workload", "n_vms", "n_hosts", "multi_datacenter", "alloc_policy", "selection_policy",
    "policy_parameter", "MY_POLICIES", "DVFS", "PENALTY", "VARIANT_ENERGY", "THRESHOLD", "power_model", "sim_time_s",
    "notes", "wall_s_shared_2core", "max_rss_MiB", "cpu_user_plus_sys_s",
}  # fmt: skip
TOLERANCE = 1e-5
CAPACITY = 4.0  # of a host
# the peer's numbers of class rows differ between its platforms
ROWS = {"xeon-1220": ("hybrid", "memory", "compute"), "": ("memory", "hybrid", "compute")}
DETECTORS = {"datagenallocation": "fop", "sn": "thr", "dvfs": "thr"}
STILL = {"sn", "dvfs"}  # nothing migrates
# rows that show what a rule of the peer does
SHOWS = {
    "clock-fit": "g06", "own-detectors": "g11", "targets-emptied": "x01", "billed-point": "x04",
    "fixed-allocation": "x15", "brown-place": "x18", "placed-once": "x19",
}  # fmt: skip


def traces(data: Path, workload: str, count: int) -> np.ndarray:
    """(machines, lines) utilisation every `STEP` s; the last line, which the peer does not read, is the one before."""
    folder = data / workload
    if not folder.is_dir():  # w10 is the first ten files of a larger folder
        larger = [one for one in sorted(data.iterdir()) if one.is_dir() and len(list(one.iterdir())) >= count]
        if not larger:
            raise FileNotFoundError(f"{data}: no folder with {count} utilisation files for workload '{workload}'")
        folder = larger[0]
    files = sorted(folder.iterdir())[:count]
    if len(files) < count:
        raise FileNotFoundError(f"{folder}: {len(files)} files for {count} machines")
    lines = np.array([file.read_text().split()[: PERIODS + 2] for file in files], np.float64)
    return np.pad(lines, ((0, 0), (0, 1)), "edge")


def on(row: Row, switch: str) -> bool:
    """Whether a switch of the row is set."""
    return float(row.get(switch) or 0) != 0.0


def model(data: Path, row: Row, quirks: frozenset[str]) -> Any:
    """A model of one golden row."""
    from cosim.engine.continuum.power import platform
    from cosim.engine.continuum.price import PlaceTariff, constant, steps
    from cosim.extensions.extcloudsim.datacentre.layout import CLASS_NUMBER, Hosts, Machines, contiguous
    from cosim.extensions.extcloudsim.datacentre.model import Datacentres
    from cosim.extensions.extcloudsim.datacentre.platforms import HostKind, kinds_of
    from cosim.extensions.extcloudsim.datacentre.settings import DatacentreSettings

    n, n_hosts = int(float(row["n_vms"])), int(float(row["n_hosts"]))
    with (data / "vm_params.csv").open() as file:
        rows = list(csv.DictReader(file))[:n]
    if len(rows) < n:
        raise ValueError(f"vm_params.csv has {len(rows)} machines, the row wants {n}")
    processor = platform(row["power_model"])
    classes = ROWS.get(processor.name, ROWS[""])

    def column(name: str) -> Any:
        return contiguous([float(one[name]) for one in rows])

    machines = Machines(
        mips=column("mips_of_host_4.0"),
        ram=column("ram_MB"),
        work=contiguous([CLASS_NUMBER[classes[int(one["vm_class_row"])]] for one in rows], np.int64),
        rate=column("rate_q"),
        price=column("price_usd_per_h") / 3600.0,
    )
    places = 2 if on(row, "multi_datacenter") else 1
    place = np.repeat(np.arange(places), n_hosts)  # a host list per datacentre
    n_hosts *= places
    hosts = Hosts(
        kind=np.zeros(n_hosts, np.int64),
        place=contiguous(place, np.int64),
        mips=np.full(n_hosts, CAPACITY),
        ram=np.full(n_hosts, 32768.0),
        failures=np.zeros(n_hosts),
    )
    price = constant(4.2e-8)
    if on(row, "VARIANT_ENERGY"):
        # the period that begins at 300.1 s has the third price
        price = steps(np.loadtxt(data / "energy_price.txt")[1:], STEP)
    policy = row["alloc_policy"].lower()
    own, dvfs = on(row, "MY_POLICIES"), on(row, "DVFS")
    options: dict[str, Any] = {
        "detector": DETECTORS.get(policy, policy),
        "selector": row["selection_policy"].lower(),
        "safety": float(row.get("policy_parameter") or 1.0),
        "threshold": float(row["THRESHOLD"]),
        "placer": "first-fit" if policy in STILL else "dvfs" if dvfs else "best-fit" if own else "power-aware",
        "governor": "ondemand" if dvfs else "cost" if own else "performance",
        "penalty": "proportional" if on(row, "PENALTY") else "flat",
    }
    lines = traces(data, row["workload"], n)
    sampled = lines[:, :-1] + np.diff(lines) * (OFFSET / STEP)  # at 0.1 s, 300.1 s, ...
    return Datacentres(
        hosts, kinds_of([HostKind(processor)]), machines, sampled,
        DatacentreSettings(quirks=quirks, **options), [PlaceTariff(price)] * places,
    )  # fmt: skip


class Course(NamedTuple):
    """What a run brought."""

    figures: dict[str, float]
    moves: list[Move]  # in the order in which they start
    periods: list[dict[str, float]]


def course(data: Path, row: Row, quirks: frozenset[str]) -> Course:
    """The row by our model, and the peer's statistics of where its machines were."""
    from cosim.extensions.extcloudsim.datacentre.govern import loads

    made = model(data, row, quirks)
    made.advance(STEP)  # the peer does not account the first period
    before, at, moves, used = made.ledger(), made.at.tolist(), [], 0.0
    periods: list[dict[str, float]] = []
    price = made.tariffs[0].price
    for period in range(1, PERIODS + 1):
        active, over = made.counts.active_periods, made.counts.over_periods
        made.advance(STEP * (period + 1))
        moves += [(period, *move) for move in made.moves]
        periods.append({
            "energy_price_usd_per_J": float(price.at(STEP * period)),
            "active_hosts": made.counts.active_periods - active,
            "vm_migrations_penalised": int(np.count_nonzero(made.arrival > STEP * period)),
            "overloaded_hosts": made.counts.over_periods - over,
        })  # fmt: skip
        wanted = made.utilisation(period) * made.machines.mips
        load = loads(made.hosts, made.kinds, made.machines, made.at, wanted)
        used += float(np.minimum(1.0, load[np.arange(len(load)), made.point]).sum())
    after = made.ledger()
    made.advance(STEP * (PERIODS + 1) + 1.0)  # it still decides at 85,800.1 s
    moves += [(PERIODS + 1, *move) for move in made.moves]
    energy = float(after.energy.sum() - before.energy.sum())
    cost = sum(b.cost - a.cost for a, b in zip(before.bills, after.bills, strict=True))
    if "repriced-energy" in quirks:
        cost = energy * float(after.energy_cost.sum() / after.energy.sum())
    points = (after.point_periods - before.point_periods).sum(axis=0)
    penalty = after.penalty - before.penalty
    m, lines = made.machines, traces(data, row["workload"], len(at))
    return Course({
        "energy_J": energy,
        "energy_cost_usd": cost,
        "penalty_usd": penalty,
        "total_cost_usd": cost + penalty,
        "migrations_started": len(moves),
        "migrations_penalised": sum(one["vm_migrations_penalised"] for one in periods),
        "overload_host_periods": after.over_periods - before.over_periods,
        "migration_penalty_usd": float(after.migration.sum() - before.migration.sum()),
        "overload_penalty_usd": float(after.overload.sum() - before.overload.sum()),
        "crashes": after.restarts,
        **{f"op{k}_host_periods": int(count) for k, count in enumerate(points)},
        "active_host_periods": after.active_periods - before.active_periods,
        # undervolted ones, which are no operating points of this model
        "extended_host_periods": after.active_periods - before.active_periods - int(points.sum()),
        "sum_utilisation_over_host_periods": used,
        **statistics(lines, m.mips, m.ram, CAPACITY, len(made.up), at, moves, float(row.get("sim_time_s") or END)),
    }, moves, periods)  # fmt: skip


def folder_of(data: Path) -> Path:
    """The folder with more rows and the recorded migrations."""
    return data.parent / "extcloudsim_more" if data.name == "extcloudsim" else data


def first_difference(ours: Course, data: Path, name: str) -> str:
    """Where the course of a row leaves the recorded one, if it was recorded."""
    path = folder_of(data) / f"moves_{name[:3]}.csv"
    theirs = [tuple(map(int, line.values())) for line in read_rows(path)] if path.exists() else ours.moves
    for number, (one, other) in enumerate(zip_longest(ours.moves, theirs), 1):
        if one != other:
            period = min(move[0] for move in (one, other) if move)
            return f"decision {period}: migration {number} is {one and one[1:]}, not {other and other[1:]}"
    found = [f"all {len(theirs)} migrations in order"] if path.exists() else []
    path = data / "expected_periods.csv"
    lines = [line for line in (read_rows(path) if path.exists() else []) if line["scenario"] == name]
    for decision, (one, line) in enumerate(zip(ours.periods, lines, strict=False), 1):
        for key, value in one.items():
            if off(value, line[key]) > TOLERANCE:
                return f"decision {decision}: {key} is {value:g}, not {line[key]}"
    return "; ".join([*found, f"all {len(lines)} periods"] if lines else found)


def off(value: float, text: str) -> float:
    """The relative difference from a recorded figure; at most `TOLERANCE` where all digits that were printed agree."""
    theirs = float(text)
    made = abs(value - theirs) / abs(theirs) if theirs else abs(value)
    printed = abs(value - theirs) <= 0.501 * 10.0 ** int(Decimal(text).as_tuple().exponent)
    return min(made, TOLERANCE) if printed else made


def compare(data: Path, row: Row) -> dict[str, Any]:
    """One golden row beside our figures for it."""
    from cosim.extensions.extcloudsim.datacentre.quirks import COMPATIBLE

    name = row["scenario"]
    if row.get("status", "ok") != "ok":
        return {"scenario": name, "status": row["status"], "verdict": "not run: the peer gave no figures"}
    try:
        ours = course(data, row, COMPATIBLE)
        if unread := [key for key, text in row.items() if text and key not in SETTINGS | ours.figures.keys()]:
            raise ValueError(f"nothing is known to compare with the columns {', '.join(unread)}")
    except (KeyError, ValueError, OSError) as error:
        return {"scenario": name, "status": "cannot run", "verdict": str(error)}
    compared = {
        key: {"ours": value, **({"theirs": float(text), "difference": off(value, text)} if text else {})}
        for key, value in ours.figures.items()
        for text in [row.get(key, "")]
    }
    late = [key for key, one in compared.items() if one.get("difference", 0.0) > TOLERANCE]
    course_of = first_difference(ours, data, name)
    verdict = "equal" if not late else "off: " + ", ".join(late)
    verdict += f"; {course_of}" if course_of else ""
    return {"scenario": name, "status": "ok", "figures": compared, "verdict": verdict}


def scale(count: int, periods: int) -> dict[str, float]:
    """N machines on N hosts; CPU time without compiling, and the largest memory of the process."""
    import time

    from cosim.engine.continuum.power import PLATFORMS
    from cosim.extensions.extcloudsim.datacentre.layout import Hosts, Machines
    from cosim.extensions.extcloudsim.datacentre.model import Datacentres
    from cosim.extensions.extcloudsim.datacentre.platforms import HostKind, kinds_of
    from cosim.extensions.extcloudsim.datacentre.settings import DatacentreSettings
    from cosim.extensions.extcloudsim.datacentre.utilisation import Pattern

    def build(n: int, length: int) -> Datacentres:
        rng = np.random.default_rng(1)
        machines = Machines(
            rng.choice([0.125, 0.25, 0.5, 0.75], n), rng.uniform(100.0, 2000.0, n), rng.integers(0, 4, n),
            rng.integers(1, 4, n).astype(np.float64), np.full(n, 0.0124 / 3600.0),
        )  # fmt: skip
        zeros = np.zeros(n, np.int64)
        hosts = Hosts(zeros, zeros, np.full(n, 4.0), np.full(n, 32768.0), np.zeros(n))
        utilisation = Pattern(mean=0.5).draw(n, length, 300.0, rng)
        return Datacentres(
            hosts, kinds_of([HostKind(PLATFORMS["xeon-1220"])]), machines, utilisation,
            DatacentreSettings(detector="fop", selector="mct", placer="best-fit", governor="cost"),
        )  # fmt: skip

    build(4, 3).advance(900.0)  # compiled code is there from here on
    before = time.process_time()
    made = build(count, periods)
    made.advance(300.0 * periods)
    used = time.process_time() - before
    return {
        "machines": count, "hosts": count, "periods": periods, "cpu_s": used,
        "rss_MB": peak_memory() / 1e6,
        "migrations": made.ledger().migrations,
    }  # fmt: skip


def peak_memory() -> float:
    """B of this process at its largest; unlike getrusage, without what its parent had before it."""
    (line,) = (one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("VmHWM:"))
    return float(line.split()[1]) * 1024.0


def goldens(data: Path) -> list[Path]:
    """The files with reference rows that belong to a folder of inputs."""
    more = (data / "golden_more.csv", data.parent / "extcloudsim_more" / "golden.csv")
    return [data / "golden.csv", *(path for path in more if path.exists())]


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a golden file."""
    with path.open() as file:
        return list(csv.DictReader(file))


def switched_off(data: Path, rows: list[dict[str, str]]) -> Iterator[dict[str, Any]]:
    """Rows with all rules of the peer, without one, and corrected but for hosts that are off, not asleep."""
    from cosim.extensions.extcloudsim.datacentre.quirks import COMPATIBLE

    by_name = {row["scenario"][:3]: row for row in rows}
    for name in ["g03", *sorted(set(SHOWS.values()))]:
        mine = sorted(rule for rule in COMPATIBLE if SHOWS.get(rule, "g03") == name)
        for rule in ["all", *mine, "none"] if name in by_name else []:
            without = {"all": COMPATIBLE, "none": frozenset({"instant-off"})}.get(rule, COMPATIBLE - {rule})
            made = course(data, by_name[name], without).figures
            keys = ("energy_J", "migrations_started", "penalty_usd")
            yield {"row": name, "rule": rule, **{key: made[key] for key in keys}}


def options() -> argparse.ArgumentParser:
    """The arguments."""
    made = parser(__doc__)
    made.add_argument("--data", type=Path, help="folder of the peer's inputs; without it only the scale is measured")
    made.add_argument("--golden", type=Path, help="rows to compare with; default: all that are there")
    made.add_argument("--rules", action="store_true", help="switch the rules of the peer off one by one")
    made.add_argument("--machines", type=int, default=1000, help="machines and hosts of the scale test; 0: none")
    made.add_argument("--periods", type=int, default=288, help="periods of the scale test")
    made.add_argument("--scale-only", action="store_true", help=argparse.SUPPRESS)
    return made


def main() -> int:
    """Run, print, and fail when a row differs."""
    chosen = options().parse_args()
    if chosen.scale_only:
        print(json.dumps(scale(chosen.machines, chosen.periods)))
        return 0
    rows: list[dict[str, Any]] = []
    rules: list[dict[str, Any]] = []
    if chosen.data is not None:
        files = [chosen.golden] if chosen.golden else goldens(chosen.data)
        for path in (chosen.data, *files):
            if not path.exists():
                print(f"{path} is not there; --data names the folder of the peer's inputs", file=sys.stderr)
                return 2
        known = [row for path in files for row in read_rows(path)]
        rows = [compare(chosen.data, row) for row in known]
        rules = list(switched_off(chosen.data, known)) if chosen.rules else []
    size: dict[str, float] = {}
    if chosen.machines > 0:
        command = [sys.executable, "-m", "benchmarks.extcloudsim", "--scale-only"]
        command += ["--machines", str(chosen.machines), "--periods", str(chosen.periods)]
        size = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    if chosen.json:
        print(json.dumps({"benchmark": "extcloudsim", "host": host(), "rows": rows, "rules": rules, "scale": size}))
    else:
        table = Table("ExtCloudSim, the peer's physics", ["row", "figure", "ours", "theirs", "difference"])
        for row in rows:
            for key, values in row.get("figures", {}).items():
                theirs = f"{values['theirs']:.7g}" if "theirs" in values else "-"
                off = f"{values['difference']:.2e}" if "theirs" in values else "-"
                table.add([row["scenario"], key, f"{values['ours']:.7g}", theirs, off])
            table.add([row["scenario"], "verdict: " + row["verdict"], "", "", ""])
        print(table)
        if rules:
            table = Table("without one rule", ["row", "rule", "energy J", "migrations", "penalty $"])
            for one in rules:
                table.add([str(value) for value in one.values()])
            print(table)
        if size:
            print("scale: " + ", ".join(f"{key} {value:.4g}" for key, value in size.items()))
    return int(any(row["verdict"].startswith("off") for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
