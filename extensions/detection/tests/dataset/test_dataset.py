"""Data sets: windows against plain loops, splits that hold, equal bytes with any workers, and the leakage test."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import cosim
from cosim.cli.main import app
from cosim.contract.errors import CosimError, SetupError
from cosim.extensions.detection.dataset import Recipe, build, preset
from cosim.extensions.detection.dataset.leakage import auc, check, read
from cosim.extensions.detection.dataset.recipe import assign
from cosim.extensions.detection.dataset.windows import features, names

RULE = "jamming.loss >= 3"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Six short runs: a jammer of two powers, three seeds."""
    made = cosim.Scenario("small")
    made.set("run", duration="12 s", step="1 s", seed=1)
    made.adapter("radio", log=True, fading="rayleigh")
    made.kind("jammer", tier="device")
    made.node("mast", kind="base-station", at=["0 m", "0 m"])
    made.node("phone-[1..3]", kind="device", at=["80 m", "0 m"])
    made.node("jam", kind="jammer", at=["120 m", "0 m"], jammer={"power": "20 dBm", "active": False})
    made.event("6 s", "jammer-on", node="jam")
    made.data["sweep"] = {"nodes.jam.jammer.power": ["10 dBm", "25 dBm"]}
    folder = tmp_path_factory.mktemp("runs")
    found = cosim.sweep(made, seeds="1..3", out=folder, workers=1)
    return next(p for p in next(iter(found.paths.values())).parents if (p / "sweep.json").is_file())


def test_features_are_those_of_a_plain_loop():
    rng = np.random.default_rng(1)
    node = np.sort(rng.integers(0, 4, 200))
    time = np.concatenate([np.sort(rng.uniform(0.0, 60.0, (node == k).sum())) for k in range(4)])
    values = np.where(rng.random(200) < 0.1, np.nan, 1e6 + rng.normal(size=200))
    found = features(node, time, {"a": values, "b": np.arange(200.0)}, 5.0)
    assert names(["a"]) == ("a", "a_mean", "a_dev", "a_diff", "rows")
    for k in range(200):
        inside = (node == node[k]) & (time > time[k] - 5.0) & (time <= time[k])
        known = values[inside & ~np.isnan(values)]
        if len(known):
            assert found[k, 1] == pytest.approx(known.mean())
            assert found[k, 2] == pytest.approx(known.std(), abs=1e-6)
        else:
            assert np.isnan(found[k, 1])
        before = k - 1 if k and node[k - 1] == node[k] else k
        assert found[k, 3] == pytest.approx(values[k] - values[before], nan_ok=True)
        assert found[k, -1] == inside.sum()


def test_a_window_has_the_same_bits_whatever_stands_before_it():
    rng = np.random.default_rng(2)
    values = np.concatenate([1e9 * rng.random(50), np.full(20, 0.1), rng.random(30)])
    time, node = np.arange(100.0), np.zeros(100, np.int64)
    whole = features(node, time, {"a": values}, 5.0)
    part = features(node[40:], time[40:], {"a": values[40:]}, 5.0)
    assert (whole[45:] == part[5:]).all()
    assert (whole[54:70, 1] == 0.1).all()
    assert (whole[54:70, 2] == 0.0).all()


def test_no_group_is_in_two_splits_and_the_order_of_names_does_not_matter():
    groups = [f"g{k}" for k in range(50)]
    found = assign(groups, (0.6, 0.2, 0.2), 1)
    assert found == assign(groups[::-1], (0.6, 0.2, 0.2), 1)
    assert found != assign(groups, (0.6, 0.2, 0.2), 2)
    assert [list(found.values()).count(split) for split in ("train", "valid", "test")] == [30, 10, 10]
    assert set(assign(["a", "b", "c"], (0.8, 0.1, 0.1), 1).values()) == {"train", "valid", "test"}


@pytest.mark.slow
def test_rows_say_what_the_run_recorded(runs, tmp_path):
    made = build([runs], Recipe(("ue", "gnb"), RULE, keep=("jamming.loss",)), tmp_path / "set")
    assert sum(made.rows.values()) == 6 * 3 * 13
    assert sum(made.positive.values()) > 20
    rows = read(made.folder, "train")
    assert "ue_rnti" not in rows.column_names
    assert rows["label"].to_pylist() == [loss >= np.float32(3.0) for loss in rows["truth_jamming_loss"].to_pylist()]
    before = np.asarray(rows["time"]) < 6.0
    assert not np.asarray(rows["label"])[before].any()


