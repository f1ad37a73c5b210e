"""The chain as mosaik's tutorials would write it: one entity per vehicle, one value per attribute."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import mosaik
import mosaik_api_v3
from mosaik.starters import PythonStarter

from benchmarks.chain import start_state


class _Entities(mosaik_api_v3.Simulator):
    attributes: tuple[str, ...] = ()

    def __init__(self) -> None:
        models = {"Vehicle": {"public": True, "params": [], "attrs": list(self.attributes)}}
        super().__init__({"api_version": "3.0", "type": "time-based", "models": models})
        self.ids: list[str] = []
        self.values: dict[str, dict[str, float]] = {}

    def init(self, sid: str, time_resolution: float = 1.0, rows: int = 0) -> Any:
        self.rows = rows
        return self.meta

    def create(self, num: int, model: str, **_params: Any) -> list[Any]:
        self.ids = [f"v{i}" for i in range(num)]
        return [{"eid": eid, "type": model} for eid in self.ids]

    def get_data(self, outputs: Any) -> Any:
        return self.values


class _Mobility(_Entities):
    attributes = ("x", "y", "speed")

    def step(self, time: int, inputs: Any, max_advance: int) -> int:
        if not self.values:
            x, y, speed = (column.tolist() for column in start_state(self.rows))
            self.values = {e: {"x": a, "y": b, "speed": c} for e, a, b, c in zip(self.ids, x, y, speed, strict=True)}
        for value in self.values.values():
            value["x"] += value["speed"] * 0.1
        return time + 1


class _Network(_Entities):
    attributes = ("x", "y", "speed", "delay")

    def step(self, time: int, inputs: Any, max_advance: int) -> int:
        self.values = {
            eid: {"delay": next(iter(values["x"].values())) + next(iter(values["y"].values()))}
            for eid, values in inputs.items()
        }
        return time + 1


class _Continuum(_Entities):
    attributes = ("delay", "load")

    def step(self, time: int, inputs: Any, max_advance: int) -> int:
        self.values = {eid: {"load": next(iter(v["delay"].values())) * 0.5} for eid, v in inputs.items()}
        return time + 1


class _Recorder(_Entities):
    attributes = ("load",)
    begun: float = 0.0
    total = 0.0

    def step(self, now: int, inputs: Any, max_advance: int) -> int:
        self.total += sum(next(iter(values["load"].values())) for values in inputs.values())
        if now == 0:
            _Recorder.begun = time.process_time()
        return now + 1


def run(rows: int, ticks: int) -> float:
    """CPU seconds per tick, after the first one."""
    with mosaik.World({}, skip_greetings=True, configure_logging=False) as world:
        entities = [
            world.start(PythonStarter(cls), name, rows=rows).Vehicle.create(rows)
            for name, cls in (("mob", _Mobility), ("net", _Network), ("cont", _Continuum), ("rec", _Recorder))
        ]
        mobility, network, continuum, recorder = entities
        for m, n, c, r in zip(mobility, network, continuum, recorder, strict=True):
            world.connect(m, n, "x", "y", "speed")
            world.connect(n, c, "delay")
            world.connect(c, r, "load")
        world.run(until=ticks + 1, print_progress=False)
    return (time.process_time() - _Recorder.begun) / ticks


def in_own_process(rows: int, ticks: int) -> float:
    """`run` in a fresh interpreter."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.naive_chain", str(rows), str(ticks)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]))))
