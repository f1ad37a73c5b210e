"""What foresight saves: `python -m benchmarks.predictor --data DIR [--json] [--seeds 2] [--vms 300]`.

DIR holds the `planetlab` days 20110409 and 20110412, on which nothing was trained, and may hold
`bitbrains`, whose last nine days count, each as so many machines. A share of the VMs of a day, with sizes
drawn by seed, is consolidated by LRMMT (local regression of the hosts' load, safety 1.2, minimum migration
time) and by foresight with each predictor. Counted are migrations, and machine-periods in which a machine
got less than it asked for. Differences from LRMMT are taken run by run, on equal machines and loads; their
means have 95 % intervals. Exit code 1 when oracle <= learned < LRMMT or the share of the gain is missed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Table, parser, print_result
from cosim.extensions.extcloudsim.claims import DAYS, ROWS, day, simulate
from cosim.extensions.extcloudsim.predict.foresight import PREDICTORS
from cosim.extensions.reproduce.claims import claim
from cosim.extensions.traces import bitbrains
from cosim.results.student import interval

SHARE = 0.8  # of the oracle's gain that the learned predictor must recover
TRAINED = 20  # days of Bitbrains


def traces(data: Path) -> dict[str, NDArray[np.float64]]:
    """Name -> utilisation (machines, 288) of each day."""
    found = {name: day(data, name) for name in DAYS}
    if (data / "bitbrains").is_dir():
        use = np.nan_to_num(bitbrains.read(data / "bitbrains").utilisation.astype(np.float64), nan=0.0)
        left = use[:, TRAINED * 288 : 29 * 288]
        found["bitbrains"] = left.reshape(len(left) * 9, 288)
    return found


def verdicts(found: dict[str, dict[str, float]]) -> dict[str, bool | float]:
    """What must hold of the means."""
    first, learned, oracle = found["lrmmt"], found["learned"], found["oracle"]
    gain = first["migrations"] - oracle["migrations"]
    share = (first["migrations"] - learned["migrations"]) / gain if gain > 0 else 0.0
    order = {f"{key}_in_order": oracle[key] <= learned[key] < first[key] for key in ("migrations", "violating_share")}
    return {**order, "gain_recovered": share, "gain_met": share >= SHARE}


_TABLE = claim("extcloudsim.table3").numbers  # of MLSysOps D4.3
PAPER = {
    policy: (_TABLE[row].get("migrations saved, %", 0.0), _TABLE[row]["violations, %"]) for row, policy in ROWS.items()
}


def compared(runs: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, Any]]:
    """Policy -> migrations saved (%) and violations (points) against LRMMT, paired by run: mean and 95 % half width."""
    first = runs["lrmmt"]
    found: dict[str, dict[str, Any]] = {}
    for policy, made in runs.items():
        moved = [(a["migrations"], b["migrations"]) for a, b in zip(first, made, strict=True)]
        saved = [100.0 * (1.0 - b / a) for a, b in moved if a > 0.0]  # in the other runs there is nothing to save
        violating = [100.0 * one["violating_share"] for one in made]
        less = [100.0 * (b["violating_share"] - a["violating_share"]) for a, b in zip(first, made, strict=True)]
        found[policy] = {
            "migrations_saved_percent": interval(saved), "violating_percent": interval(violating),
            "violating_points_against_lrmmt": interval(less), "paper": PAPER.get(policy),
        }  # fmt: skip
    return found


def compared_table(source: str, found: dict[str, dict[str, Any]]) -> Table:
    """The same as a table, beside the paper's."""
    head = ["policy", "migrations saved %", "violating %", "points against lrmmt", "paper: saved %", "violating %"]
    table = Table(f"{source}, against LRMMT (mean +- 95 %)", head)
    for policy, row in found.items():
        figures = [f"{mean:.4g} +- {half:.2g}" for mean, half in list(row.values())[:3]]
        table.add([policy, *figures, *(row["paper"] or ("-", "-"))])
    return table


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--data", type=Path, required=True, help="folder with planetlab/ and bitbrains/")
    arguments.add_argument("--vms", type=int, default=300, help="of a day (default: %(default)s)")
    arguments.add_argument("--seeds", type=int, default=2, help="per day (default: %(default)s)")
    options = arguments.parse_args()
    begun = time.process_time()
    days = traces(options.data)
    runs: dict[str, dict[str, list[dict[str, float]]]] = {}
    for name, use in days.items():
        for policy in ("lrmmt", *PREDICTORS):
            runs.setdefault(name, {})[policy] = [
                simulate(policy, use, options.vms, seed) for seed in range(1, options.seeds + 1)
            ]
            print(f"{name} {policy}: {runs[name][policy]}", file=sys.stderr, flush=True)
    sources = {"planetlab": DAYS, **({"bitbrains": ("bitbrains",)} if "bitbrains" in days else {})}
    result: dict[str, Any] = {}
    tables = []
    for source, names in sources.items():
        means = {
            policy: {
                key: float(np.mean([run[key] for day in names for run in runs[day][policy]]))
                for key in runs[names[0]][policy][0]
            }
            for policy in ("lrmmt", *PREDICTORS)
        }
        pairs = compared({policy: [run for day in names for run in runs[day][policy]] for policy in means})
        result[source] = {"means": means, "verdicts": verdicts(means), "against_lrmmt": pairs}
        table = Table(f"{source}: {verdicts(means)}", ["policy", *means["lrmmt"]])
        for policy, figures in means.items():
            table.add([policy, *(f"{value:.4g}" for value in figures.values())])
        tables += [table, compared_table(source, pairs)]
    held = {source: all(bool(v) for v in one["verdicts"].values()) for source, one in result.items()}
    data = {"sources": result, "runs": runs, "held": held, "cpu_s": time.process_time() - begun}
    print_result("predictor", data, tables, as_json=options.json)
    sys.exit(0 if held["planetlab"] else 1)


if __name__ == "__main__":
    main()