@pytest.mark.slow
def test_bytes_do_not_depend_on_workers(runs, tmp_path):
    recipe = Recipe(("ue",), RULE)
    for workers in (1, 2):
        build([runs], recipe, tmp_path / str(workers), workers=workers)
    one, two = (
        {
            file.relative_to(tmp_path / name): file.read_bytes()
            for file in (tmp_path / name).rglob("*")
            if file.is_file()
        }
        for name in ("1", "2")
    )
    assert one == two


def test_a_build_that_was_cut_off_goes_on(runs, tmp_path):
    recipe = Recipe(("ue",), RULE)
    made = build([runs], recipe, tmp_path / "set")
    files = sorted(made.folder.rglob("*.parquet"))
    kept, stamp = files[0], files[0].stat().st_mtime_ns
    before = files[1].read_bytes()
    files[1].unlink()
    build([runs], recipe, tmp_path / "set")
    assert kept.stat().st_mtime_ns == stamp
    assert files[1].read_bytes() == before
    with pytest.raises(SetupError, match="another recipe"):
        build([runs], Recipe(("ue",), "jamming.loss >= 6"), tmp_path / "set")


def test_a_split_by_a_swept_key_keeps_each_of_its_values_together(runs, tmp_path):
    made = build([runs], Recipe(("ue",), RULE, by="nodes.jam.jammer.power", shares=(0.5, 0.0, 0.5)), tmp_path / "set")
    assert made.scenes == {"train": 3, "valid": 0, "test": 3}
    with pytest.raises(SetupError, match="was not swept"):
        build([runs], Recipe(("ue",), RULE, by="nodes.jam.jammer.gain"), tmp_path / "other")


def test_the_card_is_croissant(runs, tmp_path):
    folder = build([runs], Recipe(("ue",), RULE, keep=("jamming.loss",)), tmp_path / "set").folder
    card = json.loads((folder / "croissant.json").read_text())
    assert card["conformsTo"] == "http://mlcommons.org/croissant/1.0"
    assert card["@type"] == "sc:Dataset"
    assert card["creator"]["@type"] == "sc:Organization"  # or a person, nothing else
    assert {one["encodingFormat"] for one in card["distribution"]} == {"application/x-parquet"}
    assert {"name", "description", "license", "version", "citeAs"} <= card.keys()
    assert "datePublished" not in card  # bytes say nothing of when, unless asked to
    fields = {field["name"]: field for field in card["recordSet"][0]["field"]}
    assert set(fields) == set(pq.read_schema(next(folder.rglob("*.parquet"))).names)
    assert fields["ue_rsrp_mean"]["description"].endswith("(dBm)")
    assert "truth" in fields["truth_jamming_loss"]["description"]
    assert fields["label"]["description"] == RULE


