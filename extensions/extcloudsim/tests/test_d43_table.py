"""Table 2 of MLSysOps D4.3: every feature in each validation scenario that the document marks with a cross."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cosim
from cosim.engine.continuum.power import PLATFORMS
from cosim.results.session import run

pytestmark = pytest.mark.xdist_group("kernels")  # after an edit these compile for a minute: one worker does it
SCENARIOS = Path(__file__).resolve().parents[1] / "scenarios"
NUMBERED = {
    1: "energy-aware", 2: "sla-aware", 3: "job-types", 4: "disaster", 5: "price-shift", 6: "predictive-migration",
}  # fmt: skip
BLOCK = "adapters.datacentre."
HOURS = 2  # of the day; the effects that need all of it are in test_d43.py


class Study:
    """Short runs of one of the scenarios."""

    def __init__(self, number: int, folder: Path) -> None:
        self.number, self.name, self.folder = number, NUMBERED[number], folder
        text = (SCENARIOS / self.name / "scenario.cosim.yaml").read_text()
        self.groups = ["steady", "bursty", "heavy"] if number == 6 else ["web", "batch"] if number == 4 else ["jobs"]
        self.hosts = text.count("{kind: server, at:")

    def books(self, *changes: str, hours: float = HOURS) -> tuple[dict[str, Any], Path]:
        words = [change if change.startswith("run.") else BLOCK + change for change in changes]
        outcome = run(SCENARIOS / self.name, overrides=[f"run.duration={hours} h", *words], out=self.folder)
        assert outcome.error is None
        manifest = json.loads((outcome.folder / "manifest.json").read_text())
        return manifest["adapters"][0]["summary"], outcome.folder

    def each_group(self, key: str, value: str) -> list[str]:
        return [f"machines.{group}.{key}={value}" for group in self.groups]


def configuration(study: Study) -> None:
    """Clocks are set while the run goes on: the governor says which are in force."""
    clocks = {}
    for governor in ("powersave", "performance"):
        _, folder = study.books(f"governor={governor}")
        rows = cosim.load(folder).sql('SELECT frequency FROM server WHERE machines > 0 AND "time" > 600').fetchall()
        clocks[governor] = {row[0] for row in rows}
    xeon = PLATFORMS["xeon-1220"].frequency
    assert clocks == {"powersave": {xeon[0] * 1e9}, "performance": {xeon[-1] * 1e9}}


def power(study: Study) -> None:
    """Each host draws P = a u V^2 f + s at the clock in force, and 10 W when it is empty."""
    books, folder = study.books("governor=performance", "evacuate=false", "detector=thr", "threshold=100 %")
    platform = PLATFORMS["xeon-1220"]
    point = len(platform.frequency) - 1
    load, watts = np.array(
        cosim.load(folder).sql(
            'SELECT utilisation, power FROM host JOIN server USING ("time", "node") WHERE "time" > 0'
        ).fetchall()
    ).T  # fmt: skip
    on = load > 0.01
    assert on.any()
    assert watts[on] == pytest.approx(platform.watts(0.0, point) + load[on] * (
        platform.watts(1.0, point) - platform.watts(0.0, point)), rel=1e-6)  # fmt: skip
    assert books["energy"]["total"] == pytest.approx(sum(books["energy"]["by_node"].values()))


def performance(study: Study) -> None:
    """At the lowest clock, work bound by the processor asks for more of it than work bound by memory or devices."""
    busy = {}
    for work in ("compute", "memory", "io"):
        changes = ["governor=powersave", "evacuate=false", "detector=thr", *study.each_group("work", work)]
        changes += study.each_group("utilisation", "{mean: 20 %, amplitude: 0 %, noise: 0 %}")
        _, folder = study.books(*changes)
        busy[work] = cosim.load(folder).sql('SELECT sum(utilisation) FROM host WHERE "time" > 600').fetchall()[0][0]
    slow = {work: PLATFORMS["xeon-1220"].measured.get(work, (1.0,))[0] for work in busy}
    assert slow["compute"] > slow["memory"] >= slow["io"] == 1.0
    for work in ("compute", "memory"):
        assert busy[work] / busy["io"] == pytest.approx(slow[work], rel=1e-6)


def service(study: Study) -> None:
    """Violations are owed in proportion to the weight of the service level; with none, nothing is owed."""
    changes = ["placer=best-fit", "penalty=undone", "threshold=100 %", *study.each_group("utilisation.mean", "90 %")]
    if study.number != 6:
        changes += ["relocate=false", "governor=powersave"]
    owed = {}
    for weight in ("0", "1", "2"):
        books, _ = study.books(*changes, *study.each_group("sla", weight))
        owed[weight] = books["cost"]["penalty"]["total"]
    assert owed["0"] == 0.0 < owed["1"]
    assert owed["2"] == pytest.approx(2 * owed["1"], rel=1e-9)


def traces(study: Study) -> None:
    """Utilisation is read from files: the work wanted is that of the file, to the last digit."""
    use = np.random.default_rng(study.number).uniform(0.0, 0.6, (12 * HOURS, 60)).round(4)
    path = study.folder / f"use-{study.number}.csv"
    lines = [",".join(f"vm{k}" for k in range(use.shape[1])), *(",".join(map(repr, row)) for row in use.tolist())]
    path.write_text("\n".join(lines) + "\n")
    books, _ = study.books(*study.each_group("traces", f"{{path: {path}}}"))
    expected = sum(use[:, :count].sum() * cpu * 300.0 for count, cpu in GROUPS[study.number])
    assert books["work"]["wanted"] == pytest.approx(expected, rel=1e-9)


GROUPS = {  # machines and Hz of each, as in the files
    1: [(30, 2.2e9)], 2: [(12, 2e9)], 3: [(28, 2e9)], 4: [(24, 2e9), (18, 1.5e9)], 5: [(24, 2e9)],
    6: [(50, 1.6e9), (40, 3.3e9), (30, 5e9)],
}  # fmt: skip


def migration(study: Study) -> None:
    """Machines move between datacentres, and the bytes and penalties of it are booked."""
    if study.number == 4:
        changes = ["disasters=[{at: 1 h, place: north, share: 75 %, for: 4 h}]", "recovery=migration"]
    elif study.number == 5:
        prices = study.folder / "west.csv"
        prices.write_text("10\n900\n")
        changes = [f"places.west.prices={prices}", "places.east.prices=null", "places.east.price=100 /MWh"]
    else:
        half = study.hosts // 2
        names = [f"server-{k}" for k in range(1, study.hosts + 1)]
        changes = [
            f"places={{a: {{nodes: [{', '.join(names[:half])}]}}, b: {{nodes: [{', '.join(names[half:])}]}}}}",
            "wan=[{between: [a, b], rate: 200 Mbit/s, factor: 2, cost: 0.01 /GB}]",
        ]
    books, folder = study.books(*changes)
    which = "origin IS NULL" if study.number == 4 else "between_places"
    moved = cosim.load(folder).sql(f"SELECT count(*), sum(moved) FROM migration WHERE {which}").fetchall()[0]
    assert moved[0] > 0
    if study.number == 4:  # those of the hosts that are gone come from copies, and are paid for meanwhile
        assert books["machines"]["restarts"] == moved[0]
        assert books["cost"]["penalty"]["crash"] > 0.0
        return
    price = {5: 0.0005, 6: 0.01}[study.number]
    assert books["machines"]["between_places"] == moved[0]
    assert books["cost"]["transfer"] == pytest.approx(moved[1] / 1e9 * price)
    assert books["cost"]["penalty"]["migration"] > 0.0


def energy(study: Study) -> None:
    """Energy costs what it costs at its time, and green power less: all of it green, at a tenth of the price."""
    place = {1: "athens", 5: "west"}[study.number]
    if study.number == 1:
        nodes = "server-*"
        block = f"places={{athens: {{nodes: '{nodes}', price: 100 /MWh, carbon: 400 g/kWh%s}}}}"
    else:
        block = "places={west: {nodes: 'west-*', price: 100 /MWh, carbon: 400 g/kWh%s}, east: {nodes: 'east-*'}}"
    brown, _ = study.books(block % "", "wan=[]", "relocate=false")
    green, _ = study.books(block % ", green: [{from: 0 h, to: 24 h}], green_price: 10 /MWh", "wan=[]", "relocate=false")
    joule = brown["energy"]["by_place"][place]
    assert brown["cost"]["energy_by_place"][place] == pytest.approx(joule * 100 / 3.6e9)
    assert green["cost"]["energy_by_place"][place] == pytest.approx(joule * 10 / 3.6e9)
    assert brown["carbon"]["grams"] >= joule * 400 / 3.6e6 * 0.999
    assert green["carbon"]["green_energy"] == pytest.approx(joule)


TABLE: dict[str, tuple[Callable[[Study], None], tuple[int, ...]]] = {
    "Host configuration control at simulation time": (configuration, (1, 3)),
    "Enhanced power modelling": (power, (1, 2, 3)),
    "Enhanced performance modelling": (performance, (1, 2, 3)),
    "Modelling of SLAs and SLA violation costs": (service, (2, 4, 6)),
    "Support for popular input traces": (traces, (1, 2, 3, 4, 5, 6)),
    "Inter-datacenter migrations and modelling of migration cost": (migration, (4, 5, 6)),
    "Brown vs green energy consumption & operation cost": (energy, (1, 5)),
}


@pytest.mark.parametrize(
    ("feature", "number"),
    [(feature, number) for feature, (_, numbers) in TABLE.items() for number in numbers],
    ids=lambda value: str(value).split(" ")[0].lower() if isinstance(value, str) else NUMBERED[value],
)
def test_a_cross_of_table_2(feature, number, tmp_path):
    TABLE[feature][0](Study(number, tmp_path))
