"""Tasks per CPU second of the offloading model: `python -m benchmarks.offloading [--json]`.

Two models: devices between fourteen places (app1) and vehicles on a ring road (app5), each with 1,000
devices per unit of scale: places, machines and shared networks grow with the devices, so that tasks
fare alike at all sizes. Each case runs in a process of its own, whose memory is its own too. Getting
ready stands apart: it loads the compiled code, or compiles it when `was_compiled` is false (cold).
The statistics are part of what is measured.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

from benchmarks.measure import Table, parser, print_result, verdict
from cosim.compiled.compiling import ready
from cosim.extensions.edgecloudsim.offloading import Application, EdgePlace, OffloadingStudy, Simulation, StudyLinks, Vm
from cosim.extensions.edgecloudsim.offloading.transport import ring_road

TARGET = 300_000.0  # tasks per CPU second at 1,000 devices
UNIT = 1000  # devices
# Usage %, interval, active and idle s, kB up and down, MI, cores, % to the cloud, % of an edge machine.
APPLICATIONS = (
    ("augmented-reality", 30.0, 5.0, 45.0, 15.0, 1500.0, 25.0, 2000.0, 1, 20.0, 20.0),
    ("health", 20.0, 30.0, 10.0, 20.0, 1250.0, 20.0, 400.0, 1, 20.0, 5.0),
    ("heavy", 20.0, 60.0, 60.0, 60.0, 2500.0, 250.0, 3000.0, 1, 40.0, 30.0),
    ("infotainment", 30.0, 7.0, 15.0, 45.0, 25.0, 2000.0, 750.0, 1, 10.0, 10.0),
)


def places(devices: int, duration: float) -> OffloadingStudy:
    """Devices that dwell at places with two small machines each, and use the next fit among all of them."""
    scale = max(1, devices // UNIT)
    return OffloadingStudy(
        model="app1",
        architecture="two-tier-with-eo",
        policy="next-fit",
        devices=devices,
        duration=duration,
        warm_up=0.1 * duration,
        applications=tuple(
            Application(*row, load_edge=share, load_cloud=share / 10.0) for *row, share in APPLICATIONS
        ),
        places=tuple(
            EdgePlace(f"place-{k}", 0.0, float(k), k, int("00111122222222"[k % 14]), ((Vm(2, 2000.0),) * 4,))
            for k in range(14 * scale)
        ),
        links=StudyLinks(wlan=2e9, wan=150e6, lan_delay=0.005, wan_propagation=0.1),
        cloud=((Vm(4, 10000.0),) * 4,) * scale,
        dwell=(500.0, 300.0, 120.0),
    )  # fmt: skip


def study_of(model: str, devices: int, duration: float, policy: str) -> OffloadingStudy:
    """The same places under another model and policy; `app4` has the machines at fuzzy's targets."""
    study = places(devices, duration)
    if model == "app1":
        return replace(study, policy=policy)
    return replace(
        study,
        model=model,
        architecture="two-tier-with-eo",
        policy=policy,
        links=StudyLinks(
            wlan=2e9, wan=150e6, man=1.3e9 * max(1, devices // UNIT), lan_delay=0.005, wan_propagation=0.1
        ),
        applications=tuple(replace(a, delay_sensitivity=0.5) for a in study.applications),
    )


def case(model: str, devices: int, duration: float) -> dict[str, Any]:
    """One run in this process."""
    from cosim.extensions.edgecloudsim.offloading import kernel, vehicular

    act = kernel.act if model == "app1" else vehicular.act
    warm = ready(act)
    begun = time.process_time()
    Simulation(places(10, 1.0) if model == "app1" else ring_road(10, duration=1.0, warm_up=0.0), 1).advance(1.0)
    compiled = time.process_time()
    study = places(devices, duration) if model == "app1" else ring_road(
        devices, duration=duration, warm_up=0.1 * duration, scale=max(1, devices // UNIT)
    )  # fmt: skip
    run = Simulation(study, seed=7)
    built = time.process_time()
    run.advance(duration)
    outcome = run.outcome()
    failed = outcome.metrics()["failed_pct"]
    spent = time.process_time() - built
    return {
        "model": model, "devices": devices, "simulated_s": duration, "was_compiled": warm,
        "ready_cpu_s": compiled - begun, "build_cpu_s": built - compiled, "run_cpu_s": spent,
        "tasks": outcome.created, "tasks_per_cpu_s": outcome.created / spent,
        "events_per_cpu_s": outcome.events / spent,
        "failed_pct": failed, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0,
    }  # fmt: skip


def apart(model: str, devices: int, duration: float) -> dict[str, Any]:
    """One run in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.offloading", "--case", model, str(devices), str(duration)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--models", nargs="+", choices=("app1", "app5"), default=["app1", "app5"])
    arguments.add_argument("--devices", type=int, nargs="+", default=[1000, 100_000, 1_000_000])
    arguments.add_argument("--seconds", type=float, default=600.0, help="simulated (default: %(default)s)")
    arguments.add_argument("--rounds", type=int, default=2, help="of which the best counts (default: %(default)s)")
    arguments.add_argument("--case", nargs=3, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.case:
        model, devices, duration = options.case
        print(json.dumps(case(model, int(devices), float(duration))))
        return
    cases = []
    table = Table(
        f"offloading, {options.seconds:g} simulated s, best of {options.rounds}",
        [
            "model",
            "devices",
            "tasks",
            "CPU s ready",
            "CPU s built",
            "CPU s run",
            "tasks per CPU s",
            "failed %",
            "peak MB",
        ],
    )
    for model in options.models:
        for devices in options.devices:
            rounds = [apart(model, devices, options.seconds) for _ in range(options.rounds)]
            best = {**min(rounds, key=lambda one: one["run_cpu_s"]), "ready_cpu_s": rounds[0]["ready_cpu_s"]}
            best["was_compiled"] = rounds[0]["was_compiled"]
            cases.append(best)
            target = TARGET if devices == UNIT else None
            table.add([
                model, f"{devices:,}", f"{best['tasks']:,}",
                f"{best['ready_cpu_s']:.2f}{'' if best['was_compiled'] else ' (cold)'}",
                f"{best['build_cpu_s']:.2f}", f"{best['run_cpu_s']:.2f}",
                f"{best['tasks_per_cpu_s']:,.0f}{verdict(best['tasks_per_cpu_s'], target, at_least=True)}",
                f"{best['failed_pct']:.2f}", f"{best['peak_mb']:,.0f}",
            ])  # fmt: skip
    print_result("offloading", {"cases": cases}, [table], as_json=options.json)


if __name__ == "__main__":
    main()