@pytest.mark.parametrize(
    ("keys", "reported"),
    [
        ({"signals": ("jamming",), "label": RULE}, "read the answer"),
        ({"signals": ("ue",), "label": RULE, "keep": ("ue.sinr",)}, "read the answer"),
        ({"signals": ("ue",), "label": "loss > 3"}, "'loss' is not SIGNAL.COLUMN, at character 1"),
        ({"signals": ("ue",), "label": "jamming.loss >"}, "cannot be read"),
        ({"signals": ("ue",), "label": "node_event.event >= 'fail'"}, "compare with == or !="),
        ({"signals": ("ue",), "label": "1 < 2"}, "looks at no column"),
        ({"signals": ("ue",), "label": "jamming.loss > 3 and time > 1"}, "'time' is not SIGNAL.COLUMN"),
        ({"signals": ("ue",), "label": "ue.sinr <= 0", "columns": ("ue.sinr",)}, "read the answer"),
        ({"signals": ("ue", "ue@cell"), "label": RULE}, "names a signal twice"),
        ({"signals": ("ue@cell",), "label": RULE}, "gives the rows"),
        ({"signals": ("ue",), "label": RULE, "columns": ("gnb.sinr",)}, "not among --signals"),
        ({"signals": ("ue",), "label": "jamming.loss - jamming.jn_up == high"}, "'high' is not SIGNAL.COLUMN"),
        ({"signals": (), "label": "on == 1", "blocks": 0}, "0 blocks"),
        ({"signals": (), "label": RULE}, "is not COLUMN"),
        ({"signals": ("ue",), "label": RULE, "shares": (1.5, -0.5, 0.0)}, "0 or more"),
        ({"signals": ("ue",), "label": RULE, "node": "p"}, "--node belongs to tables"),
        ({"signals": ("ue",), "label": RULE, "blocks": 3}, "--blocks belongs to tables"),
        ({"signals": ("ue", "jammer@*"), "label": RULE}, "'jammer' is the truth"),
        ({"signals": ("ue", "impairment"), "label": RULE}, "'impairment' is the truth"),
        ({"signals": ("ue", "jamming"), "label": RULE, "columns": ("jamming.js_down",)}, "'jamming' is the truth"),
        ({"signals": ("ue",), "label": RULE, "shares": (0.5, 0.1, 0.1)}, "add up"),
    ],
)
def test_recipes_that_cannot_be_are_refused(keys, reported):
    with pytest.raises(SetupError, match=reported):
        Recipe(**keys)


def test_a_signal_that_a_run_does_not_have_is_named(runs, tmp_path):
    with pytest.raises(SetupError, match=r"no signal 'host'; it has cell, gnb, impairment, jammer"):
        build([runs], Recipe(("host",), RULE), tmp_path / "set")


def test_a_dropped_column_that_there_is_not_is_told(runs, tmp_path):
    """It is the wrong one that would stay a feature; other logs need not have what is dropped by default."""
    with pytest.raises(SetupError, match=r"--drop: there is no column 'mcss'; did you mean 'mcs'"):
        build([runs], Recipe(("ue",), RULE, drop=("rnti", "mcss")), tmp_path / "set")
    build([runs], Recipe(("link",), RULE), tmp_path / "set")


def test_a_feature_that_is_the_label_and_repeated_rows_are_found(tmp_path):
    rng = np.random.default_rng(1)
    for split, scene in (("train", "a"), ("test", "b"), ("valid", "a")):
        (tmp_path / split).mkdir()
        label = rng.random(100) < 0.5
        noise = np.zeros(100, np.float32)
        rows = {"scene": [scene] * 100, "node": ["n"] * 100, "time": np.arange(100.0), "label": label}
        reported = 2.0 * label.astype(np.float32)
        pq.write_table(pa.table({**rows, "noise": noise, "told": reported}), tmp_path / split / f"{scene}.parquet")
    leak = check(tmp_path, Recipe(("ue",), RULE))
    assert leak.found
    assert leak.groups_in_two_splits == ("a",)
    assert list(leak.telling) == ["told"]
    assert leak.repeated == 1.0


def test_the_area_under_the_curve_is_that_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(2)
    score, label = np.round(rng.normal(size=500), 1), rng.random(500) < 0.3
    assert auc(score, label) == pytest.approx(metrics.roc_auc_score(label, score))


def test_a_misspelt_column_leaves_the_folder_free_for_the_right_one(runs, tmp_path):
    with pytest.raises(SetupError, match="has no column 'los'"):
        build([runs], Recipe(("ue",), "jamming.los >= 3"), tmp_path / "set")
    assert build([runs], Recipe(("ue",), RULE), tmp_path / "set").rows["train"] > 0


@pytest.mark.parametrize(
    ("option", "value", "reported"),
    [
        ("--window", "5", "--window: '5' has no unit"),
        ("--every", "often", "--every: 'often' is not a time"),
        ("--shares", "nan,0.5,0.5", "add up to nan"),
        ("--label", "jamming.loss >= nan", "'nan' is not SIGNAL.COLUMN"),
    ],
)
def test_options_that_cannot_be_read_are_named(option, value, reported, tmp_path):
    words = ["dataset", ".", "--signals", "ue", "--label", RULE, "--out", str(tmp_path / "set"), option, value]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 2
    assert reported in found.stderr
    assert not (tmp_path / "set").exists()


