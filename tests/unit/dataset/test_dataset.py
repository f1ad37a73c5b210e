"""Data sets: windows against plain loops, splits that hold, equal bytes with any workers, and the leakage test."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import cosim
from cosim.cli.main import app
from cosim.contract.errors import SetupError
from cosim.dataset import Recipe, build
from cosim.dataset.leakage import auc, check, read
from cosim.dataset.recipe import assign
from cosim.dataset.windows import features, names

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


def test_rows_say_what_the_run_recorded(runs, tmp_path):
    made = build([runs], Recipe(("ue", "gnb"), RULE, keep=("jamming.loss",)), tmp_path / "set")
    assert sum(made.rows.values()) == 6 * 3 * 13
    assert sum(made.positive.values()) > 20
    rows = read(made.folder, "train")
    assert "ue_rnti" not in rows.column_names
    assert rows["label"].to_pylist() == [loss >= np.float32(3.0) for loss in rows["truth_jamming_loss"].to_pylist()]
    before = np.asarray(rows["time"]) < 6.0
    assert not np.asarray(rows["label"])[before].any()


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
    fields = {field["name"]: field for field in card["recordSet"][0]["field"]}
    assert set(fields) == set(pq.read_schema(next(folder.rglob("*.parquet"))).names)
    assert fields["ue_rsrp_mean"]["description"].endswith("(dBm)")
    assert "truth" in fields["truth_jamming_loss"]["description"]
    assert fields["label"]["description"] == RULE


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"signals": ("jamming",), "label": RULE}, "read the answer"),
        ({"signals": ("ue",), "label": RULE, "keep": ("ue.sinr",)}, "read the answer"),
        ({"signals": ("ue",), "label": "loss > 3"}, "cannot be read"),
        ({"signals": ("ue",), "label": "node_event.event >= fail"}, "only == and !="),
        ({"signals": (), "label": RULE}, "at least one signal"),
        ({"signals": ("ue",), "label": RULE, "shares": (0.5, 0.1, 0.1)}, "add up"),
    ],
)
def test_recipes_that_cannot_be_are_refused(keys, told):
    with pytest.raises(SetupError, match=told):
        Recipe(**keys)


def test_a_signal_that_a_run_does_not_have_is_named(runs, tmp_path):
    with pytest.raises(SetupError, match=r"no signal 'host'; it has cell, gnb, impairment, jammer"):
        build([runs], Recipe(("host",), RULE), tmp_path / "set")


def test_a_feature_that_is_the_label_and_repeated_rows_are_found(tmp_path):
    rng = np.random.default_rng(1)
    for split, scene in (("train", "a"), ("test", "b"), ("valid", "a")):
        (tmp_path / split).mkdir()
        label = rng.random(100) < 0.5
        noise = np.zeros(100, np.float32)
        rows = {"scene": [scene] * 100, "node": ["n"] * 100, "time": np.arange(100.0), "label": label}
        told = 2.0 * label.astype(np.float32)
        pq.write_table(pa.table({**rows, "noise": noise, "told": told}), tmp_path / split / f"{scene}.parquet")
    leak = check(tmp_path, Recipe(("ue",), RULE))
    assert leak.found
    assert leak.groups_in_two_splits == ("a",)
    assert list(leak.telling) == ["told"]
    assert leak.repeated == 1.0


def test_the_area_under_the_curve_is_that_of_scikit_learn():
    rng = np.random.default_rng(2)
    score, label = np.round(rng.normal(size=500), 1), rng.random(500) < 0.3
    assert auc(score, label) == pytest.approx(roc_auc_score(label, score))


def test_a_misspelt_column_leaves_the_folder_free_for_the_right_one(runs, tmp_path):
    with pytest.raises(SetupError, match="has no column 'los'"):
        build([runs], Recipe(("ue",), "jamming.los >= 3"), tmp_path / "set")
    assert build([runs], Recipe(("ue",), RULE), tmp_path / "set").rows["train"] > 0


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--window", "5", "--window: '5' has no unit"),
        ("--every", "often", "--every: 'often' is not a time"),
        ("--shares", "nan,0.5,0.5", "add up to nan"),
        ("--label", "jamming.loss >= nan", "compares with no number"),
    ],
)
def test_options_that_cannot_be_read_are_named(option, value, told, tmp_path):
    words = ["dataset", ".", "--signals", "ue", "--label", RULE, "--out", str(tmp_path / "set"), option, value]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 2
    assert told in found.stderr
    assert not (tmp_path / "set").exists()


def test_no_word_differs_from_a_word_that_is_not_there():
    (term,) = Recipe(("ue",), "cell.state != 'idle'").terms
    assert term.holds(np.array(["busy", "idle", ""])).tolist() == [True, False, False]


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
    told = {field["name"]: field["description"] for field in card["recordSet"][0]["field"]}
    assert "jam: jamming.loss >= 6" in told["truth_cause"]


@pytest.mark.parametrize("cause", ["jamming.loss >= 3", "storm: jamming.loss >= 3"])
def test_causes_without_a_known_name_are_refused(cause):
    with pytest.raises(SetupError, match="is not NAME: RULE with a name of jam, fade"):
        Recipe(("ue",), RULE, causes=(cause,))
