"""What calibration achieves on data that it has not seen.

python -m benchmarks.twin --job NAME [--data DIR] [--held-back DIR] [--quick] [--seed N] [--workers N]
    [--services NAME ...] [--busy] [--json]

Each job prints its figures before and after calibration, the noise floor of its data where there is
one, CPU seconds and runs. `--data` holds the files somewhere below it (default: ../shared/data beside the
checkout); files below `--held-back` serve the judgement only. `--quick` takes fewer seeds and cases.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import cast

from benchmarks.measure import Table, parser, print_result
from cosim.contract.errors import CosimError

# Job -> the module whose `run(data, held_back, quick)` measures it.
JOBS = {
    "simtune": "benchmarks.twin_simtune",
    "power": "benchmarks.twin_power",
    "5g": "benchmarks.twin_fiveg",
    "battery": "benchmarks.twin_battery",
    "edge": "benchmarks.twin_edge",
    "noise": "benchmarks.twin_noise",
    "recovery": "benchmarks.twin_recovery",
    "compare": "benchmarks.twin_compare",
    "faults": "benchmarks.twin_faults",
    "misfit": "benchmarks.twin_misfit",
    "sound": "benchmarks.twin_sound",
    "queues": "benchmarks.twin_queues",
    "splits": "benchmarks.twin_splits",
    "service": "benchmarks.twin_service",
    "service-exact": "benchmarks.twin_service_exact",
}
DRAWN = {"faults", "sound", "queues", "service-exact"}  # jobs whose data are drawn by a seed, in several processes
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
Run = Callable[..., dict[str, object]]  # of data, held_back, quick; of some more


def tables(job: str, found: Mapping[str, object]) -> list[Table]:
    """A table of the single figures, and one of each list of records."""
    single = Table(f"{job}", ["figure", "value"])
    lists: list[Table] = []
    for name, value in found.items():
        if isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
            columns = list(dict.fromkeys(key for row in value for key in row))
            lists.append(Table(name, columns))
            for row in value:
                lists[-1].add([_text(row.get(key, "")) for key in columns])
        elif isinstance(value, Mapping):
            for key, part in value.items():
                single.add([f"{name}.{key}", _text(part)])
        elif isinstance(value, list | tuple):
            for part in value:
                single.add([name, _text(part)])
        else:
            single.add([name, _text(value)])
    return [*lists, single]


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main(arguments: list[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--job", required=True, choices=sorted(JOBS))
    options.add_argument("--data", type=Path, help="folder of the data (default: ../shared/data)")
    options.add_argument("--held-back", type=Path, help="folder of data for the judgement only")
    options.add_argument("--quick", action="store_true", help="fewer seeds and cases")
    options.add_argument("--seed", type=int, help=f"draws the data, of --job {', '.join(sorted(DRAWN))}")
    options.add_argument("--workers", type=int, default=1, help="processes at the same time, of the same jobs")
    options.add_argument("--services", nargs="+", default=[], metavar="NAME", help="which ones, of --job service")
    options.add_argument("--busy", action="store_true", help="measure although others use the machine (--job service)")
    given = options.parse_args(arguments)
    more: dict[str, object] = {"services": given.services, "busy": given.busy} if given.job == "service" else {}
    if not more and (given.services or given.busy):
        options.error("--services and --busy are of --job service")
    if given.job in DRAWN:
        more = {"workers": given.workers, **({} if given.seed is None else {"seed": given.seed})}
    elif given.seed is not None or given.workers != 1:
        options.error(f"--seed and --workers are of --job {', '.join(sorted(DRAWN))}")
    data = given.data or (DATA if DATA.is_dir() else None)
    try:
        run = cast(Run, import_module(JOBS[given.job]).run)
        found = run(data, given.held_back, given.quick, **more)
    except CosimError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print_result(f"twin.{given.job}", found, tables(given.job, found), as_json=given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
