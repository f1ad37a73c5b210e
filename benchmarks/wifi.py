"""CPU time of a search for the Wi-Fi links of all ordered pairs.

python -m benchmarks.wifi [--nodes 100 1000] [--steps 20] [--json]

Once with all nodes within 150 m, where every pair has a link, and once spread over 2 km. The time is that of
the whole search, from positions to the columns of the pairs.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.measure import Table, parser, print_result, verdict
from cosim.physics.radio import wifi
from cosim.physics.radio.pathloss import free_space
from cosim.physics.radio.wifi_pairs import Antennas, Finder

FREQUENCY = 5.18e9  # Hz
SIDES = (150.0, 2000.0)  # m
TARGET = 0.05  # s, for 1,000 nodes


def antennas(count: int) -> Antennas:
    """Equal ones with the powers of the calibration."""
    curve = wifi.curve()
    same = np.ones(count)
    number = np.zeros(count, np.int64)
    reach = wifi.reach(curve, FREQUENCY, 2.7, 20.0 + 94.0)
    return Antennas(
        number, 20.0 * same, 0.0 * same, -94.0 * same, float(free_space(1.0, FREQUENCY)) * same, 2.7, reach * same,
        number, curve.table()[None], np.array([curve.least]),
    )  # fmt: skip


def measure(count: int, side: float, steps: int) -> tuple[float, int]:
    """CPU seconds of the fastest of `steps` searches, and the links that it found."""
    rng, finder, there, made = np.random.default_rng(1), Finder(), np.ones(count, np.bool_), antennas(count)
    best, links = float("inf"), 0
    for step in range(steps + 2):
        place = rng.uniform(0.0, 1.0, (count, 3)) * [side, side, 50.0]
        begun = time.process_time()
        links = len(finder.find(place, there, made).rate)
        spent = time.process_time() - begun
        best = min(best, spent) if step >= 2 else best  # the first ones get their memory
    return best, links


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--nodes", type=int, nargs="+", default=[100, 1000], help="how many")
    arguments.add_argument("--steps", type=int, default=20, help="searches")
    options = arguments.parse_args()
    figures = {n: {f"{side:.0f}": measure(n, side, options.steps) for side in SIDES} for n in options.nodes}
    table = Table("ms of CPU per search", ["nodes", *(f"within {side:.0f} m" for side in SIDES), "links"])
    for nodes, row in figures.items():
        slowest = max(seconds for seconds, _ in row.values())
        result = verdict(slowest, TARGET) if nodes == 1000 else ""
        links = " / ".join(f"{links:,}" for _, links in row.values())
        table.add([f"{nodes:,}", *(f"{1e3 * seconds:.2f}" for seconds, _ in row.values()), links + result])
    spent = {n: {side: seconds for side, (seconds, _) in row.items()} for n, row in figures.items()}
    print_result("wifi", {"unit": "s", "target": TARGET, "cpu_per_step": spent}, [table], as_json=options.json)


if __name__ == "__main__":
    main()
