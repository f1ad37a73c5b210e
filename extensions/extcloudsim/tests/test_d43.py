"""The six validation scenarios of MLSysOps D4.3, section 2.3: each shows the effect that the document names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import cosim
from cosim.results.session import run

pytestmark = pytest.mark.xdist_group("kernels")  # after an edit these compile for a minute: one worker does it
SCENARIOS = Path(__file__).resolve().parents[1] / "scenarios"
BLOCK = "adapters.datacentre."


def summary(folder: Path) -> dict[str, Any]:
    manifest = json.loads((folder / "manifest.json").read_text())
    return manifest["adapters"][0]["summary"]


@pytest.fixture
def books(tmp_path):
    """Run a scenario with keys of its datacentre block changed; its summary and its folder."""

    def ran(name: str, **changes: str) -> tuple[dict[str, Any], Path]:
        overrides = [f"{BLOCK}{key.replace('__', '.')}={value}" for key, value in changes.items()]
        outcome = run(SCENARIOS / name, overrides=overrides, out=tmp_path)
        assert outcome.error is None
        result = cosim.load(outcome.folder)
        assert result.metrics["faults"] == []
        return summary(outcome.folder), outcome.folder

    return ran


def clock(folder: Path) -> float:
    """Mean clock of the hosts that have machines, Hz."""
    (row,) = cosim.load(folder).sql("SELECT avg(frequency) FROM server WHERE machines > 0").fetchall()
    return row[0]


def test_1_a_lower_clock_saves_power_and_hurts_work_bound_by_the_processor_most(books):
    low = {work: books("energy-aware", machines__jobs__work=work)[0] for work in ("compute", "memory", "io")}
    high = {
        work: books("energy-aware", machines__jobs__work=work, governor="performance")[0] for work in ("compute", "io")
    }
    short = {work: found["cost"]["penalty"]["overload"] for work, found in low.items()}
    assert short["compute"] > 10 * short["memory"] >= 10 * short["io"]
    undone = {name: found["compute"]["work"]["waiting"] for name, found in (("low", low), ("high", high))}
    assert undone["low"] > 0.1 * low["compute"]["work"]["wanted"]
    assert undone["high"] < 1e-3 * low["compute"]["work"]["wanted"]
    for work, found in high.items():
        assert low[work]["energy"]["total"] < 0.8 * found["energy"]["total"]
        assert low[work]["cost"]["energy"] < 0.8 * found["cost"]["energy"]


def test_2_tighter_service_levels_go_to_more_reliable_nodes(books):
    loose, _ = books("sla-aware", machines__jobs__sla="0.1")
    tight, _ = books("sla-aware", machines__jobs__sla="20")
    solid = {name: found["energy"]["by_place"]["solid"] for name, found in (("loose", loose), ("tight", tight))}
    assert solid["tight"] > 2 * solid["loose"]
    assert tight["machines"]["restarts"] < 0.5 * loose["machines"]["restarts"]
    # Per unit of service weight the tight level is violated less, at a higher cost of energy.
    assert tight["cost"]["penalty"]["total"] / 20 < 0.1 * loose["cost"]["penalty"]["total"] / 0.1
    assert tight["cost"]["energy"] > loose["cost"]["energy"]
    # Other service level agreements book the same events at other costs.
    flat, _ = books("sla-aware", machines__jobs__sla="0.1", penalty="flat")
    assert flat["cost"]["penalty"]["overload"] > loose["cost"]["penalty"]["overload"] > 0.0


def test_3_clocks_follow_the_kind_of_work_and_overcommitted_hosts_are_left(books):
    compute, fast = books("job-types", machines__jobs__work="compute")
    memory, slow = books("job-types", machines__jobs__work="memory")
    assert clock(fast) > 1.2 * clock(slow)
    assert compute["energy"]["total"] > memory["energy"]["total"]
    assert compute["machines"]["migrations"] > 0
    full, _ = books("job-types", threshold="100 %")
    assert full["hosts"]["active"] < compute["hosts"]["active"]
    assert full["cost"]["penalty"]["overload"] > compute["cost"]["penalty"]["overload"]
    double, _ = books("job-types", places__athens__price_unit="/kWh")
    assert double["cost"]["energy"] > 100 * compute["cost"]["energy"]


def test_4_a_disaster_restarts_machines_elsewhere_and_is_booked(books):
    struck, folder = books("disaster")
    spared, _ = books("disaster", disasters="[]")
    assert spared["machines"]["restarts"] == 0
    assert struck["machines"]["restarts"] > 0
    assert struck["cost"]["penalty"]["crash"] > 0.0 == spared["cost"]["penalty"]["crash"]
    shift = {
        place: struck["energy"]["by_place"][place] - spared["energy"]["by_place"][place] for place in ("north", "south")
    }
    assert shift["north"] < 0.0 < shift["south"]
    cost = {
        place: struck["cost"]["energy_by_place"][place] - spared["cost"]["energy_by_place"][place] for place in shift
    }
    assert cost["north"] < 0.0 < cost["south"]
    rows = cosim.load(folder).sql('SELECT machine FROM migration WHERE "at" >= 43200 AND "at" < 44100').fetchall()
    assert len(rows) == struck["machines"]["restarts"]


def test_5_extreme_prices_move_machines_between_datacentres_at_a_booked_cost(books):
    moved, _ = books("price-shift")
    stayed, _ = books("price-shift", relocate="false")
    assert moved["machines"]["between_places"] > 0
    assert moved["cost"]["transfer"] > 0.0
    assert moved["cost"]["penalty"]["migration"] > 0.0
    assert stayed["machines"]["between_places"] == 0
    assert moved["cost"]["total"] < 0.9 * stayed["cost"]["total"]
    same, _ = books("price-shift", places__west__prices="data/east.csv", places__east__green="[]")
    assert same["machines"]["between_places"] == 0


@pytest.mark.slow
def test_6_the_learned_predictor_lies_between_the_oracle_and_lrmmt(books):
    found = {
        name: books("predictive-migration", foresight=name)[0]["machines"] for name in ("null", "learned", "oracle")
    }
    for key in ("migrations", "violating_periods"):
        lrmmt, learned, oracle = (found[name][key] for name in ("null", "learned", "oracle"))
        assert oracle <= learned < lrmmt, key
    gain = found["null"]["migrations"] - found["oracle"]["migrations"]
    assert found["null"]["migrations"] - found["learned"]["migrations"] >= 0.8 * gain
