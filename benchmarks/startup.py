"""What a start costs: `python -m benchmarks.startup [--json] [--rounds 5]`.

CPU seconds of whole processes, children included, and how many times as much as `python -c "import numpy"` in the same
rounds, which says less about the machine. The first round is cold (caches of disk and
processor, compiled code) and stands apart; the figure is the best of the others. hello is run
in every round too; `compiled` says per round whether code had to be compiled: only the first may.
Python keeps its bytecode, as every installed package has it, also where the environment forbids it:
compiling all sources again is a fifth of a short run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Table, child_seconds, parser, print_result, verdict

ROOT = Path(__file__).parents[1]
HELLO = str(ROOT / "scenarios" / "hello")
TARGETS = {"numpy": None, "help": 1.2, "check": 2.0, "run": 5.0}  # warm, as multiples of importing numpy


def start(*arguments: str, program: tuple[str, ...] = ("-m", "cosim")) -> float:
    """CPU seconds of `cosim`, or another `program` of Python, with these arguments. Raises when it fails."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    begun = child_seconds()
    done = subprocess.run(
        [sys.executable, *program, *arguments], capture_output=True, text=True, env=env, timeout=600, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join((*program, *arguments))} ended with {done.returncode}: {done.stderr[-500:]}")
    return child_seconds() - begun


def run(compiled: list[bool]) -> float:
    """CPU seconds of a run of hello; whether it had to compile code is appended to `compiled`."""
    with tempfile.TemporaryDirectory() as folder:
        used = start("run", HELLO, "--out", folder)
        (manifest,) = Path(folder).rglob("manifest.json")
        compiled.append(json.loads(manifest.read_text("utf-8"))["compiling_seconds"] > 0.0)
    return used


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=5, help="warm rounds, besides the cold one")
    options = arguments.parse_args()
    compiled: list[bool] = []
    rounds = [
        {
            "numpy": start("import numpy", program=("-c",)),
            "help": start("--help"),
            "check": start("check", HELLO),
            "run": run(compiled),
        }
        for _ in range(options.rounds + 1)
    ]
    table = Table("CPU seconds of a command", ["command", "cold", "warm", "of numpy"])
    data = {}
    unit = min(one["numpy"] for one in rounds[1:] or rounds)
    for name, target in TARGETS.items():
        cold, warm = rounds[0][name], min(one[name] for one in rounds[1:] or rounds)
        table.add([name, f"{cold:.2f}", f"{warm:.2f}", f"{warm / unit:.2f}{verdict(warm / unit, target)}"])
        data[name] = {"cold": cold, "warm": warm, "of_numpy": warm / unit, "target": target}
    found = {"cpu_seconds": data, "compiled": compiled}
    print_result("startup", found, [table], as_json=options.json)


if __name__ == "__main__":
    main()
