"""Consolidation in datacentres: our model against reference rows of ExtCloudSim, and at scale.

    python -m benchmarks.extcloudsim --data DIR [--golden FILE] [--json]

DIR holds the peer's inputs (utilisation files, vm_params.csv, energy_price.txt, golden.csv). Every row
of the golden file with the status ok is run with the peer's physics; other rows are reported as they
are. `ours` and `theirs` stand side by side with the relative difference, and a verdict against the
tolerances in `TOLERANCE`; rows for which none is promised are judged by the same measure. Then N
machines on N hosts for a day of 288 periods, corrected physics, in a process of its own.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Table, host, parser

Row = Mapping[str, str]
PERIODS = 285
TOLERANCE = {"energy_J": 0.01, "migrations": 0.1, "penalty_usd": 0.2, "active_host_periods": 0.05}
EXACT = {"g01", "g02"}  # rows whose energy must agree to 1e-6
# the peer's numbers of class rows differ between its platforms
ROWS = {"xeon-1220": ("hybrid", "memory", "compute"), "": ("memory", "hybrid", "compute")}
DETECTORS = {"sn": "sno", "datagenallocation": "fop"}


def traces(data: Path, workload: str, count: int) -> np.ndarray:
    """(machines, periods) utilisation as the peer samples it: 300.1 s, 600.1 s, ... between two lines."""
    folder = data / workload
    if not folder.is_dir():  # w10 is the first ten files of a larger folder
        larger = [one for one in sorted(data.iterdir()) if one.is_dir() and len(list(one.iterdir())) >= count]
        if not larger:
            raise FileNotFoundError(f"{data}: no folder with {count} utilisation files for workload '{workload}'")
        folder = larger[0]
    files = sorted(folder.iterdir())[:count]
    if len(files) < count:
        raise FileNotFoundError(f"{folder}: {len(files)} files for {count} machines")
    made = np.empty((count, PERIODS))
    for v, file in enumerate(files):
        lines = np.array(file.read_text().split()[:287], np.float64)
        lines = np.append(lines, lines[-1])
        made[v] = lines[1 : PERIODS + 1] + np.diff(lines)[1 : PERIODS + 1] * (0.1 / 300.0)
    return made


def on(row: Row, switch: str) -> bool:
    """Whether a switch of the row is set."""
    return float(row.get(switch) or 0) != 0.0


def model(data: Path, row: Row, quirks: frozenset[str]) -> Any:
    """A model of one golden row."""
    from cosim.engine.continuum.power import platform
    from cosim.engine.continuum.price import Tariff, constant, steps
    from cosim.extensions.extcloudsim.datacentre.layout import CLASS_NUMBER, Hosts, Machines, contiguous
    from cosim.extensions.extcloudsim.datacentre.model import Datacentres
    from cosim.extensions.extcloudsim.datacentre.platforms import HostKind, kinds_of
    from cosim.extensions.extcloudsim.datacentre.settings import Settings

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
        mips=np.full(n_hosts, 4.0),
        ram=np.full(n_hosts, 32768.0),
        failures=np.zeros(n_hosts),
    )
    price = constant(4.2e-8)
    if on(row, "VARIANT_ENERGY"):
        # the period that is accounted at 600.1 s has the third price
        price = steps(np.loadtxt(data / "energy_price.txt")[2:], 300.0)
    policy = row["alloc_policy"].lower()
    own, dvfs = on(row, "MY_POLICIES"), on(row, "DVFS")
    options: dict[str, Any] = {
        "detector": DETECTORS.get(policy, policy),
        "selector": row["selection_policy"].lower(),
        "safety": float(row.get("policy_parameter") or 1.0),
        "threshold": float(row["THRESHOLD"]),
        "placer": "dvfs" if dvfs else "best-fit" if own else "power-aware",
        "governor": "ondemand" if dvfs else "cost" if own else "performance",
        "penalty": "proportional" if on(row, "PENALTY") else "flat",
    }
    if policy == "dvfs":  # nothing migrates
        options |= {"detector": lambda state: np.zeros(len(state.up), np.bool_), "evacuate": False}
    return Datacentres(
        hosts, kinds_of([HostKind(processor)]), machines, traces(data, row["workload"], n),
        Settings(quirks=quirks, **options), [Tariff(price)] * places,
    )  # fmt: skip


def figures(data: Path, row: Row, quirks: frozenset[str]) -> dict[str, float]:
    """The row's figures by our model."""
    made = model(data, row, quirks)
    made.advance(PERIODS * 300.0)
    books = made.ledger()
    points = books.point_periods.sum(axis=0)
    return {
        "energy_J": float(books.energy.sum()),
        "energy_cost_usd": float(sum(bill.cost for bill in books.bills)),
        "legacy_energy_cost_usd": float(books.energy_cost.sum()),
        "migrations": books.migrations,
        "penalty_usd": books.penalty,
        "migration_penalty_usd": float(books.migration.sum()),
        "overload_penalty_usd": float(books.overload.sum()),
        "active_host_periods": books.active_periods,
        "overload_host_periods": books.over_periods,
        "sum_utilisation_over_host_periods": float(books.busy.sum() / 300.0),
        **{f"op{k}_host_periods": int(count) for k, count in enumerate(points)},
    }


