"""CPU time of a large labelled data set: runs of the radio under jamming, and the windows made of them.

python -m benchmarks.dataset [--runs 10] [--phones 1000] [--seconds 1000] [--workers 2] [--same] [--json]

Every run gives phones x seconds rows of 93 features and more. With --same the set is built a second time by one
process and the bytes of all files are compared.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from functools import partial
from hashlib import sha256
from pathlib import Path
from time import process_time
from typing import Any

from benchmarks.measure import Table, child_seconds, mapped, print_result
from cosim import api
from cosim.api import Scenario
from cosim.extensions.detection.dataset import Recipe, build

RECIPE = Recipe(("ue", "gnb"), "jamming.loss >= 3", keep=("jamming.loss",))


def scene(phones: int, seconds: int, seed: int) -> Scenario:
    """Phones around three masts, and a jammer that is on for half of the time; only what the set needs is recorded."""
    made = Scenario("dataset-bench")
    made.set("run", duration=f"{seconds - 1} s", step="1 s", seed=seed)
    made.data["record"] = {name: {"keep": False} for name in ("link", "cell", "impairment", "jammer")}
    made.adapter("radio", log=True, fading="rayleigh", link_adaptation="outer-loop", harq="combining")
    made.kind("jammer", tier="device")
    for k in range(3):
        made.node(f"mast-{k}", kind="base-station", at=[f"{300 * k} m", "0 m"])
    made.node(f"phone-[1..{phones}]", kind="device", at="uniform in circle of 600 m")
    keys = {"power": "30 dBm", "pattern": "square", "period": "20 s", "depth": "40 dB"}
    made.node("van", kind="jammer", at=["200 m", "60 m"], jammer=keys)
    return made


def simulated(folder: Path, phones: int, seconds: int, seed: int) -> Path:
    """The folder of one run."""
    return api.run(scene(phones, seconds, seed), out=folder).folder


def measure(folder: Path, runs: int, phones: int, seconds: int, workers: int, *, same: bool) -> dict[str, Any]:
    """CPU seconds of simulation and of the set, its rows and bytes."""
    begun = process_time() + child_seconds()
    made = mapped(partial(simulated, folder / "runs", phones, seconds), range(1, runs + 1), workers=workers)
    between = process_time() + child_seconds()
    found = build(made, RECIPE, folder / "set", workers=workers)
    spent = process_time() + child_seconds()
    files = sorted((folder / "set").rglob("*.parquet"))
    result: dict[str, Any] = {
        "rows": sum(found.rows.values()), "bytes": sum(file.stat().st_size for file in files),
        "simulation": between - begun, "data set": spent - between, "workers": workers,
        "digest": sha256("".join(sorted(digests(folder / "set").values())).encode()).hexdigest()[:16],
    }  # fmt: skip
    if same:
        build(made, RECIPE, folder / "again", workers=1)
        result["same bytes from one process"] = digests(folder / "set") == digests(folder / "again")
    return result


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file of a data set."""
    found = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))["digests"]
    return {name: str(entry["sha256"]) for name, entry in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--phones", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--same", action="store_true", help="build it again with one process, and compare")
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(
            Path(folder), arguments.runs, arguments.phones, arguments.seconds, arguments.workers, same=arguments.same
        )
    table = Table("a labelled data set", list(found))
    table.add([f"{value:,.0f}" if isinstance(value, (int, float)) else value for value in found.values()])
    print_result("dataset", found, [table], as_json=arguments.json)


if __name__ == "__main__":
    main()
