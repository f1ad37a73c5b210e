"""The reference rows of the peer, from its inputs, where they are there."""

import csv
from pathlib import Path

import pytest

from benchmarks.extcloudsim import compare, figures, main, model
from cosim.extensions.extcloudsim.datacentre.quirks import COMPATIBLE

DATA = Path(__file__).resolve().parents[4].parent / "shared" / "data" / "extcloudsim"
pytestmark = [pytest.mark.data, pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is not there")]


@pytest.fixture(scope="module")
def rows():
    with (DATA / "golden.csv").open() as file:
        return {row["scenario"][:3]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize("name", ["g01", "g02"])
def test_rows_that_must_agree_do(rows, name):
    found = compare(DATA, rows[name])["figures"]
    assert found["energy_J"]["difference"] < 1e-6
    for key in ("migrations", "active_host_periods", "op0_host_periods", "op3_host_periods", "migration_penalty_usd"):
        assert found[key]["ours"] == pytest.approx(found[key]["theirs"], rel=1e-9)


def test_a_busy_day_comes_close(rows):
    found = compare(DATA, rows["g03"])["figures"]
    assert found["energy_J"]["difference"] < 0.01
    assert found["active_host_periods"]["difference"] < 0.02
    assert found["migrations"]["difference"] < 0.1
    assert found["migration_penalty_usd"]["difference"] < 0.1


def test_the_busy_day_takes_its_course(rows):
    with (DATA / "expected_periods.csv").open() as file:
        expected = [row for row in csv.DictReader(file) if row["scenario"] == rows["g03"]["scenario"]]
    made = model(DATA, rows["g03"], COMPATIBLE)
    moves = []
    for period in range(len(expected)):
        made.advance(300.0 * (period + 1))
        moves.append(len(made.moves))
        assert len(moves) > 33 or len(set(made.at)) == int(expected[period]["active_hosts"])
    theirs = [int(row["vm_migrations_penalised"]) for row in expected]
    assert moves[:11] == theirs[:11]  # 27 at once, then 14 when the past is long enough
    assert moves[12:33] == theirs[12:33] == [0] * 21
    assert 1 not in moves
    assert 1 not in theirs  # a host listed twice gives up two at least


def test_energy_is_billed_at_the_price_of_its_time_unless_the_defect_is_wanted(rows):
    constant, variable = (figures(DATA, rows[name], COMPATIBLE) for name in ("g03", "g09"))
    assert variable["energy_J"] == constant["energy_J"]
    last = 3.63484531535833e-08
    assert variable["legacy_energy_cost_usd"] == pytest.approx(variable["energy_J"] * last, rel=1e-12)
    honest = figures(DATA, rows["g09"], COMPATIBLE - {"repriced-energy"})
    assert honest["legacy_energy_cost_usd"] == pytest.approx(honest["energy_cost_usd"], rel=1e-12)
    assert honest["energy_cost_usd"] > 1.1 * variable["legacy_energy_cost_usd"]


def test_rows_that_the_peer_could_not_run_are_reported(rows):
    told = compare(DATA, {**rows["g01"], "status": "crash"})
    assert told["verdict"].startswith("not run")
    told = compare(DATA, {**rows["g01"], "power_model": "epyc"})
    assert "there is no platform" in told["verdict"]


def test_a_missing_folder_is_said(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", ["extcloudsim", "--data", str(tmp_path / "nowhere"), "--machines", "0"])
    assert main() == 2
    assert "is not there" in capsys.readouterr().err