def compare(data: Path, row: Row) -> dict[str, Any]:
    """One golden row beside our figures for it."""
    from cosim.extensions.extcloudsim.datacentre.quirks import COMPATIBLE

    name = row["scenario"]
    if row.get("status", "ok") != "ok":
        return {"scenario": name, "status": row["status"], "verdict": "not run: the peer gave no figures"}
    try:
        ours = figures(data, row, COMPATIBLE)
    except (KeyError, ValueError, OSError) as error:
        return {"scenario": name, "status": "cannot run", "verdict": str(error)}
    names = {"migrations": "migrations_started", "legacy_energy_cost_usd": "energy_cost_usd"}
    compared = {}
    for key, value in ours.items():
        text = row.get(names.get(key, key), "")
        if not text or (key == "energy_cost_usd" and on(row, "VARIANT_ENERGY")):
            compared[key] = {"ours": value}  # the peer's figure is a defect: the last price for all energy
            continue
        theirs = float(text)
        off = abs(value - theirs) / abs(theirs) if theirs else abs(value - theirs)
        compared[key] = {"ours": value, "theirs": theirs, "difference": off}
    limits = {**TOLERANCE, "energy_J": 1e-6} if name[:3] in EXACT else TOLERANCE
    late = [key for key, limit in limits.items() if compared[key].get("difference", 0.0) > limit]
    verdict = "within the tolerances" if not late else "off: " + ", ".join(late)
    return {"scenario": name, "status": "ok", "figures": compared, "verdict": verdict}


def scale(count: int, periods: int) -> dict[str, float]:
    """N machines on N hosts; CPU time without compiling, and the largest memory of the process."""
    import time

    from cosim.engine.continuum.power import PLATFORMS
    from cosim.extensions.extcloudsim.datacentre.layout import Hosts, Machines
    from cosim.extensions.extcloudsim.datacentre.model import Datacentres
    from cosim.extensions.extcloudsim.datacentre.platforms import HostKind, kinds_of
    from cosim.extensions.extcloudsim.datacentre.settings import Settings
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
            Settings(detector="fop", selector="mct", placer="best-fit", governor="cost"),
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


def options() -> argparse.ArgumentParser:
    """The arguments."""
    made = parser(__doc__)
    made.add_argument("--data", type=Path, help="folder of the peer's inputs; without it only the scale is measured")
    made.add_argument("--golden", type=Path, help="rows to compare with; default: golden.csv in the folder")
    made.add_argument("--machines", type=int, default=1000, help="machines and hosts of the scale test; 0: none")
    made.add_argument("--periods", type=int, default=288, help="periods of the scale test")
    made.add_argument("--scale-only", action="store_true", help=argparse.SUPPRESS)
    return made


def main() -> int:
    """Run, print, and fail when a row that must be exact is not."""
    chosen = options().parse_args()
    if chosen.scale_only:
        print(json.dumps(scale(chosen.machines, chosen.periods)))
        return 0
    rows: list[dict[str, Any]] = []
    if chosen.data is not None:
        golden = chosen.golden or chosen.data / "golden.csv"
        for path in (chosen.data, golden):
            if not path.exists():
                print(f"{path} is not there; --data names the folder of the peer's inputs", file=sys.stderr)
                return 2
        with golden.open() as file:
            rows = [compare(chosen.data, row) for row in csv.DictReader(file)]
    size: dict[str, float] = {}
    if chosen.machines > 0:
        command = [sys.executable, "-m", "benchmarks.extcloudsim", "--scale-only"]
        command += ["--machines", str(chosen.machines), "--periods", str(chosen.periods)]
        size = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    if chosen.json:
        print(json.dumps({"benchmark": "extcloudsim", "host": host(), "rows": rows, "scale": size}))
    else:
        table = Table("ExtCloudSim, the peer's physics", ["row", "figure", "ours", "theirs", "difference"])
        for row in rows:
            for key, values in row.get("figures", {}).items():
                theirs = f"{values['theirs']:.7g}" if "theirs" in values else "-"
                off = f"{values['difference']:.2e}" if "theirs" in values else "-"
                table.add([row["scenario"], key, f"{values['ours']:.7g}", theirs, off])
            table.add([row["scenario"], "verdict: " + row["verdict"], "", "", ""])
        print(table)
        if size:
            print("scale: " + ", ".join(f"{key} {value:.4g}" for key, value in size.items()))
    exact = [row for row in rows if row["scenario"][:3] in EXACT and row["status"] == "ok"]
    return int(any(row["verdict"].startswith("off: energy") for row in exact))


if __name__ == "__main__":
    raise SystemExit(main())
