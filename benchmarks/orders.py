"""Orders by what is measured against orders at fixed times: area weeded per Wh of the drone and per minute.

python -m benchmarks.orders [--seeds 20] [--train 4] [--stops 3] [--shipped] [--workers 1] [--json]

A tractor weeds eight rows; what it covers in a row while the drone follows it counts as weeded. Each seed draws its
start, the speeds of its rows, three stops of one to four minutes, the drone's home and gusts. The condition is that of
the scenario `smart-farm` and is not tuned. Compared with it are the timetable of that scenario's variant and, of nine
schedules of fixed times, the best per Wh and the best per minute on the training seeds; all are judged on other seeds,
in pairs with the condition on the same seed. With --shipped both files fly as they are, over Wi-Fi, by seed, in gusts
of the same strength: there the timetable knows when the tractor stops. Intervals are of Student's t at 95 %.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Table, child_seconds, mapped, parser, print_result
from cosim import api
from cosim.adapters.vehicle import ADAPTER
from cosim.adapters.vehicle.config import VehicleConfig
from cosim.adapters.vehicle.keys import Pack, Vehicle
from cosim.adapters.vehicle.signals import BEHAVIOUR
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Node, Scene
from cosim.physics.vehicles import phases
from cosim.scenario.load import load

Floats = NDArray[np.float64]
LONGEST = 1800  # s
STOPS = 3
ROWS, LENGTH, PITCH = 8, 150.0, 6.0  # of the field, m
GUSTS = "4 m/s"
NOMINAL = 30.0  # s, first order of every schedule
SHIPPED = Path(__file__).resolve().parents[1] / "scenarios" / "smart-farm"
LASTING, BETWEEN = (180.0, 360.0, 600.0), (60.0, 150.0, 300.0)  # s of the schedules that are tried
MEASURES = ("area per Wh", "area per minute")


def shipped(file: str) -> dict[str, Any]:
    """The orders of a file of the scenario `smart-farm`: by conditions, or at fixed times."""
    block = load(SHIPPED / file).scenario.adapters["vehicle"]
    (engage,) = VehicleConfig.model_validate(block).engage
    result = engage.model_dump(include={"commands", "engage", "disengage"}, exclude_none=True, by_alias=True)
    return {key: value for key, value in result.items() if value}


def schedule(lasting: float, between: float) -> dict[str, Any]:
    """Orders of `lasting` s, `between` s apart, until the longest time."""
    moments = np.arange(NOMINAL, LONGEST, lasting + between)
    return {"commands": [{"at": f"{float(at)!r} s", "for": f"{lasting!r} s"} for at in moments]}


def world(seed: int, stops: int) -> tuple[list[Node], dict[str, Any]]:
    """The nodes and the tractor's mission of a seed."""
    rng = np.random.default_rng([seed, 15])
    home = (float(rng.uniform(-150.0, 20.0)), float(rng.uniform(-60.0, 60.0)), 0.0)
    starts = np.sort(rng.uniform(90.0, 900.0, stops))
    pauses, free = [], 0.0
    for start, lasting in zip(starts, rng.uniform(60.0, 240.0, stops), strict=True):
        at = max(float(start), free)
        pauses.append({"at": f"{at!r} s", "for": f"{float(lasting)!r} s"})
        free = at + float(lasting) + 1.0
    rows = {
        "corner": ["60 m", "10 m"], "rows": ROWS, "pitch": f"{PITCH} m", "length": f"{LENGTH} m", "headland": "3 m",
        "turn": "3.5 m", "speeds": [f"{float(v)!r} m/s" for v in rng.uniform(1.2, 2.2, ROWS)],
    }  # fmt: skip
    mission = {"rows": rows, "start": f"{float(rng.uniform(10.0, 60.0))!r} s", "pauses": pauses}
    drone = Vehicle(frame="copter", battery=Pack(capacity="5200 mAh"))
    tractor = Vehicle(
        frame="rover", steering="ackermann", mass="900 kg", speed="2 m/s", wheelbase="1.6 m",
        battery=Pack(capacity="400 Ah"),
    )  # fmt: skip
    nodes = [
        Node("uav", "uav", "device", home, keys=(drone.written(),)),
        Node("tractor", "rover", "device", (40.0, 4.0, 0.0), keys=(tractor.written(),)),
    ]
    return nodes, mission


def fly(seed: int, orders: dict[str, Any], stops: int = STOPS, longest: int = LONGEST) -> tuple[float, float, float]:
    """Area weeded in m^2, energy of the drone in Wh, and minutes until the tractor has finished."""
    nodes, mission = world(seed, stops)
    engage = {"drone": "uav", "target": "tractor", "behind": "6 m", "swap": "90 s", **orders}
    config = VehicleConfig.model_validate({
        "substep": "20 ms", "period": "200 ms", "gusts": GUSTS, "missions": {"tractor": mission}, "engage": [engage],
    })  # fmt: skip
    adapter = ADAPTER.build(config)
    adapter.start(Context("vehicle", Scene.build(tuple(nodes)), 1.0, float(longest), (seed, 16), ".", "."))
    done, finished = phases.STATES.index("done"), float(longest)
    for moment in range(longest):
        frames = adapter.step(float(moment), Inputs({}, []))
        behaviour = next(frame for frame in frames if frame.signal == BEHAVIOUR.name)
        drone, tractor = behaviour["state"].tolist()
        if tractor == done:
            finished = min(finished, float(moment))
            if drone == phases.HOME_IDLE:
                break
    result = adapter.finish()
    adapter.close()
    area = result["weeded"]["area"] if result["weeded"] else 0.0
    return area, float(result["vehicles"]["uav"]["energy"]) / 3600.0, finished / 60.0


