"""One file in two worlds: the tasks of a run with real nodes, paired with those of the same run in one process.

    python -m benchmarks.worlds [--nodes netns|containers] [--scenarios hello convoy ...] [--seconds 60]
        [--set KEY=VALUE] [--json]

Every scenario is simulated, then run with real nodes in real time, and their tasks are paired by workload, source and
instant (as `cosim compare` does). A run with real nodes ends before tasks that are late, so the last few seconds have
fewer pairs. Targets: instants and sizes equal, and the same host for at least 95 % of the tasks at low load. Namespaces
need root and /dev/net/tun, containers an engine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.measure import Table, parser, print_result, verdict
from cosim.results.pairing import Pairing, pair

ROOT = Path(__file__).resolve().parents[1]
SCENARIOS = ("hello", "smart-farm", "convoy", "edge-inference")
SAME_HOST = 0.95
"""Of the tasks that both runs made."""


def compared(scenario: Path, nodes: str, seconds: float, folder: Path, values: Sequence[str] = ()) -> Pairing | None:
    """The tasks of a scenario simulated and with real nodes, with KEY=VALUE overridden; None where it has none."""
    return pair(*(ran(scenario, world, seconds, folder / world, values) for world in ("process", nodes)))


def ran(scenario: Path, world: str, seconds: float, folder: Path, values: Sequence[str] = ()) -> Path:
    """The folder of a run of the scenario."""
    words = ["run", str(scenario), "--nodes", world, "--out", str(folder)]
    words += [word for value in (f"run.duration={seconds:g} s", *values) for word in ("--set", value)]
    command = [sys.executable, "-m", "cosim", *words, "--no-report", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{scenario.name} did not run with nodes in {world}: {done.stderr[-2000:]}")
    return Path(json.loads(done.stdout)["folder"])


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--nodes", choices=["netns", "containers"], default="netns", help="where real nodes are")
    arguments.add_argument("--scenarios", nargs="+", default=list(SCENARIOS), help="shipped ones, or folders")
    arguments.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the scenarios")
    arguments.add_argument("--seconds", type=float, default=60.0, help="that each run takes")
    options = arguments.parse_args()
    table = Table(
        f"tasks in process and in {options.nodes}, {options.seconds:g} s",
        ["scenario", "tasks", "real", "paired", "same size", "same host", "response, ms more"],
    )
    found: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as spare:
        for name in options.scenarios:
            shipped = ROOT / "scenarios" / name
            folder = shipped if shipped.is_dir() else Path(name)
            one = compared(folder, options.nodes, options.seconds, Path(spare), options.set)
            if one is None or not one.paired:
                table.add([name, "no tasks of both", "", "", "", "", ""])
                continue
            host = one.same_host / one.paired
            found[name] = asdict(one)
            table.add(
                [
                    name, one.tasks[0], one.tasks[1], one.paired, f"{one.same_size / one.paired:.1%}",
                    f"{host:.1%}{verdict(host, SAME_HOST, at_least=True)}", f"{1e3 * one.difference:.1f}",
                ]
            )  # fmt: skip
    told = {"nodes": options.nodes, "seconds": options.seconds, "pairs": found}
    print_result("worlds", told, [table], as_json=options.json)


if __name__ == "__main__":
    main()