def test_no_word_differs_from_a_word_that_is_not_there():
    state = {("cell", "state"): np.array(["busy", "idle", ""])}
    for text in ("cell.state != 'idle'", "cell.state != idle", "not cell.state == idle", "idle != cell.state"):
        assert Recipe(("ue",), text).rule.rows(state).tolist() == [True, False, False]


def test_a_rule_is_a_condition_over_rows():
    columns = {("a", "x"): np.array([1.0, 2.0, np.nan]), ("link", "delay"): np.array([0.01, 0.03, 0.05])}
    for text, expected in (
        ("a.x >= 2 or link.delay > 20 ms", [False, True, False]),
        ("abs(a.x - 3) < 2 and not link.delay > 40 ms", [False, True, False]),
        ("1 < max(a.x, 1.5) <= 2", [True, True, False]),
        ("true and a.x != 2 and link.delay > 0 s", [True, False, False]),
    ):
        rule = Recipe(("ue",), text).rule
        assert rule.rows({parts: columns[parts] for parts in rule.values}).tolist() == expected
    with pytest.raises(TypeError, match=r"'a\.x' is compared with words"):
        Recipe(("ue",), "a.x == idle").rule.rows(columns)


def test_the_first_cause_that_holds_is_the_cause_of_a_row(runs, tmp_path):
    causes = ("jam: jamming.loss >= 6", "fade: impairment.snr_down <= 35", "overload: impairment.load >= 0.9")
    keep = ("jamming.loss", "impairment.snr_down")
    folder = build([runs], Recipe(("ue",), RULE, causes=causes, keep=keep), tmp_path / "set").folder
    rows = read(folder, "train")
    snr, loss = (rows[name].to_numpy() for name in ("truth_impairment_snr_down", "truth_jamming_loss"))
    expected = np.where(loss >= 6.0, "jam", np.where(snr <= 35.0, "fade", "none"))
    assert rows["truth_cause"].to_pylist() == expected.tolist()
    assert len(set(expected)) == 3
    card = json.loads((folder / "croissant.json").read_text())
    reported = {field["name"]: field["description"] for field in card["recordSet"][0]["field"]}
    assert "jam: jamming.loss >= 6" in reported["truth_cause"]


@pytest.mark.parametrize("cause", ["jamming.loss >= 3", "storm: jamming.loss >= 3"])
def test_causes_without_a_known_name_are_refused(cause):
    with pytest.raises(SetupError, match="is not NAME: RULE with a name of jam, fade"):
        Recipe(("ue",), RULE, causes=(cause,))


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """A run folder of tasks on two hosts whose load is known."""
    folder = tmp_path_factory.mktemp("tasks") / "run"
    (folder / "frames" / "host").mkdir(parents=True)
    (folder / "frames" / "job").mkdir()
    (folder / "frames" / "cluster").mkdir()
    head = {"format": 1, "status": "complete", "plan_hash": "ab" * 16, "scenario": "made", "seed": 1}
    (folder / "manifest.json").write_text(json.dumps(head))
    created = [0.5, 3.0, 7.5, 9.5]
    rows = {
        "task": [0, 1, 2, 3], "time": [4.0, 5.0, 9.0, 11.0],
        "node": ["a", "a", "b", "b"], "host": ["h1", "h2", "h1", None],
        "status": ["completed", "completed", "completed", "capacity"], "created": created,
        "late": [False, True, False, False], "input": [1.0, 2.0, 3.0, 4.0], "output": [1.0] * 4, "work": [1.0] * 4,
        "deadline": [2.0] * 4,
    }  # fmt: skip
    pq.write_table(pa.table(rows), folder / "tasks.parquet")
    time = np.repeat(np.arange(10.0), 2)
    load = {"time": time, "node": ["h1", "h2"] * 10, "utilisation": time / 10.0 + np.tile([0.0, 0.05], 10)}
    load |= {"running": np.ones(20), "up": np.ones(20, bool)}
    pq.write_table(pa.table(load), folder / "frames" / "host" / "x.parquet")
    jobs = {
        "job": [0, 1],
        "time": [9.0, 9.0],
        "node": ["l1", "l2"],
        "arrival": [2.5, 6.0],
        "started": [2.5, 100.0],
        "gpus": [1.0, 8.0],
    }
    pq.write_table(pa.table(jobs), folder / "frames" / "job" / "x.parquet")
    names = ("busy", "down", "waiting", "running", "circuits")
    state = {"time": [9.0, 9.0], "node": ["l1", "l1"], "at": [2.0, 5.0], **{name: [1.0, 7.0] for name in names}}
    pq.write_table(pa.table(state), folder / "frames" / "cluster" / "x.parquet")
    return folder


