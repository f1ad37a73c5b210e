"""Whole runs on real city networks: Bologna's morning peak, and Turin with its seventeen base stations."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

import cosim
from cosim.results.session import run

DATA = Path(__file__).resolve().parents[2] / "../shared/data/mobility"

pytestmark = [
    pytest.mark.sumo,
    pytest.mark.data,
    pytest.mark.skipif(not DATA.is_dir(), reason=f"there is no {DATA}"),
]

SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: {name}
run: {{duration: 2 min, step: 1 s, seed: 3}}
adapters:
  sumo: {sumo}
  radio: {{model: umi}}
  continuum: {{scheduler: least-loaded}}
nodes:
  cars: {{kind: vehicle, fleet: sumo, capacity: 2000}}
{stations}
  cloud: {{kind: cloud, cpu: 64 x 2.2 GHz}}
links:
  - {{between: [site-*, cloud], rate: 1 Gbit/s, delay: 15 ms}}
workloads:
  hazard-detection:
    {{from: cars, arrivals: poisson 0.2 Hz, input: 40 kB, output: 2 kB, work: 300 Mcycles, deadline: 1 s}}
"""


def unpack(district: str, folder: Path) -> None:
    """A copy of the district's files with the packed ones beside themselves, as its configuration names them."""
    shutil.copytree(DATA / district, folder)
    for file in folder.glob("*.gz"):
        with gzip.open(file) as packed, file.with_suffix("").open("wb") as plain:
            shutil.copyfileobj(packed, plain)


def simulate(folder: Path, sumo: str, stations: list[tuple[float, float]], out: Path) -> cosim.Run:
    lines = [
        f"  site-{n}: {{kind: base-station, at: [{x:.2f} m, {y:.2f} m, 0 m], cpu: 8 x 2.1 GHz}}"
        for n, (x, y) in enumerate(stations, start=1)
    ]
    text = SCENARIO.format(name=folder.name.replace("_", "-"), sumo=sumo, stations="\n".join(lines))
    (folder / "scenario.cosim.yaml").write_text(text)
    outcome = run(folder, out=out)
    assert outcome.error is None
    assert outcome.status == "complete"
    return cosim.load(outcome.folder)


def check(result: cosim.Run, vehicles: int, sites: int) -> dict[str, float]:
    """What must hold of every city; its figures."""
    assert result.metrics["faults"] == []
    figures = {name: figure["value"] for name, figure in result.metrics["figures"].items()}
    assert figures["vehicles_seen"] >= vehicles
    assert figures["tasks_created"] > 0.1 * vehicles
    assert figures["tasks_created"] == sum(figures[f"tasks_{end}"] for end in ("completed", "failed", "in_flight"))
    cells = {row[0] for row in result.sql("SELECT DISTINCT cell FROM link WHERE cell IS NOT NULL").fetchall()}
    assert cells
    assert cells <= {f"site-{n}" for n in range(1, sites + 1)}
    (rows,) = result.sql("SELECT count(*) FROM link").fetchall()[0]
    (moving,) = result.sql("SELECT count(*) FROM mobility").fetchall()[0]
    assert rows == moving  # every vehicle has its row of the radio at every step
    assert 5.0 < figures["snr_mean"] < 60.0
    assert figures["handovers"] > 0
    return figures


def grid(west: float, south: float, east: float, north: float) -> list[tuple[float, float]]:
    return [(west + (i + 0.5) / 4 * (east - west), south + (j + 0.5) / 3 * (north - south))
            for i in range(4) for j in range(3)]  # fmt: skip


@pytest.mark.parametrize("district", ["acosta", "pasubio"])
def test_bologna(tmp_path, district):
    import sumolib

    folder = tmp_path / f"bologna_{district}"
    unpack(folder.name, folder)
    net = sumolib.net.readNet(str(folder / f"{district}_buslanes.net.xml"))
    result = simulate(folder, "{config: run.sumocfg}", grid(*net.getBoundary()), tmp_path / "runs")
    figures = check(result, vehicles=200, sites=12)
    assert figures["coverage"] > 0.9
    assert result.manifest["adapters"][0]["summary"]["collisions"] == 0


def test_turin_with_its_real_base_stations(tmp_path):
    folder = tmp_path / "turin_crocetta"
    unpack(folder.name, folder)
    sites = json.loads((folder / "gnodeB_IDs.json").read_text())["gnodeB"]
    stations = [tuple(map(float, site["pos"].split(","))) for site in sites]
    assert len(stations) == 17
    result = simulate(folder, "{network: map.net.xml, routes: map.rou.xml}", stations, tmp_path / "runs")
    figures = check(result, vehicles=40, sites=17)
    assert figures["coverage"] > 0.5
