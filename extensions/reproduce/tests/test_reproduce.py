"""Claims of sources made again: what is read, what is kept, and what the rules of judging do."""

from __future__ import annotations

import csv
import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cosim.cli.main import app
from cosim.contract.errors import SetupError
from cosim.contract.functions import attribute_of
from cosim.extensions.reproduce import claims as registry
from cosim.extensions.reproduce.claims import Claim, claim, claims, table
from cosim.extensions.reproduce.judging import FAILS, HOLDS, OPEN, bounds, judge, reproduce
from cosim.extensions.reproduce.page import write

stats = pytest.importorskip("scipy.stats")

TINY = """
[table1]
source = "Tiny"
paper = "A tiny system"
what = "Table 1: two policies"
function = "tiny_claims.made:row"
prepare = "tiny_claims.made:prepared"
minutes = [1, 0.1]
settings = [{name = "load", source = 2.0, quick = 1.0, why = "shorter"}, {name = "word", source = "long"}]
differs = [{name = "hosts", source = "real", ours = "simulated", why = "there are none"}]
numbers = '''
policy | cost | late
good | 10 | 0.5
bad | 20 | -
'''
within = {late = 0.1}
unjudged = {cost = "another currency"}

[[table1.statements]]
text = "good costs less"
lower = "good"
columns = ["cost"]
"""
MADE = """
from pathlib import Path

LOG = Path(__file__).with_name("calls")


def prepared(load, word):
    with LOG.open("a") as log:
        log.write("prepared\\n")
    return {"load": load}


def row(case, seed, prepared, load, word):
    with LOG.open("a") as log:
        log.write(f"{case} {seed}\\n")
    if LOG.with_name("stop").exists() and seed == 3:
        raise KeyboardInterrupt
    if word == "wrong":
        return 5
    cost = {"good": 10.0, "bad": 20.0}[case] * prepared["load"] + seed
    return {case: {"cost": cost, "late": 0.5 + 0.01 * seed}}
"""


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a package with one claim."""
    folder = tmp_path / "packages" / "tiny_claims"
    folder.mkdir(parents=True)
    for name, text in (("__init__.py", ""), ("claims.toml", TINY), ("made.py", MADE)):
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(folder.parent)
    monkeypatch.setattr(registry, "installed", lambda _: {"tiny": "tiny_claims"})
    for name in ("tiny_claims", "tiny_claims.made"):
        sys.modules.pop(name, None)
    return folder


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def test_a_table_has_its_numbers_by_row_and_column():
    assert table("of | a, USD | b\nx | 1.5 | -\ny | (3%) | 2e3") == (
        ("a, USD", "b"),
        {"x": {"a, USD": 1.5}, "y": {"b": 2e3}},
    )
    with pytest.raises(ValueError, match="'x' is there twice or has 1 cells for 2"):
        table("of | a | b\nx | 1")


def test_what_was_interrupted_goes_on_and_is_judged(tiny, tmp_path):
    one, out = claim("tiny.table1"), tmp_path / "out"
    (tiny / "stop").touch()
    with pytest.raises(KeyboardInterrupt):
        reproduce(one, out, range(1, 6))
    (tiny / "stop").unlink()
    before = len(calls(tiny))
    made = reproduce(one, out, range(1, 6))
    again = reproduce(one, out, range(1, 6))
    assert calls(tiny)[before:] == [f"{case} {seed}" for seed in (3, 4, 5) for case in ("good", "bad")]
    assert calls(tiny).count("prepared") == 1
    assert again.as_dict() == made.as_dict()
    cost, late = made.numbers[0], made.numbers[1]
    half = stats.t.ppf(0.975, 4) * np.std(range(1, 6), ddof=1) / np.sqrt(5)
    assert (cost.mean, cost.high - cost.mean) == pytest.approx((23.0, half))
    assert (cost.source, cost.verdict, cost.why) == (10.0, OPEN, "another currency")
    assert (late.source, late.verdict) == (0.5, HOLDS)
    assert made.statements[0].verdict == HOLDS  # 20 less under each seed
    assert made.verdict == HOLDS  # what the claim leaves unjudged does not count
    page = Path(write(made)["report"]).read_text()
    assert "good against bad, cost" in page
    assert "there are none" in page
    rows = list(csv.DictReader((out / "numbers.csv").read_text().splitlines()))
    assert [(row["row"], row["column"], row["source"], row["runs"]) for row in rows] == [
        ("good", "cost", "10.0", "5"), ("good", "late", "0.5", "5"), ("bad", "cost", "20.0", "5"),
        ("bad", "late", "", "5"),
    ]  # fmt: skip


def test_claims_with_one_function_share_what_it_made(tiny, tmp_path):
    (tiny / "claims.toml").write_text(TINY + TINY.replace("table1", "figure2"))
    first, second = (reproduce(claim(name), tmp_path / name, (1, 2)) for name in ("tiny.table1", "tiny.figure2"))
    assert len(calls(tiny)) == 1 + 2 * 2
    assert first.numbers == second.numbers
    assert all(Path(write(one)["report"]).is_file() for one in (first, second))


def test_claims_print_what_they_need_of_shared_answers(tiny, tmp_path):
    """One of the columns that begin alike, one of what a function makes of all rows."""
    part = TINY.replace("minutes =", 'part = "la"\nminutes =').replace('columns = ["cost"]', 'columns = ["te"]')
    whole = TINY.replace("minutes =", 'summary = "tiny_claims.made:ratio"\nminutes =')
    (tiny / "claims.toml").write_text(TINY + part.replace("table1", "figure2") + whole.replace("table1", "figure3"))
    (tiny / "made.py").write_text(
        MADE + "\n\ndef ratio(rows):\n    return {'bad': {'cost': rows['bad']['cost'] / rows['good']['cost']}}\n"
    )
    first, second, third = (
        reproduce(claim(f"tiny.{name}"), tmp_path / name, (1, 2)) for name in ("table1", "figure2", "figure3")
    )
    assert len(calls(tiny)) == 1 + 2 * 2
    late = {one.row: one.mean for one in first.numbers if one.column == "late"}
    assert {one.row: one.mean for one in second.numbers if one.runs} == late
    assert [(one.row, one.column, one.mean) for one in third.numbers if one.runs] == [
        ("bad", "cost", pytest.approx((41.0 / 21.0 + 42.0 / 22.0) / 2.0))
    ]


def test_a_change_of_the_code_makes_all_anew(tiny, tmp_path):
    for text in (MADE, MADE + "\nlater = 1\n"):
        (tiny / "made.py").write_text(text)
        reproduce(claim("tiny.table1"), tmp_path / "out", (1, 2), quick=True)
    assert len(calls(tiny)) == 2 * (1 + 2 * 2)


def numbers_of(one: Claim, values: list[float], row: str = "good", column: str = "late") -> str:
    found, _ = judge(one, [{row: {column: value}} for value in values])
    return next(number.verdict for number in found if (number.row, number.column) == (row, column))


def test_a_number_holds_where_its_whole_interval_is_close_enough(tiny):
    one = claim("tiny.table1")
    assert bounds(20.0, "10 %") == pytest.approx((18.0, 22.0))
    assert bounds(0.5, 0.1) == pytest.approx((0.4, 0.6))
    assert numbers_of(one, [0.55, 0.551, 0.552, 0.55, 0.55]) == HOLDS
    assert numbers_of(one, [0.75, 0.751, 0.752, 0.75, 0.75]) == FAILS
    assert numbers_of(one, [0.1, 0.9, 0.5, 0.4, 0.6]) == OPEN  # wide around the source's number
    assert numbers_of(one, [0.55, 0.551, 0.552, 0.55]) == OPEN  # four seeds


def test_statements_seldom_hold_where_rows_are_alike(tiny):
    """Of rows without any difference, each of five is found lower with 2.5 % for all pairs at most (Bonferroni)."""
    (tiny / "claims.toml").write_text(TINY.replace("bad | 20 | -", "\n".join(f"bad{k} | 20 | -" for k in range(5))))
    one, rng, held = claim("tiny.table1"), np.random.default_rng(5), {HOLDS: 0, FAILS: 0, OPEN: 0}
    rows = ["good", *(f"bad{k}" for k in range(5))]
    for _ in range(300):
        found = [{row: {"cost": float(rng.normal())} for row in rows} for _ in range(5)]
        held[judge(one, found)[1][0].verdict] += 1
    assert held[HOLDS] == 0
    assert held[FAILS] <= stats.binom.ppf(0.999, 300, 0.05)
    shifted = [{row: {"cost": float(rng.normal()) + 30.0 * (row != "good")} for row in rows} for _ in range(5)]
    assert judge(one, shifted)[1][0].verdict == HOLDS
    assert judge(one, [{**one_of, "bad3": {}} for one_of in shifted])[1][0].why == "not made here: bad3"
    without = [{row: {} for row in one_of} for one_of in shifted]
    dear = [{row: {"other": 1.0} for row in one_of} for one_of in without]
    assert judge(one, dear)[1][0].why == "not made here: cost"


def test_the_interval_of_what_is_never_below_0_is_not_either(tiny):
    one = claim("tiny.table1")
    spread, both = (
        next(
            number for number in judge(one, [{"good": {"cost": value}} for value in values])[0] if number.row == "good"
        )
        for values in ([0.07, 0.11, 0.84, 0.08, 0.26], [-0.07, 0.11, 0.84, 0.08, 0.26])
    )
    assert spread.low == 0.0 < spread.high
    assert both.low < 0.0


def test_the_command_lists_and_makes_claims(tiny, tmp_path):
    runner = CliRunner()
    listed = json.loads(runner.invoke(app, ["reproduce", "--json"]).output)["claims"]
    assert [(one["id"], one["source"], one["minutes"]) for one in listed] == [("tiny.table1", "Tiny", 1)]
    words = ["reproduce", "tiny.table1", "--quick", "--jobs", "1", "--out", str(tmp_path / "out"), "--json"]
    (one,) = json.loads(runner.invoke(app, [*words, "--set", "load=3", "--first-seed", "7"]).output)["claims"]
    assert (one["settings"], one["seeds"]) == ({"load": 3.0, "word": "long"}, [7, 8, 9, 10, 11])
    assert Path(one["files"]["report"]).is_file()


@pytest.mark.parametrize(("words", "message"), [
    (["tiny.tabel1"], "there is no claim 'tiny.tabel1'; did you mean 'tiny.table1'?"),
    (["tiny.table1", "--all"], "either 'tiny.table1' or --all"),
    (["tiny.table1", "--set", "laod=3"], "has no such setting; did you mean 'load'?"),
    (["tiny.table1", "--set", "load=much"], "'much' is no float"),
    (["tiny.table1", "--set", "load"], "write KEY=VALUE"),
    (["tiny.table1", "--set", "word=wrong", "--jobs", "1"], "made:row answers '5', expected {row: {column: number}}"),
])  # fmt: skip
def test_bad_words_are_refused(tiny, tmp_path, words, message):
    found = CliRunner().invoke(app, ["reproduce", *words, "--out", str(tmp_path / "out")])
    assert found.exit_code > 0
    assert message in found.output


def test_a_claim_whose_package_is_missing_is_not_judged(tiny, tmp_path):
    (tiny / "claims.toml").write_text(TINY.replace("minutes =", 'packages = ["no_such_package"]\nminutes ='))
    with pytest.raises(SetupError, match="no_such_package not installed: "):
        reproduce(claim("tiny.table1"), tmp_path, range(1, 6))
    words = ["reproduce", "--all", "--out", str(tmp_path / "out"), "--json"]
    (one,) = json.loads(CliRunner().invoke(app, words).output)["claims"]
    assert (one["verdict"], "no_such_package" in one["why"]) == (OPEN, True)


def test_a_broken_file_is_named(tiny):
    (tiny / "claims.toml").write_text("[table1]\nsource = 1")
    with pytest.raises(SetupError, match=r"claims of 'tiny', \[table1\] in .*claims.toml: KeyError\('minutes'\)"):
        claims()


def test_the_page_leads_from_each_paper_to_its_commands():
    guide = (Path(__file__).parents[3] / "docs/coming-from.md").read_text("utf-8")
    assert [one for one in claims() if f"`cosim reproduce {one}`" not in guide] == []
    assert [
        one.paper for one in claims().values() if one.paper.partition(" (")[0].partition(", chapter")[0] not in guide
    ] == []


SYSTEMS = (
    "AeroLoop", "CloudSim", "ExtCloudSim", "COSCO", "EdgeCloudSim", "iFogSim", "SimTune", "MetaNet", "CoRaiS",
    "MAIL-MMSG", "srsRAN", "Open5GS", "OCS", "MLSysOps",
)  # fmt: skip


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_reader_finds_a_system_and_its_command_with_one_click(system):
    root = Path(__file__).parents[3]
    readme = (root / "README.md").read_text("utf-8")
    line = next(
        line for line in readme.splitlines() if "](docs/coming-from.md)" in line and line.startswith("| [How to]")
    )
    assert system in line
    guide = (root / "docs/coming-from.md").read_text("utf-8").partition("\n## ")[0]
    rows = [row.split("|") for row in guide.splitlines() if row.startswith("|")]
    assert any(re.search(rf"\b{system}\b", row[1]) and "`cosim " in row[3] for row in rows)


@pytest.mark.parametrize("name", claims())
def test_every_shipped_claim_can_be_judged(name):
    """Its statements compare rows and columns that are there, tolerances belong to columns, and functions exist."""
    one = claim(name)
    assert one.cases
    assert set(one.within) | set(one.unjudged) <= set(one.columns)
    for statement in one.statements:
        assert set(statement.columns) <= set(one.columns) or not one.numbers
    for function in filter(None, (one.function, one.prepare)):
        if not one.missing() and find_spec(function.partition(":")[0]):
            assert callable(attribute_of(*function.split(":")))