def test_a_task_has_the_state_of_its_host_at_its_creation(tasks, tmp_path):
    made = build([tasks], replace(preset("offloading", [tasks]), shares=(1.0, 0.0, 0.0)), tmp_path / "set")
    rows = read(made.folder, "train")
    assert rows["time"].to_pylist() == [0.5, 3.0, 7.5, 9.5]
    assert rows["label"].to_pylist() == [True, False, True, False]
    assert rows["host_utilisation"].to_pylist()[:3] == pytest.approx([0.0, 0.35, 0.7])
    assert np.isnan(rows["host_utilisation"].to_pylist()[3])
    assert not any(name.startswith(("task_late", "task_ended", "task_started")) for name in rows.column_names)


def test_a_job_has_the_state_of_the_cluster_at_its_arrival(tasks, tmp_path):
    made = build([tasks], replace(preset("jobs", [tasks]), shares=(1.0, 0.0, 0.0)), tmp_path / "set")
    rows = read(made.folder, "train")
    assert rows["cluster_busy"].to_pylist() == [1.0, 7.0]
    assert rows["label"].to_pylist() == [False, True]


def test_a_choice_has_a_row_for_each_candidate_with_its_state_at_the_choice(tasks, tmp_path):
    made = build([tasks], replace(preset("placement", [tasks]), shares=(1.0, 0.0, 0.0)), tmp_path / "set")
    rows = read(made.folder, "train").sort_by([("time", "ascending"), ("node", "ascending")])
    assert rows["time"].to_pylist() == [0.5, 0.5, 3.0, 3.0, 7.5, 7.5]  # the last task got to no host
    assert rows["node"].to_pylist() == ["a h1", "a h2", "a h1", "a h2", "b h1", "b h2"]
    assert rows["label"].to_pylist() == [True, False, False, True, True, False]
    assert rows["host_utilisation"].to_pylist() == pytest.approx([0.0, 0.05, 0.3, 0.35, 0.7, 0.75])
    assert rows["rows"].to_pylist() == [1.0] * 6  # a window holds no other candidate
    jobs = build([tasks], replace(preset("job-placement", [tasks]), shares=(1.0, 0.0, 0.0)), tmp_path / "jobs")
    assert jobs.rows["train"] == 4
    assert jobs.positive["train"] == 0  # hosts h1 and h2, jobs on l1 and l2


@pytest.mark.parametrize("signals", [("task",), ("task", "host@candidate")])
def test_a_choice_needs_candidates_and_candidates_a_choice(signals):
    with pytest.raises(SetupError, match="--choice goes with"):
        Recipe(signals, "task.chosen == true", choice="host" if len(signals) == 1 else "", columns=("task.input",))


def test_a_label_may_be_that_of_a_later_moment(tasks, tmp_path):
    recipe = Recipe(("host",), "host.utilisation >= 0.62", ahead=3.0, shares=(1.0, 0.0, 0.0))
    rows = read(build([tasks], recipe, tmp_path / "set").folder, "train")
    later = np.asarray(rows["host_utilisation"]) + 0.3
    assert len(rows) == 14  # the last three moments have no later one
    assert rows["label"].to_pylist() == (later >= 0.62).tolist()


def test_presets_are_named(tasks):
    assert preset("machines", [tasks]).signals == ("host",)
    with pytest.raises(SetupError, match="did you mean 'jamming'"):
        preset("jaming", [tasks])


