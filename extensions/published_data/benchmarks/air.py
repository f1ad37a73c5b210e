"""Levels from the air by the radio adapter, at altitudes that were not fitted; other rules beside it.

python -m benchmarks.air --data FOLDER [--held-back FOLDER] [--altitudes 50 90] [--json]

Every altitude is judged by a fit to the others. The twin's job `5g` fits path loss, loss by height, antenna and
the power of each cell; the adapter runs with these values as a scenario has them, and its column `link.rsrp` is
judged. TR 36.777's laws get the power of each cell alone from the fitted altitudes; what they draw is averaged over
seeds. With --held-back the altitudes of another folder are judged by a fit to all of --data.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Table, parser, print_result
from cosim.adapters.radio import ADAPTER
from cosim.adapters.radio.config import RadioConfig
from cosim.adapters.radio.keys import Sector
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Node, Scene
from cosim.contract.errors import SetupError
from cosim.contract.node_keys import Cell, Radio
from cosim.extensions.published_data import fiveg
from cosim.extensions.published_data.models import cellular
from cosim.physics.radio import nr, pathloss
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.search import Budget

Floats = NDArray[np.float64]
RUNS = 1_500
SEEDS = 16  # that the draws of a law are averaged over
TARGET = 5.3  # dB
CARRIER, BANDWIDTH = 1.8e9, 20e6  # Hz; the data does not tell: the power of a cell takes up what they change
RULES = ("adapter, fitted", "adapter, uma-av", "adapter, rma-av", "mean", "per-cell mean")
_SILENT = {"coverage": "-250 dBm", "range": "100 km", "interference": False, "minimum_sinr": "-200 dB"}


def levels(
    config: Mapping[str, object], sector: Sector | None, power: Floats, flights: fiveg.AirLevels, seed: int = 1
) -> Floats:
    """RSRP (rows,) dBm of `link` where the drone measured, for cells of `power` (cells,) dBm at a mast's height."""
    predicted = np.empty(len(flights.level))
    radio = Radio.si(height=0.0)
    for k, sent in enumerate(power.tolist()):
        rows = np.flatnonzero(flights.seen.cell == k)
        cell = Cell.si(power=sent, gain=0.0, height=cellular.MAST, carrier=CARRIER, bandwidth=BANDWIDTH)
        keys = (sector.written(),) if sector is not None else ()
        nodes = [Node("mast", "base-station", "edge", (0.0, 0.0, 0.0), cell=cell, keys=keys)]
        places = zip(flights.seen.distance[rows].tolist(), flights.seen.height[rows].tolist(), strict=True)
        nodes += [
            Node(f"p{i}", "device", "device", (east, 0.0, up), radio=radio) for i, (east, up) in enumerate(places)
        ]
        adapter = ADAPTER.build(RadioConfig.model_validate({**_SILENT, **config}))
        adapter.start(Context("radio", Scene.build(tuple(nodes), ()), 1.0, 1.0, (seed, k), ".", "."))
        predicted[rows] = adapter.step(0.0, Inputs({}, []))[0]["rsrp"]
    return predicted


def fitted(fit: fiveg.AirLevels, judged: fiveg.AirLevels) -> tuple[Floats, dict[str, float]]:
    """The adapter's levels where `judged` was measured, with what the twin fits to `fit`, and those values."""
    answer = calibrate(fiveg.level(fit, judged), budget=Budget(runs=RUNS), seed=1, posterior=False)
    values = {estimate.name: float(estimate.value) for estimate in answer.estimates}
    config = {
        "model": "ci", "exponent": values["exponent"], "shadowing": "0 dB", "height_loss": f"{values['height']!r} dB",
    }  # fmt: skip
    sector = Sector.model_validate({
        "downtilt": f"{-values['tilt']!r} deg", "vertical_beamwidth": f"{values['width']!r} deg",
        "side_lobes": f"{values['sidelobe']!r} dB",
    })  # fmt: skip
    powers = np.array([values[f"power.{k + 1}"] for k in range(len(fit.names))])
    return levels(config, sector, powers + at_one_metre(), judged), values


