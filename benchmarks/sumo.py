"""What coupling SUMO costs: `python -m benchmarks.sumo [--json] [--vehicles 1000 10000] [--rounds 3]`.

N vehicles drive through a grid city; all of them stay inside. Every case simulates the same steps of
1 s after a warm-up, in interleaved rounds. A round starts with the bare program, and a case's ratio
is its CPU time (all processes) over the program's in the same round; the figure is the median of
the rounds' ratios. The first round is cold (caches of disk and processor) and stands apart.

Cases
- bare                 the program `sumo`, by the difference of a long and a short run: no start-up
- ours                 the sumo adapter in a process of its own, our runtime, the mosaik driver
- libsumo-step         libsumo, steps only, in a plain script
- libsumo-getters      the same, reading position, speed and angle of all with getters
- traci-subscriptions  a script over TraCI with subscriptions
- traci-getters        a script over TraCI with getters
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import sumo_grid
from benchmarks.measure import Table, parser, print_result, verdict
from cosim.adapters.sumo import ADAPTER, install
from cosim.bus import mosaik_driver
from cosim.bus.pacer import Pacer
from cosim.bus.remote import RemoteAdapter
from cosim.bus.runtime import Runtime
from cosim.contract.entities import Fleet, Node, Scene
from cosim.contract.signals import CATALOGUE
from cosim.scenario.plan.plan import AdapterPlan, Lag, Plan

TARGETS = {1_000: 1.6, 10_000: 1.15}  # ours / bare
WARM = 60  # steps
CASES = ("bare", "ours", "libsumo-step", "libsumo-getters", "traci-subscriptions", "traci-getters")
LIMIT = 1800.0  # s for one case


def steps_for(vehicles: int) -> int:
    """Steps of one case: a few seconds of the bare program."""
    return max(20, min(600, 400_000 // vehicles))


def make_plan(network: Path, routes: Path, vehicles: int, ticks: int) -> Plan:
    """The sumo adapter alone, as a scenario would plan it."""
    config = {"network": str(network), "routes": str(routes), "seed": sumo_grid.SEED, "teleport": "never",
              "options": {"no-warnings": True}}  # fmt: skip
    adapter = AdapterPlan("sumo", "sumo", config, 1, (), ("mobility",), "simulated", True, "", (1,))
    car = Node("cars", "car", "device")
    scene = Scene.build((), (Fleet("cars", "sumo", 0, vehicles, car),))
    return Plan(
        name="grid", title="", description="", step_ns=10**9, ticks=ticks, seed=1, pacing=0.0,
        lag=Lag("report", 1.0, 1.0), timeout=600.0, scene=scene, adapters=(adapter,), events=(), recordings=(),
        root=Path.cwd(), resolved="",
    )  # fmt: skip


class Meter:
    """An observer that counts from the end of the warm-up on."""

    def __init__(self, remote: RemoteAdapter) -> None:
        self.remote, self.begun, self.rows = remote, 0.0, 0

    def tick(self, tick: int, _time: float, frames: object) -> None:
        if tick == WARM - 1:  # tick k shows SUMO's step k, so WARM steps are done
            self.begun = self.now()
        self.rows = len(frames[0][1])  # type: ignore[index]

    def now(self) -> float:
        """CPU seconds of this process and of the adapter's."""
        return time.process_time() + self.remote.cpu_seconds


def ours(network: Path, routes: Path, vehicles: int, steps: int) -> tuple[float, int]:
    """CPU seconds for `steps` ticks after the warm-up, and the rows of the last frame."""
    plan = make_plan(network, routes, vehicles, WARM + steps - 1)
    remote = RemoteAdapter("sumo", ADAPTER.name, plan.adapters[0].config, timeout=plan.timeout)
    with tempfile.TemporaryDirectory() as scratch:
        meter = Meter(remote)
        runtime = Runtime(plan, {"sumo": remote}, CATALOGUE, scratch=Path(scratch), observers=[meter])
        try:
            runtime.start()
            mosaik_driver.drive(runtime, Pacer(0.0, plan.lag))
            used = meter.now() - meter.begun
            runtime.finish()
        finally:
            runtime.close()
    return used, meter.rows