CSV = """time_ms;who;SINR [dB];nack;rank;on;run
0;a;10.5;5%;13/0;0;1
1000;a;n/a;0.5%;12/1;0;1
2000;a;9.5;7%;11/0;1;1
0;b;1.5;50%;3/0;1;2
3000;b;2.5;40%;4/0;1;2
"""


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
def test_a_table_of_somebody_else_is_a_source(ending, tmp_path):
    file = tmp_path / f"log{ending}"
    if ending == ".parquet":
        (tmp_path / "plain.csv").write_text(CSV)
        pq.write_table(
            arrow_csv.read_csv(tmp_path / "plain.csv", parse_options=arrow_csv.ParseOptions(delimiter=";")), file
        )
    else:
        file.write_bytes(gzip.compress(CSV.encode()) if ending.endswith("gz") else CSV.encode())
    recipe = Recipe((), "on == 1", node="who", at="time_ms", by="run", shares=(0.5, 0.0, 0.5), keep=("rank",))
    made = build([file], recipe, tmp_path / "set")
    rows = {row["time"]: row for split in ("train", "test") for row in read(made.folder, split).to_pylist()}
    assert made.scenes == {"train": 1, "valid": 0, "test": 1}
    assert sorted(rows) == [0.0, 1.0, 2.0, 3.0]
    assert rows[2.0]["SINR_dB"] == 9.5
    assert rows[2.0]["SINR_dB_mean"] == 10.0  # n/a counts in no mean
    assert rows[1.0]["nack_mean"] == pytest.approx(2.75)
    assert rows[3.0]["truth_rank"] == 4.0
    assert rows[3.0]["label"]
    assert {"on", "run", "time_ms", "rank"}.isdisjoint(rows[2.0])
    card = json.loads((made.folder / "croissant.json").read_text())
    assert card["name"] == "log"


