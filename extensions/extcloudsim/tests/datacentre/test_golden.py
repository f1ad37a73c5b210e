"""The reference rows of the peer, from its inputs, where they are there."""

from pathlib import Path

import pytest
from benchmarks.extcloudsim import SETTINGS, compare, course, first_difference, goldens, main, read_rows

from cosim.extensions.extcloudsim.datacentre.quirks import COMPATIBLE

DATA = Path(__file__).resolve().parents[4].parent / "shared" / "data" / "extcloudsim"
pytestmark = [pytest.mark.data, pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is not there")]
ROWS = {row["scenario"][:3]: row for path in goldens(DATA) if path.exists() for row in read_rows(path)}
NAMES = ("g01", "g02", "g03", "g06", "g09", "g10", "g11", "g13", "x01", "x03", "x04", "x06", "x09", "x11", "x13", "x15",
         "x18", "x19")  # fmt: skip
QUICK = {"g01", "g02", "g03", "g06", "g11", "g13", "x15", "x18", "x19"}
MOVES = {"g03": 977, "g06": 423, "g11": 234}  # rows of which every migration was recorded
PERIODS = {"g01", "g02", "g03", "g09", "g10"}  # rows of which every period was recorded


@pytest.mark.parametrize("name", [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in NAMES])
def test_all_figures_of_a_row_and_every_migration_agree(name):
    found = compare(DATA, ROWS[name])
    course_of = [f"all {MOVES[name]} migrations in order"] if name in MOVES else []
    course_of += ["all 285 periods"] if name in PERIODS else []
    assert found["verdict"] == "; ".join(["equal", *course_of])
    compared = {key for key, one in found["figures"].items() if "theirs" in one}
    assert compared == {key for key, text in ROWS[name].items() if text} - SETTINGS


def test_the_first_decision_that_differs_is_named():
    run = course(DATA, ROWS["g11"], COMPATIBLE)
    period, machine, origin, host = run.moves[100]
    wrong = run._replace(moves=[*run.moves[:100], (period, machine, origin, host + 1), *run.moves[101:]])
    found = first_difference(wrong, DATA, "g11")
    assert found.startswith(f"decision {period}: migration 101 is ({machine}, {origin}, {host + 1}), not ")
    assert "migration 234 is None, not " in first_difference(run._replace(moves=run.moves[:-1]), DATA, "g11")
    name = "g02_w10_fop_xeon"  # of which only the periods are recorded
    run = course(DATA, ROWS["g02"], COMPATIBLE)
    run.periods[7]["active_hosts"] += 1
    assert first_difference(run, DATA, name) == "decision 8: active_hosts is 2, not 1"


def test_a_column_that_nothing_is_compared_with_is_named():
    found = compare(DATA, {**ROWS["g01"], "sleepers": "3"})
    assert (found["status"], found["verdict"][-8:]) == ("cannot run", "sleepers")


def test_energy_is_billed_at_the_price_of_its_time_unless_the_defect_is_wanted():
    variable = course(DATA, ROWS["g09"], COMPATIBLE).figures
    last = 3.63484531535833e-08
    assert variable["energy_cost_usd"] == pytest.approx(variable["energy_J"] * last, rel=1e-12)
    honest = course(DATA, ROWS["g09"], COMPATIBLE - {"repriced-energy"}).figures
    assert honest["energy_cost_usd"] > 1.1 * variable["energy_cost_usd"]


def test_rows_that_the_peer_could_not_run_are_reported():
    reported = compare(DATA, {**ROWS["g01"], "status": "crash"})
    assert reported["verdict"].startswith("not run")
    reported = compare(DATA, {**ROWS["g01"], "power_model": "epyc"})
    assert "there is no platform" in reported["verdict"]


def test_a_missing_folder_is_said(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", ["extcloudsim", "--data", str(tmp_path / "nowhere"), "--machines", "0"])
    assert main() == 2
    assert "is not there" in capsys.readouterr().err