def judged(seeds: range, orders: dict[str, Any], stops: int, longest: int, workers: int = 1) -> Floats:
    """Per seed (s, 2): area per Wh and area per minute in m^2."""
    found = np.array(mapped(partial(fly, orders=orders, stops=stops, longest=longest), seeds, workers=workers))
    return per_energy_and_time(found)


def per_energy_and_time(found: Floats) -> Floats:
    """(s, 2) m^2 per Wh and per minute of areas, energies and times (s, 3)."""
    return np.column_stack([found[:, 0] / np.maximum(found[:, 1], 1e-9), found[:, 0] / found[:, 2]])


def fly_shipped(case: tuple[str, int, str]) -> tuple[float, float, float]:
    """Area, energy and minutes as `fly` has them, of a file of `smart-farm` as it is, by its seed, in gusts."""
    file, seed, gusts = case
    with tempfile.TemporaryDirectory() as folder:
        changes = (f"run.seed={seed}", f"adapters.vehicle.gusts={gusts}")
        done = api.run(SHIPPED / file, overrides=changes, out=folder)
        result = json.loads((done.folder / "metrics.json").read_text(encoding="utf-8"))["figures"]
    area, per_energy, per_minute = (
        float(result[name]["value"]) for name in ("area_weeded", "area_weeded_per_wh", "area_weeded_per_minute")
    )
    return area, area / per_energy, area / per_minute


def interval(values: Floats) -> dict[str, float]:
    """Mean and half width of its 95 % interval."""
    from scipy.stats import t

    half = float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
    return {"mean": float(values.mean()), "half": half}


def in_worlds(given: argparse.Namespace) -> tuple[dict[str, Floats], dict[str, Any]]:
    """By rule what was weeded in the seeded worlds, and which schedules are the best ones."""
    pairs = list(product(LASTING, BETWEEN))
    training = range(1000, 1000 + given.train)
    tried = {pair: judged(training, schedule(*pair), given.stops, given.longest, given.workers).mean(axis=0)
             for pair in pairs}  # fmt: skip
    best = [max(tried, key=lambda pair: tried[pair][k]) for k in range(len(MEASURES))]
    rules = {
        "condition": shipped("scenario.cosim.yaml"),
        "fixed, smart-farm's timetable": shipped("fixed-times.cosim.yaml"),
        "fixed, best per Wh": schedule(*best[0]),
        "fixed, best per minute": schedule(*best[1]),
    }
    seeds = range(given.seeds)
    found = {name: judged(seeds, orders, given.stops, given.longest, given.workers) for name, orders in rules.items()}
    return found, {"best per Wh": best[0], "best per minute": best[1]}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=20, help="worlds that are judged")
    arguments.add_argument("--train", type=int, default=4, help="other worlds, on which schedules are chosen")
    arguments.add_argument("--stops", type=int, default=STOPS, help="of the tractor, one to four minutes each")
    arguments.add_argument("--longest", type=int, default=LONGEST, help="s of simulated time after which a world ends")
    arguments.add_argument("--shipped", action="store_true", help="the scenario and its variant as they are, by seed")
    arguments.add_argument("--workers", type=int, default=1, help="processes; what comes out is the same")
    given = arguments.parse_args()
    begun, chosen = time.process_time() + child_seconds(), dict[str, Any]()
    if given.shipped:
        files = {"condition": "scenario.cosim.yaml", "fixed, smart-farm's timetable": "fixed-times.cosim.yaml"}
        cases = [(file, seed, GUSTS) for file in files.values() for seed in range(1, 1 + given.seeds)]
        flown = np.array(mapped(fly_shipped, cases, workers=given.workers)).reshape(len(files), given.seeds, 3)
        found = {name: per_energy_and_time(part) for name, part in zip(files, flown, strict=True)}
    else:
        found, chosen = in_worlds(given)
    cpu = time.process_time() + child_seconds() - begun
    table = Table(f"m^2 weeded, {given.seeds} worlds", ["orders", *MEASURES, "condition over it, per Wh", "per minute"])
    figures: dict[str, Any] = {}
    for name, values in found.items():
        means = {measure: interval(values[:, k]) for k, measure in enumerate(MEASURES)}
        gains = {measure: interval(found["condition"][:, k] - values[:, k]) for k, measure in enumerate(MEASURES)}
        figures[name] = {**means, "gain": gains}
        words = [f"{one['mean']:.1f} ± {one['half']:.1f}" for one in (*means.values(), *gains.values())]
        table.add([name, *words])
    result = {"rules": figures, "chosen_s": chosen, "worlds": given.seeds, "cpu_s": cpu}
    result |= {"shipped": True} if given.shipped else {"stops": given.stops}
    print_result("orders", result, [table], as_json=given.json)


if __name__ == "__main__":
    main()