def test_blocks_of_a_table_share_no_window(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("value,on\n" + "".join(f"{k},{k % 2}\n" for k in range(100)))
    made = build([file], Recipe((), "on == 1", blocks=10, shares=(0.6, 0.2, 0.2)), tmp_path / "set")
    assert made.scenes == {"train": 6, "valid": 2, "test": 2}
    rows = [row for split in ("train", "valid", "test") for row in read(made.folder, split).to_pylist()]
    firsts = [row for row in rows if row["value"] % 10 == 0]
    assert len(firsts) == 10
    assert all(row["rows"] == 1.0 and row["value_mean"] == row["value"] for row in firsts)


@pytest.mark.parametrize(
    ("text", "keys", "reported"),
    [
        ("a,on\n1,1\n", {"node": "who"}, "--node: .* has no column 'who'; it has a, on"),
        ("a,on\n1,1\n", {"label": "off == 1"}, "the table has no column 'off'; it has"),
        ("a,on\n1,1\n", {"columns": ("b",)}, "has no column 'b'"),
        ("on,word\n1,x\n", {}, "no column of numbers"),
        ("", {}, "cannot be read: it is empty"),
        ("a,on\n", {}, "has no rows"),
        ("a,a,on\n1,2,1\n", {}, "two columns are called 'a'"),
        ("a,label,on\n1,2,1\n", {}, "cannot be called 'label'"),
        ("a,when,on\n1,soon,1\n", {"at": "when"}, "'when' holds no times: 'soon'"),
        ("a,on\n1,1\n", {"signals": ("ue",), "label": RULE}, "leave out --signals"),
    ],
)
def test_tables_that_cannot_be_used_are_refused_by_name(text, keys, reported, tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(text)
    with pytest.raises(CosimError, match=reported):
        build([file], Recipe(**{"signals": (), "label": "on == 1", **keys}), tmp_path / "set")


def test_a_header_with_a_space_is_no_line_of_an_export(tmp_path):
    (tmp_path / "log.csv").write_text("SINR [dB],on\n" + "1.5,1\n2.5,0\n" * 4)
    made = build([tmp_path / "log.csv"], Recipe((), "on == 1", shares=(1.0, 0.0, 0.0)), tmp_path / "set")
    assert made.rows["train"] == 8


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("at;level;on\n0,5;1,5;1\n1,0;-;0\n2,5;3,5;1\n", [0.5, 1.0, 2.5]),  # commas as marks of decimals
        ("at,level,on\n1900000000500,1.5,1\n1900000001000,n/a,0\n1900000002500,3.5,1\n", [0.0, 0.5, 2.0]),
        (
            "at,level,on\n2030-01-01T00:00:00Z,1.5,1\n2030-01-01T00:00:00.5Z,,0\n2030-01-01T00:00:02Z,3.5,1\n",
            [0, 0.5, 2],
        ),
    ],
)
def test_numbers_and_times_may_have_any_usual_form(text, seconds, tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(text, encoding="utf-8-sig")
    made = build([file], Recipe((), "on == 1", at="at", shares=(1.0, 0.0, 0.0)), tmp_path / "set")
    rows = sorted(read(made.folder, "train").to_pylist(), key=lambda row: row["time"])
    assert [row["time"] for row in rows] == seconds
    assert [row["label"] for row in rows] == [True, False, True]
    assert rows[0]["level"] == 1.5
    assert np.isnan(rows[1]["level"])


def test_runs_need_signals(runs, tmp_path):
    with pytest.raises(SetupError, match="at least one signal"):
        build([runs], Recipe((), "on == 1"), tmp_path / "set")
    with pytest.raises(SetupError, match="no executor 'slurm'"):
        build([runs], Recipe(("ue",), RULE), tmp_path / "set", executor="slurm")


def test_a_misspelt_preset_is_told_before_anything_is_run(tmp_path):
    found = CliRunner().invoke(app, ["dataset", "nowhere", "--preset", "jammin", "--out", str(tmp_path / "set")])
    assert found.exit_code == 2
    assert "did you mean 'jamming'" in found.stderr


def _labelled(count, row):
    """Rows whose label turns every 25, as lines."""
    return [row(k, k // 25 % 2, 10.0 - 6.0 * (k // 25 % 2) + k % 7) for k in range(count)]


def test_decimal_commas_are_numbers_where_columns_are_not_apart_by_commas(tmp_path):
    text = "\n".join(["SINR;big;on", *_labelled(200, lambda k, y, x: f"{x:.2f};1.{k:03d},5;{y}".replace(".", ",", 1))])
    (tmp_path / "log.csv").write_text(text)
    made = build([tmp_path / "log.csv"], Recipe((), "on == 1", blocks=8), tmp_path / "data")
    rows = read(made.folder, "train")
    assert {"SINR", "big"} <= set(rows.column_names)
    assert set(np.round(rows["SINR"].to_numpy(), 2)) <= {4.0 + k for k in range(13)}
    assert 1000.5 <= rows["big"].to_numpy().min() <= rows["big"].to_numpy().max() <= 1199.5
    quoted = tmp_path / "quoted.csv"
    quoted.write_text("\n".join(["a,b,on", *_labelled(200, lambda k, y, x: f'"1,{k:03d}",{x},{y}')]))
    made = build([quoted], Recipe((), "on == 1", blocks=8), tmp_path / "quoted")
    assert "a" not in read(made.folder, "train").column_names  # 1,000 may be a thousand: nothing is guessed


def test_columns_that_are_lost_or_only_count_are_told(tmp_path):
    lines = _labelled(200, lambda k, y, x: f"{k},{'lost' if k % 9 == 0 else x},{k},hall,{y}")
    (tmp_path / "log.csv").write_text("\n".join(["when,sinr,serial,place,on", *lines]))
    made = build([tmp_path / "log.csv"], Recipe((), "on == 1", at="when", blocks=8), tmp_path / "data")
    words, grows = made.remarks[:2]
    assert "'sinr' of" in words
    assert "177 numbers, and 'lost' and 22 more" in words
    assert "'serial' of" in grows
    assert "only grows: name it with --at" in grows


def test_splits_of_no_use_are_told(tmp_path):
    lines = _labelled(200, lambda k, y, x: f"{x},{int(k >= 100)}")
    (tmp_path / "log.csv").write_text("\n".join(["sinr,on", *lines]))
    made = build([tmp_path / "log.csv"], Recipe((), "on == 1"), tmp_path / "one")
    assert [text[:29] for text in made.remarks] == ["the split valid has no rows: ", "the split test has no rows: t"]
    made = build([tmp_path / "log.csv"], Recipe((), "on == 1", blocks=4), tmp_path / "few")
    assert any("has the label; cut the table with --blocks" in text for text in made.remarks)


@pytest.mark.parametrize(
    ("keys", "reported"),
    [
        ({"by": "sinr"}, "--by: the column 'sinr' of .* has 200 values in 200 rows, which would split by row"),
        ({"blocks": 150}, "--blocks: .* has 200 rows, which cannot be cut into 150 parts"),
    ],
)
def test_a_table_is_never_split_by_row(keys, reported, tmp_path):
    lines = [f"{k * 0.37},{k // 25 % 2}" for k in range(200)]
    (tmp_path / "log.csv").write_text("\n".join(["sinr,on", *lines]))
    with pytest.raises(SetupError, match=reported):
        build([tmp_path / "log.csv"], Recipe((), "on == 1", **keys), tmp_path / "data")


def test_a_feature_that_is_the_label_is_told_when_the_test_rows_have_one_class(tmp_path):
    lines = [f"{k % 7},{int(k >= 100)},{int(k >= 100)}" for k in range(200)]
    (tmp_path / "log.csv").write_text("\n".join(["sinr,attack,on", *lines]))
    for seed in range(1, 4):
        made = build([tmp_path / "log.csv"], Recipe((), "on == 1", blocks=4, seed=seed), tmp_path / f"data-{seed}")
        assert "attack" in made.leak.telling


def test_a_file_that_is_not_utf_8_is_told(tmp_path):
    (tmp_path / "log.csv").write_bytes("Störung;on\n1;1\n".encode("latin-1"))
    with pytest.raises(CosimError, match="is not text in UTF-8"):
        build([tmp_path / "log.csv"], Recipe((), "on == 1"), tmp_path / "data")


@pytest.fixture
def rare(tmp_path):
    """4,000 rows in blocks of time; one of 50 has the label."""
    rng = np.random.default_rng(3)
    jammed = rng.random(4000) < 0.02
    lines = [
        f"{10.0 - 5.0 * one + noise:.4f},{int(one)}" for one, noise in zip(jammed, rng.normal(size=4000), strict=True)
    ]
    (tmp_path / "log.csv").write_text("\n".join(["sinr,jammed", *lines]))
    return tmp_path / "log.csv"


def test_a_sample_keeps_what_is_rare_and_what_its_rows_stand_for(rare, tmp_path):
    recipe = Recipe((), "jammed == 1", blocks=10)
    whole = build([rare], recipe, tmp_path / "whole")
    some = build([rare], replace(recipe, sample=("100 %: jammed == 1", "5 %: jammed == 0")), tmp_path / "some")
    assert some.positive == whole.positive
    assert {s: some.rows[s] for s in ("valid", "test")} == {s: whole.rows[s] for s in ("valid", "test")}
    rows, every = read(some.folder, "train"), read(whole.folder, "train")
    weight, label = rows["weight"].to_numpy(), np.asarray(rows["label"])
    assert [set(weight[label]), set(weight[~label])] == [{1.0}, {20.0}]
    count = whole.rows["train"] - whole.positive["train"]
    assert abs(weight[~label].sum() - count) < 4.0 * np.sqrt(count * 19.0)  # four deviations of a binomial draw
    sinr, quiet = every["sinr"].to_numpy(), ~np.asarray(every["label"])
    mean = np.average(rows["sinr"].to_numpy()[~label], weights=weight[~label])
    assert abs(mean - sinr[quiet].mean()) < 4.0 * sinr[quiet].std() / np.sqrt((~label).sum())
    card = json.loads((some.folder / "croissant.json").read_text())
    named = {one["name"]: {field["name"] for field in one["field"]} for one in card["recordSet"]}
    assert ["weight" in named[f"{split}-rows"] for split in ("train", "valid", "test")] == [True, False, False]
    assert "weight" not in read(whole.folder, "train").column_names


@pytest.mark.parametrize("rule", ["jammed == 0", "0 %: jammed == 0", "120 %: jammed == 0", "five: jammed == 0"])
def test_samples_without_a_share_or_a_rule_are_refused(rule):
    with pytest.raises(SetupError, match=r"--sample|rule"):
        Recipe((), "jammed == 1", sample=(rule,))
