"""Write the floating car data of the freeway scenario, the same file every time.

    python scenarios/freeway/make_fcd.py [FILE]

Three lanes of three kilometres; cars enter each lane at its western end after drawn gaps and follow
each other by the Intelligent Driver Model (Treiber, Hennecke, Helbing, Phys. Rev. E 62, 2000).
Between 1,400 m and 1,800 m a limit of 60 km/h holds, so that the traffic is
denser there. No lane is changed. FILE may end in .xml or .csv, also with .gz; the default is
data/freeway.csv.gz beside this file.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

LENGTH = 3000.0  # m
LANES = 3
LANE_WIDTH = 3.5  # m
SLOW_FROM, SLOW_TO, SLOW = 1400.0, 1800.0, 60 / 3.6  # m, m, m/s
STEP = 0.5  # s between two steps of the model; every second one is written
DURATION = 300.0  # s
MEAN_GAP = 4.0  # s between two cars of a lane
CAR = 5.0  # m
ACCELERATION, BRAKING, HEADWAY, STANDSTILL = 1.5, 2.0, 1.4, 2.0  # m/s2, m/s2, s, m: the model's car on a freeway

Floats = NDArray[np.float64]
Row = tuple[float, str, float, float, float, float]  # time, id, x, y, speed, heading


def follow(position: Floats, speed: Floats, wish: Floats) -> Floats:
    """Acceleration (n,) of the cars of one lane, the first one in front, by the Intelligent Driver Model."""
    gap = np.append(np.inf, position[:-1] - position[1:] - CAR)
    closing = speed - np.append(0.0, speed[:-1])
    closing[:1] = 0.0
    desired = STANDSTILL + np.maximum(0.0, speed * HEADWAY + speed * closing / (2.0 * np.sqrt(ACCELERATION * BRAKING)))
    ratio = speed / wish
    return np.asarray(ACCELERATION * (1.0 - ratio * ratio * ratio * ratio - (desired / np.maximum(gap, 0.1)) ** 2))


def trajectories(seed: int = 7, duration: float = DURATION) -> Iterator[Row]:
    """Rows in the order of time, then lane, then from the front to the back."""
    rng = np.random.Generator(np.random.PCG64(seed))
    lanes: list[dict[str, Floats]] = [{"x": np.empty(0), "v": np.empty(0), "w": np.empty(0)} for _ in range(LANES)]
    names: list[list[str]] = [[] for _ in range(LANES)]
    following = rng.exponential(MEAN_GAP, LANES)
    entered = 0
    for tick in range(round(duration / STEP) + 1):
        time = tick * STEP
        for lane in range(LANES):
            cars = lanes[lane]
            if following[lane] <= time and (not len(cars["x"]) or cars["x"][-1] > 3.0 * CAR):
                wish = float(rng.normal(110.0 + 8.0 * lane, 8.0)) / 3.6
                start = min(wish, float(cars["v"][-1])) if len(cars["v"]) else wish
                cars["x"], cars["v"] = np.append(cars["x"], 0.0), np.append(cars["v"], start)
                cars["w"] = np.append(cars["w"], wish)
                names[lane].append(f"car{entered}")
                entered += 1
                following[lane] = time + 1.5 + rng.exponential(MEAN_GAP - 1.5)
            if tick % 2 == 0:
                y = (lane + 0.5) * LANE_WIDTH
                for i, name in enumerate(names[lane]):
                    yield time, name, round(float(cars["x"][i]), 2), y, round(float(cars["v"][i]), 2), 90.0
            slow = (cars["x"] >= SLOW_FROM) & (cars["x"] < SLOW_TO)
            wish_now = np.where(slow, np.minimum(cars["w"], SLOW), cars["w"])
            cars["v"] = np.maximum(cars["v"] + STEP * follow(cars["x"], cars["v"], wish_now), 0.0)
            cars["x"] = cars["x"] + STEP * cars["v"]
            gone = int((cars["x"] > LENGTH).sum())
            for key in cars:
                cars[key] = cars[key][gone:]
            del names[lane][:gone]


def lines(rows: Iterator[Row], kind: str) -> Iterator[str]:
    """The file's lines in SUMO's formats; `kind` is xml or csv."""
    if kind == "csv":
        yield "timestep_time;vehicle_angle;vehicle_id;vehicle_speed;vehicle_x;vehicle_y\n"
        for time, name, x, y, speed, heading in rows:
            yield f"{time:.2f};{heading:.2f};{name};{speed:.2f};{x:.2f};{y:.2f}\n"
        return
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<fcd-export>\n'
    now = None
    for time, name, x, y, speed, heading in rows:
        if time != now:
            yield ("    </timestep>\n" if now is not None else "") + f'    <timestep time="{time:.2f}">\n'
            now = time
        yield f'        <vehicle id="{name}" x="{x:.2f}" y="{y:.2f}" angle="{heading:.2f}" speed="{speed:.2f}"/>\n'
    yield ("    </timestep>\n" if now is not None else "") + "</fcd-export>\n"


def write(path: Path, seed: int = 7, duration: float = DURATION) -> None:
    """Write the file whose format the name of `path` tells."""
    kind = path.suffixes[-2 if path.suffix == ".gz" else -1].removeprefix(".")
    if kind not in ("xml", "csv"):
        raise ValueError(f"'{path.name}' is neither .xml nor .csv, with or without .gz")
    data = "".join(lines(trajectories(seed, duration), kind)).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "data" / "freeway.csv.gz")
