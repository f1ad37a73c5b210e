"""What a tick of the bus costs: `python -m benchmarks.bus [--json] [--rows 1000 10000 100000]`.

A chain of four adapters (mobility -> network -> continuum -> recorder) passes five columns of N rows
per tick. The models are trivial, so that the bus is what is measured. All cases of one size are
measured in interleaved rounds on the same machine in the same minute; the figure of a case is its
best round, and the ratios relate cases of one size.

Cases
- bare      numpy calls in a plain loop, no bus at all
- direct    the four adapters called in a plain loop: what no bus of Python adapters can go below
- loop      our runtime under the loop driver
- mosaik    our runtime under the mosaik driver
- coupled   the same with one mosaik step per tick, as when other mosaik simulators are connected
- naive     mosaik with one entity per vehicle and one value per attribute
- remote    our runtime, the network adapter in a process of its own
- remote-4  our runtime, all four adapters in processes of their own
- unchecked the mosaik driver without the data contract's look at every value, slot and time
- helics    four federates in one process (threads), one byte buffer each per tick
- helics-4  four federates in four processes, one byte buffer each per tick
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks import chain, helics_chain, naive_chain
from benchmarks.measure import Table, parser, print_result, verdict
from cosim.bus import loop_driver, mosaik_driver
from cosim.bus.inspection import Inspection
from cosim.bus.pacer import Pacer
from cosim.bus.remote import RemoteAdapter
from cosim.bus.runtime import Runtime
from cosim.contract.adapter import Adapter

SIZES = (1_000, 10_000, 100_000)
ROUNDS = 5
CASES = (
    "bare",
    "direct",
    "loop",
    "mosaik",
    "coupled",
    "unchecked",
    "remote",
    "remote-4",
    "helics",
    "helics-4",
    "naive",
)
TARGETS = {
    "mosaik / bare": {1_000: 2.5, 10_000: 1.8, 100_000: 1.1},
    "naive / mosaik": {1_000: 300.0, 10_000: 2_000.0, 100_000: 5_000.0},
    "helics-4 / remote-4": {100_000: 5.0},
    "helics / mosaik": {100_000: 5.0},
    "contract / mosaik": {100_000: 0.03},  # the contract is what mosaik costs above unchecked
    "remote - mosaik, ms": {1_000: 1.0, 10_000: 1.5, 100_000: 4.0},
}
AT_LEAST = {"naive / mosaik", "helics-4 / remote-4", "helics / mosaik"}


def ticks_for(rows: int) -> int:
    """Ticks of one round: enough for a stable figure, few enough for a round of a second."""
    return {1_000: 4_000, 10_000: 2_000, 100_000: 600}.get(rows, max(20, 20_000_000 // rows // 10))


def ours(rows: int, ticks: int, drive: Callable[[Runtime, Pacer], None], remote: Sequence[str] = ()) -> float:
    """CPU seconds per tick of our runtime, all processes included, warm: the first ticks do not count."""
    warm = max(10, ticks // 20)
    plan = chain.make_plan(rows, ticks + warm)
    adapters: dict[str, Adapter] = {}
    for name, kind in chain.KINDS.items():
        if name in remote:
            adapters[name] = RemoteAdapter(name, f"benchmarks.chain:{name.upper()}", {"rows": rows}, timeout=60.0)
        else:
            adapters[name] = kind.build(chain.ChainConfig(rows=rows))
    with tempfile.TemporaryDirectory() as scratch:
        meter = _Meter(warm, [a for a in adapters.values() if isinstance(a, RemoteAdapter)])
        runtime = Runtime(plan, adapters, chain.SIGNALS, scratch=Path(scratch), observers=[meter])
        try:
            runtime.start()
            drive(runtime, Pacer(0.0, plan.lag))
            used = meter.used() / ticks
            total = runtime.finish()["recorder"]["total"]
        finally:
            runtime.close()
    if not np.isclose(total, chain.expected(rows, ticks + warm), rtol=1e-9):
        raise RuntimeError(f"the chain's checksum is {total}, not {chain.expected(rows, ticks + warm)}")
    return used


def unchecked(rows: int, ticks: int) -> float:
    """CPU seconds per tick of our runtime when it looks at nothing that adapters publish."""
    with patch.object(Inspection, "look", lambda _self, _frame, _time: ""):
        return ours(rows, ticks, mosaik_driver.drive)


class _Meter:
    """Starts to count when the warm-up is over."""

    def __init__(self, warm: int, remotes: Sequence[RemoteAdapter]) -> None:
        self._warm, self._remotes, self._begun = warm, remotes, 0.0

    def tick(self, tick: int, _time: float, _frames: object) -> None:
        if tick == self._warm:
            self._begun = self._now()

    def used(self) -> float:
        return self._now() - self._begun

    def _now(self) -> float:
        return time.process_time() + sum(remote.cpu_seconds or 0.0 for remote in self._remotes)


def measure(rows: int, ticks: int, rounds: int, cases: Sequence[str]) -> dict[str, float]:
    """Best CPU seconds per tick of each case."""
    few = max(30, ticks // 10)
    runs: dict[str, Callable[[], float]] = {
        "bare": lambda: chain.bare(rows, ticks),
        "direct": lambda: chain.direct(rows, ticks),
        "loop": lambda: ours(rows, ticks, loop_driver.drive),
        "mosaik": lambda: ours(rows, ticks, mosaik_driver.drive),
        "coupled": lambda: ours(rows, ticks, lambda r, p: mosaik_driver.drive(r, p, stretch=1)),
        "unchecked": lambda: unchecked(rows, ticks),
        "remote": lambda: ours(rows, few, loop_driver.drive, ["network"]),
        "remote-4": lambda: ours(rows, few, loop_driver.drive, list(chain.KINDS)),
        "helics": lambda: helics_chain.run(rows, few, processes=False),
        "helics-4": lambda: helics_chain.run(rows, few, processes=True),
    }
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, run in runs.items():
            if name in cases:
                best[name] = min(run(), best.get(name, float("inf")))
    if "naive" in cases:
        # In a process of its own: at 100,000 entities mosaik holds a gigabyte, which would slow the others.
        best["naive"] = naive_chain.in_own_process(rows, {1_000: 40, 10_000: 8}.get(rows, 3))
    return best


def ratios(best: dict[str, float]) -> dict[str, float]:
    """The figures that the targets are about."""
    found = {}
    for name in TARGETS:
        if name == "remote - mosaik, ms":
            if {"remote", "mosaik"} <= best.keys():
                found[name] = (best["remote"] - best["mosaik"]) * 1e3
            continue
        if name == "contract / mosaik":
            if {"mosaik", "unchecked"} <= best.keys():
                found[name] = 1.0 - best["unchecked"] / best["mosaik"]
            continue
        above, below = name.split(" / ")
        if {above, below} <= best.keys():
            found[name] = best[above] / best[below]
    return found


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--rows", type=int, nargs="+", default=SIZES)
    arguments.add_argument("--rounds", type=int, default=ROUNDS, help="of which the best counts (default: %(default)s)")
    arguments.add_argument("--ticks", type=int, help="ticks of one round (default: as many as the size needs)")
    arguments.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    options = arguments.parse_args()
    results = {
        rows: measure(rows, options.ticks or ticks_for(rows), options.rounds, options.cases) for rows in options.rows
    }
    table = Table("CPU per tick, microseconds (best of rounds, all processes, warm)", ["case", *map(str, options.rows)])
    for case in options.cases:
        table.add([case, *(f"{results[rows][case] * 1e6:,.1f}" for rows in options.rows)])
    verdicts = Table("figures with targets", ["figure", *map(str, options.rows)])
    data: dict[str, dict[int, dict[str, object]]] = {}
    for name, targets in TARGETS.items():
        cells = []
        for rows in options.rows:
            value = ratios(results[rows]).get(name)
            if value is None:
                cells.append("-")
                continue
            target, at_least = targets.get(rows), name in AT_LEAST
            met = target is None or (value >= target if at_least else value <= target)
            cells.append(f"{value:,.2f}{verdict(value, target, at_least=at_least)}")
            data.setdefault(name, {})[rows] = {"value": value, "target": target, "met": met}
        verdicts.add([name, *cells])
    found = {"cpu_seconds_per_tick": results, "ratios": data}
    print_result("bus", found, [table, verdicts], as_json=options.json)


if __name__ == "__main__":
    main()
    sys.exit(0)
