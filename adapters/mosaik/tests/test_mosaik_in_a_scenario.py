"""Simulators published for mosaik run inside a scenario, the same under either driver."""

import json
from pathlib import Path

import pytest

from tests import forked

ROOT = Path(__file__).parents[3]

SCENARIO = """
apiVersion: cosim/v1
kind: Scenario
name: sun-and-rooms
run: {duration: 4 min, step: 30 s, seed: 3}
adapters:
  rooms:
    use: mosaik
    simulator: {command: "%(python)s -m cosim.adapters.mosaik.example %(addr)s"}
    resolution: 10 s
    models: [{model: Room, nodes: edge-*, params: {outside: 12.0}}]
    inputs: [{signal: solar, column: power, nodes: edge-*, to: Room.heat}]
    outputs: [{from: Room.temperature, signal: room, column: temperature, unit: degC, meaning: air}]
  sun:
    use: mosaik
    step: 1 min
    simulator: {python: "mosaik_csv:CSV"}
    resolution: 1 s
    params: {sim_start: "2030-06-01 12:00:00", datafile: "%(root)s/solar.csv"}
    models: [{model: Solar}]
    outputs: [{from: Solar.P, signal: solar, column: power, unit: W, nodes: edge-*}]
nodes:
  "edge-[1..3]": {kind: edge, cpu: 2 x 1 GHz, at: [0 m, 0 m]}
"""


@pytest.fixture
def cosim(tmp_path):
    """Runs a `cosim` command in a folder with the scenario and its data."""
    pytest.importorskip("mosaik_csv")
    (tmp_path / "scenario.cosim.yaml").write_text(SCENARIO)
    rows = "".join(f"2030-06-01 12:{minute:02}:00, {100 * minute}.5\n" for minute in range(6))
    (tmp_path / "solar.csv").write_text("Solar\ntime, P\n" + rows)

    def run(*words):
        return forked.cosim(*words, cwd=tmp_path)

    return run


def test_two_simulators_of_others_are_wired_by_names_under_both_drivers(cosim, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    for driver in ("mosaik", "loop"):
        done = cosim("run", "scenario.cosim.yaml", "--driver", driver, "--out", driver, "--no-report")
        assert done.returncode == 0, done.stdout + done.stderr
    folders = [next((tmp_path / driver / "sun-and-rooms").iterdir()) for driver in ("mosaik", "loop")]
    assert [json.loads((folder / "manifest.json").read_text())["driver"] for folder in folders] == ["mosaik", "loop"]
    solar, solar_too = (pq.read_table(folder / "frames/solar/sun.parquet") for folder in folders)
    rooms, rooms_too = (pq.read_table(folder / "frames/room/rooms.parquet") for folder in folders)
    assert solar.equals(solar_too)
    assert rooms.equals(rooms_too)
    assert solar.column("power").to_pylist()[::3] == [0.5, 100.5, 200.5, 300.5, 400.5]
    assert rooms.num_rows == 9 * 3
    warmth = rooms.column("temperature").to_pylist()[::3]
    assert warmth == sorted(warmth)
    assert warmth[0] > 12.0


def test_a_simulator_that_fails_ends_the_run_with_its_name(cosim):
    wrong = "adapters.rooms.outputs=[{from: Room.humidity, signal: room, column: humidity}]"
    done = cosim("run", "scenario.cosim.yaml", "--set", wrong, "--no-report")
    assert done.returncode in (1, 2)
    assert "Room has no attribute 'humidity'; it has heat, temperature" in done.stdout + done.stderr