def program(network: Path, routes: Path, end: int) -> float:
    """CPU seconds of a whole run of the program `sumo` for `end` steps."""
    command = [install.binary("sumo"), *sumo_grid.options(network, routes), "--end", str(end)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=install.environment())
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{command[0]} ended with {child.returncode}")
    return usage.ru_utime + usage.ru_stime


def measure(case: str, network: Path, routes: Path, vehicles: int, steps: int) -> float:
    """CPU seconds per step. Raises when vehicles are missing at the end."""
    if case == "bare":
        return (program(network, routes, WARM + steps) - program(network, routes, WARM)) / steps
    if case == "ours":
        used, rows = ours(network, routes, vehicles, steps)
    else:
        if case == "traci-getters":
            steps = max(5, steps // 20)  # several times the cost of all others together
        command = [sys.executable, "-m", "benchmarks.sumo_cases", case, network, routes, str(WARM), str(steps)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        if done.returncode:
            raise RuntimeError(f"case {case} failed: {done.stderr[-500:]}")
        answer = json.loads(done.stdout.splitlines()[-1])
        used, rows = answer["cpu"], answer["vehicles"]
    if rows != vehicles:
        raise RuntimeError(f"{rows} of {vehicles} vehicles are inside at the end of case {case}")
    return used / steps


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--vehicles", type=int, nargs="+", default=sorted(TARGETS))
    arguments.add_argument("--rounds", type=int, default=3, help="warm rounds, besides the cold one")
    arguments.add_argument("--steps", type=int, help="steps of one case (default: as many as the size needs)")
    arguments.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    options = arguments.parse_args()
    cases = ["bare", *(case for case in CASES[1:] if case in options.cases)]
    data: dict[str, object] = {"unit": "CPU seconds per step, all processes"}
    tables = []
    for vehicles in options.vehicles:
        network, routes = sumo_grid.make(vehicles)
        steps = options.steps or steps_for(vehicles)
        rounds = []
        for number in range(options.rounds + 1):
            rounds.append({case: measure(case, network, routes, vehicles, steps) for case in cases})
            print(f"{vehicles} vehicles: round {number} of {options.rounds}", file=sys.stderr)
        table, found = summarise(vehicles, steps, cases, rounds)
        tables.append(table)
        data[str(vehicles)] = found
    print_result("sumo", data, tables, as_json=options.json)


def summarise(
    vehicles: int, steps: int, cases: list[str], rounds: list[dict[str, float]]
) -> tuple[Table, dict[str, object]]:
    """The table for people and the figures for machines of one size."""
    side = sumo_grid.side_for(vehicles)
    table = Table(
        f"{vehicles} vehicles on a {side}x{side} grid, {steps} steps of 1 s, {len(rounds) - 1} warm rounds",
        ["case", "CPU ms/step", "us/vehicle above bare", "ratio", "range", "cold"],
    )
    cold, warm = rounds[0], rounds[1:] or rounds
    figures: dict[str, object] = {}
    for case in cases:
        ratios = sorted(r[case] / r["bare"] for r in warm)
        best, middle = min(r[case] for r in warm), statistics.median(ratios)
        above = (statistics.median(r[case] - r["bare"] for r in warm)) / vehicles
        target = TARGETS.get(vehicles) if case == "ours" else None
        table.add([case, f"{best * 1e3:.2f}", f"{above * 1e6:.2f}", f"{middle:.3f}{verdict(middle, target)}",
                   f"{ratios[0]:.2f}..{ratios[-1]:.2f}", f"{cold[case] / cold['bare']:.2f}"])  # fmt: skip
        figures[case] = {
            "best": best, "ratio": middle, "ratios": ratios, "cold_ratio": cold[case] / cold["bare"],
            "per_vehicle_above_bare": above, "target": target, "met": None if target is None else middle <= target,
        }  # fmt: skip
    return table, {"steps": steps, "rounds": rounds, "cases": figures}


if __name__ == "__main__":
    main()
    sys.exit(0)