def at_one_metre() -> float:
    """dB from the power of a cell to its RSRP at 1 m, which is what is fitted."""
    blocks = nr.resource_blocks(BANDWIDTH, 30e3)
    return 10.0 * float(np.log10(12.0 * blocks)) + float(pathloss.close_in(1.0, CARRIER, 2.0))


def by_table(model: str, fit: fiveg.AirLevels, judged: fiveg.AirLevels) -> Floats:
    """The mean over draws of a law of TR 36.777, with each cell's power from `fit`."""

    def mean(power: Floats, flights: fiveg.AirLevels) -> Floats:
        drawn = [levels({"model": model}, None, power, flights, seed) for seed in range(SEEDS)]
        return np.asarray(np.mean(drawn, axis=0))

    cells = len(fit.names)
    off = fit.level - mean(np.zeros(cells), fit)
    power = np.array([off[fit.seen.cell == k].mean() for k in range(cells)])
    return mean(power, judged)


def means(fit: fiveg.AirLevels, judged: fiveg.AirLevels) -> tuple[Floats, Floats]:
    """The mean of all fitted levels, and of those of each cell."""
    whole = float(fit.level.mean())
    of = np.array([fit.level[fit.seen.cell == k].mean() for k in range(len(fit.names))])
    return np.full(len(judged.level), whole), of[judged.seen.cell]


def rmse(predicted: Floats, truth: Floats) -> float:
    return float(np.sqrt(np.mean((predicted - truth) ** 2)))


def splits(flights: fiveg.AirLevels, held_back: fiveg.AirLevels | None, altitudes: list[float] | None) -> list[
    tuple[str, fiveg.AirLevels, fiveg.AirLevels]
]:  # fmt: skip
    """What is judged, by name, with what it is fitted to."""
    if held_back is not None:
        return [
            (f"{h:g}", flights, held_back.where(held_back.seen.height == h)) for h in np.unique(held_back.seen.height)
        ]
    known = np.unique(flights.seen.height)
    wanted = known if altitudes is None else known[np.isin(known, altitudes)]
    if not len(wanted):
        raise SetupError(f"none of these altitudes was flown; there are {', '.join(f'{h:g}' for h in known)} m")
    return [
        (f"{h:g}", flights.where(flights.seen.height != h), flights.where(flights.seen.height == h)) for h in wanted
    ]


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--data", type=Path, required=True, help="folder with the drone's measurements")
    arguments.add_argument("--held-back", type=Path, help="folder with altitudes that are judged, and not fitted")
    arguments.add_argument("--altitudes", type=float, nargs="+", help="judge these alone, m")
    given = arguments.parse_args()
    begun = time.process_time()
    flights = fiveg.read_flights(given.data)
    later = None if given.held_back is None else fiveg.read_flights(given.held_back)
    truth: list[Floats] = []
    predicted: dict[str, list[Floats]] = {rule: [] for rule in RULES}
    rows, values = [], {}
    for name, fit, judged in splits(flights, later, given.altitudes):
        answer, values[name] = fitted(fit, judged)
        mean, cell_mean = means(fit, judged)
        found = (answer, by_table("uma-av", fit, judged), by_table("rma-av", fit, judged), mean, cell_mean)
        truth.append(judged.level)
        for rule, one in zip(RULES, found, strict=True):
            predicted[rule].append(one)
        errors = {rule: rmse(one, judged.level) for rule, one in zip(RULES, found, strict=True)}
        rows.append({"altitude": float(name), "rows": len(judged.level), **errors})
    together = {rule: rmse(np.concatenate(parts), np.concatenate(truth)) for rule, parts in predicted.items()}
    table = Table("RMSE in dB at altitudes that were not fitted", ["m", "rows", *RULES])
    for row in rows:
        table.add([f"{row['altitude']:g}", row["rows"], *(f"{row[rule]:.2f}" for rule in RULES)])
    table.add(["all", sum(len(t) for t in truth), *(f"{together[rule]:.2f}" for rule in RULES)])
    figures = {
        "target": TARGET, "rmse": together, "by_altitude": rows, "values": values,
        "cpu_seconds": time.process_time() - begun,
    }  # fmt: skip
    print_result("air", figures, [table], as_json=given.json)


if __name__ == "__main__":
    main()
