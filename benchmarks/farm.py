"""The study of engagements: how soon a drone is with a tractor, from many homes, at many places of the field.

python -m benchmarks.farm [--homes 12 7] [--positions 24] [--json]

Every pair of a home and a position is one flight: take-off, approach, a minute of follow, return, landing, with
position reports over fading Wi-Fi from tractor to drone. The figure is the simulated time of all flights over
the CPU time that they took.
"""

from __future__ import annotations

import math
import time
from itertools import product

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Table, parser, print_result, verdict
from cosim.physics.radio import wifi
from cosim.physics.vehicles import phases
from cosim.physics.vehicles.reports import PairLinks
from cosim.physics.vehicles.rows import FieldRows
from cosim.physics.vehicles.study import EngagementStudy, study

FIELD = FieldRows((40.0, 0.0), rows=8, pitch=6.0, length=200.0, headland=2.0, turn=3.5)
FREQUENCY = 5.18e9  # Hz
EXPONENT = 2.2  # of the path loss over an open field
HOMES, POSITIONS = (12, 7), 24
TARGET = 5_000.0  # times real time
_WIFI = wifi.curve(fading=3.0)


def links(away: NDArray[np.float64]) -> PairLinks:
    """Wi-Fi from tractor to drone; the controller is at the drone's home and reaches it at once."""
    level = wifi.snr(away, FREQUENCY, EXPONENT)
    point = _WIFI.at(level)
    return PairLinks(point.delay, point.loss, level - 94.0, np.zeros(len(away)), np.zeros(len(away)))


def fly(homes: list[tuple[float, float]], positions: list[tuple[int, float]]) -> tuple[EngagementStudy, float]:
    """The study, and the CPU seconds that it took."""
    study(homes[:1], positions[:1], FIELD, links=links, follow=1.0)  # compiles
    begun = time.process_time()
    found = study(homes, positions, FIELD, links=links)
    return found, time.process_time() - begun


def places(homes: tuple[int, int], positions: int) -> tuple[list[tuple[float, float]], list[tuple[int, float]]]:
    """A grid of `homes` east and north, and about `positions` places of the tractor, over all rows."""
    east, north = (np.linspace(*span, count) for span, count in zip(((-400, 0), (-300, 200)), homes, strict=True))
    each = math.ceil(positions / FIELD.rows)
    return (
        [(float(x), float(y)) for x, y in product(east, north)],
        [(k % FIELD.rows, (k // FIELD.rows + 0.5) / each) for k in range(positions)],
    )


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--homes", type=int, nargs=2, default=HOMES, metavar=("EAST", "NORTH"), help="grid")
    arguments.add_argument("--positions", type=int, default=POSITIONS, help="places of the tractor, over all rows")
    options = arguments.parse_args()
    homes, positions = places(tuple(options.homes), options.positions)
    found, cpu = fly(homes, positions)
    factor = found.simulated / cpu
    s, count = found.surface, len(found.records)
    met = int((found.records["outcome"] == phases.COMPLETED).sum())
    table = Table(
        f"s from the engage command to contact, {count:,} engagements", ["home (m)", "nearest", "mean", "farthest"]
    )
    for k in np.linspace(0, len(homes) - 1, min(8, len(homes))).astype(int):
        row = found.t_engage[k]
        row = row[np.isfinite(row)]
        words = [f"{f(row):.1f}" for f in (np.min, np.mean, np.max)] if len(row) else ["-", "-", "-"]
        table.add([f"{homes[k][0]:.0f}, {homes[k][1]:.0f}", *words])
    fitted = Table("fitted surface", ["constant", "per metre", "per m/s away from home", "R^2"])
    fitted.add([f"{s.constant:.1f} s", f"{s.per_metre:.4f} s", f"{s.per_speed:.2f} s", f"{s.explained:.3f}"])
    speed = Table("speed", ["contact made", "simulated", "CPU", "times real time"])
    result = f"{factor:,.0f}{verdict(factor, TARGET, at_least=True)}"
    speed.add([f"{met:,}", f"{found.simulated:,.0f} s", f"{cpu:.1f} s", result])
    figures = {
        "engagements": count,
        "contact": met,
        "simulated_s": found.simulated,
        "cpu_s": cpu,
        "times_real_time": factor,
        "target": TARGET,
        "t_engage_s": [[None if math.isnan(t) else t for t in row] for row in found.t_engage.tolist()],
        "homes_m": homes,
        "surface": {name: None if math.isnan(getattr(s, name)) else getattr(s, name) for name in s.__slots__},
    }
    print_result("farm", figures, [table, fitted, speed], as_json=options.json)


if __name__ == "__main__":
    main()
