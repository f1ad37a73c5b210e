"""Detectors: saved scores are scikit-learn's, limits hold on other rows, delays and attacks by hand."""

from __future__ import annotations

import json
import math
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cosim.contract.errors import SetupError
from cosim.extensions.detection.dataset import Recipe, build
from cosim.extensions.detection.detect import METHODS, Detector, judge, quieted, train
from cosim.extensions.detection.detect.judge import figures
from cosim.extensions.detection.detect.network import ask, forward, lagged, lagged_names, learn
from cosim.extensions.detection.detect.train import calibrated, clusters_of, fit, levels_of, ratios_of, with_causes

ensemble = pytest.importorskip("sklearn.ensemble")
linear_model = pytest.importorskip("sklearn.linear_model")

NAMES = ["ue_sinr", "ue_sinr_mean", "ue_pdr", "ue_pdr_mean", "ue_rssi"]


@pytest.fixture(scope="module")
def rows():
    """Two classes that overlap, 2000 rows, some values missing."""
    rng = np.random.default_rng(1)
    label = rng.random(2000) < 0.3
    x = rng.normal(size=(2000, 5)) - 1.5 * label[:, None] * np.array([1.0, 1.0, 0.5, 0.5, -1.0])
    x[rng.random(x.shape) < 0.02] = np.nan
    return x, label


def peer(method, x, y, weight=None):
    """The same model by scikit-learn alone; its chances (n,)."""
    if method == "forest":
        model = ensemble.RandomForestClassifier(
            100, min_samples_leaf=5, max_samples=1.0, class_weight="balanced", random_state=1, n_jobs=1
        )
        return model.fit(x.astype(np.float32), y, weight).predict_proba(x.astype(np.float32))[:, 1]
    if method == "boosting":
        model = ensemble.HistGradientBoostingClassifier(
            max_iter=200,
            learning_rate=0.08,
            max_leaf_nodes=31,
            min_samples_leaf=40,
            l2_regularization=1.0,
            random_state=1,
        )
        return model.fit(x, y, weight).predict_proba(x)[:, 1]
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    model = linear_model.LogisticRegression(C=1.0, max_iter=300, class_weight="balanced")
    return model.fit(scaled, y, weight).predict_proba(scaled)[:, 1]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", [m for m in METHODS if m not in ("thresholds", "cnn")])
def test_a_saved_detector_scores_as_scikit_learn_does(method, weighted, rows, tmp_path):
    x, y = rows
    weight = np.where(y, 1.0, np.random.default_rng(2).uniform(1.0, 20.0, len(y))) if weighted else None
    detector = Detector.load(fit(x, y, NAMES, method, weight=weight).save(tmp_path / "d.npz"))
    filled = np.where(np.isnan(x), detector.fill, x)
    # float32 as scikit-learn's forests compare in
    given = filled.astype(np.float32).astype(np.float64) if method == "forest" else filled
    assert detector.score(given) == pytest.approx(peer(method, filled, y, weight), abs=1e-9)


@pytest.mark.parametrize("method", ["forest", "boosting"])
def test_trees_see_the_differences_of_levels_as_scikit_learn_does(method, rows, tmp_path):
    x, y = rows
    pairs = ratios_of(NAMES, {"ue_sinr", "ue_rssi", "ue_pdr_other"})
    assert pairs.tolist() == [[0, 4]]  # values with values; there is one mean only
    detector = Detector.load(fit(x, y, NAMES, method, ratios=pairs).save(tmp_path / "d.npz"))
    filled = np.where(np.isnan(x), detector.fill, x)
    given = filled.astype(np.float32).astype(np.float64) if method == "forest" else filled
    wide = np.column_stack([given, given[:, 0] - given[:, 4]])
    other = np.column_stack([filled, filled[:, 0] - filled[:, 4]])
    exact = method == "boosting"
    near = np.abs(detector.score(given) - peer(method, other if exact else wide, y)) < 1e-9
    assert near.mean() >= (1.0 if exact else 0.98)  # a forest rounds the difference, not what it is of
    assert detector.columns == tuple(NAMES)  # nothing else is asked of a log
    cause = np.where(y, np.where(x[:, 0] > -1.0, "jam", "fade"), "none")
    reported = with_causes(detector, x, cause)
    assert Detector.load(reported.save(tmp_path / "c.npz")).cause(filled).tolist() == reported.cause(filled).tolist()


def test_ratios_of_columns_that_are_not_there_are_refused(rows, tmp_path):
    detector = fit(*rows, NAMES, "boosting", ratios=np.array([[0, 4]]))
    detector.arrays["ratios"][0, 1] = 5
    with pytest.raises(SetupError, match="do not fit one another"):
        Detector.load(detector.save(tmp_path / "d.npz"))


def test_levels_are_what_a_card_has_in_decibels(tmp_path):
    words = {
        "a": "ue.a: level (dBm)",
        "b": "ue.b: ratio (dB)",
        "c": "ue.c: rate (bit/s)",
        "a_mean": "mean of ue.a (dBm)",
    }
    card = {"recordSet": [{"field": [{"name": name, "description": text} for name, text in words.items()]}]}
    (tmp_path / "croissant.json").write_text(json.dumps(card))
    assert levels_of(tmp_path) == {"a", "b"}
    assert ratios_of(["a", "a_mean", "b", "b_mean", "c"], {"a", "b"}).tolist() == [[0, 2], [1, 3]]


def test_thresholds_say_which_is_too_low():
    x = np.tile([10.0, 10.0, 1.0, 1.0, 0.0], (100, 1)) + 0.01 * np.arange(100)[:, None]
    detector = fit(x, np.arange(100) < 50, NAMES, "thresholds")
    good, low_sinr, low_pdr = [10.9, 10.9, 1.9, 1.9, 0.0], [0.0, 0.0, 1.9, 1.9, 0.0], [10.9, 10.9, 0.2, 0.2, 0.0]
    scores = detector.score(np.array([good, low_sinr, low_pdr]))
    assert scores[0] < 0.0 < min(scores[1], scores[2])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rate", [0.01, 0.1])
def test_the_limit_gives_the_false_alarms_that_were_asked_for(method, rate, rows):
    if method == "cnn":
        pytest.importorskip("torch")
    x, y = rows
    half = np.arange(len(x)) < 1000
    detector = calibrated(fit(x[half], y[half], NAMES, method), x[~half], y[~half], rate, "rate")
    alarms = detector.alarm(x[~half])[~y[~half]].mean()
    assert alarms <= rate
    assert alarms >= rate - 2.0 / (~y[~half]).sum()


@pytest.mark.parametrize("method", ["logistic", "boosting"])
@pytest.mark.parametrize("rate", [0.01, 0.1])
def test_the_limit_is_the_best_of_those_that_keep_to_the_false_alarms(method, rate, rows):
    x, y = rows
    half = np.arange(len(x)) < 1000
    detector = calibrated(fit(x[half], y[half], NAMES, method), x[~half], y[~half], rate)
    score, label = detector.score(x[~half]), y[~half]

    def f1(limit):
        alarm = score > limit
        return 2.0 * (alarm & label).sum() / (alarm.sum() + label.sum())

    allowed = [limit for limit in np.unique(score) if (score > limit)[~label].mean() <= rate]
    assert (score > detector.limit)[~label].mean() <= rate
    assert f1(detector.limit) == max(map(f1, allowed))


def test_a_limit_is_between_classes_that_are_apart():
    x = np.concatenate([np.linspace(0.0, 0.2, 300), np.linspace(0.8, 1.0, 100)])[:, None]
    label = x[:, 0] > 0.5
    detector = fit(x, label, ["ue_sinr_mean"], "thresholds")
    found = calibrated(detector, 1.0 - x, label, 0.05, "best")
    low, high = (float(detector.score(np.array([[1.0 - value]]))[0]) for value in (0.2, 0.8))
    assert found.limit == pytest.approx(0.5 * (low + high))
    quiet = calibrated(detector, 1.0 - x[~label], label[~label], 0.05, "best")  # nothing to be right about
    assert (quiet.score(1.0 - x[~label]) > quiet.limit).mean() <= 0.05


def test_figures_count_attacks_and_their_delays():
    label = np.array([0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0, 1], bool)
    alarm = np.array([0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1], float)
    who = np.array([0] * 11 + [1])
    verdict = figures(label, alarm, 0.5, who, np.arange(12.0))
    assert (verdict.precision, verdict.recall) == (3 / 4, 3 / 6)
    assert verdict.f1 == pytest.approx(2 * 0.75 * 0.5 / 1.25)
    assert verdict.false_alarms == 1 / 6
    assert (verdict.attacks, verdict.missed) == (3, 1 / 3)
    assert verdict.delay["50%"] == 0.5  # one after 1 s, one at once
    nothing = figures(np.zeros(3, bool), np.zeros(3), 0.5, np.zeros(3, int), np.arange(3.0))
    assert math.isnan(nothing.recall)
    assert nothing.false_alarms == 0.0


def test_rows_that_are_left_out_do_not_divide_an_attack():
    label = np.array([0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1], bool)
    hard = np.array([1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0], bool)  # of one attack its ends, of the other none
    alarm = np.array([0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], float)
    verdict = figures(label, alarm, 0.5, np.zeros(14, int), np.arange(14.0), kept=hard)
    assert (verdict.rows, verdict.positive, verdict.recall) == (8, 2, 0.5)
    assert (verdict.attacks, verdict.missed, verdict.delay["50%"]) == (1, 0.0, 2.0)


def test_files_that_are_no_detectors_are_refused(rows, tmp_path):
    with pytest.raises(SetupError, match="there is no detector"):
        Detector.load(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("no")
    with pytest.raises(SetupError, match="is not a detector"):
        Detector.load(tmp_path / "text.npz")
    with pytest.raises(SetupError, match="is not a detector: it is no file that"):
        Detector.load(tmp_path / "text.npz")  # numpy's own words would advise to read it unsafely
    detector = fit(*rows, NAMES, "logistic")
    for odd in ({"window": "long"}, {"limit": None}, {"form": "x"}, {"facts": 3}, {"features": 4}):
        with np.load(detector.save(tmp_path / "odd.npz")) as file:
            kept = dict(file)
        head = json.loads(str(kept["head"])) | {"format": 1} | odd  # of a version without digests
        np.savez(tmp_path / "odd.npz", **{**kept, "head": np.array(json.dumps(head))})
        with pytest.raises(SetupError, match="is not a detector"):
            Detector.load(tmp_path / "odd.npz")
    detector = fit(*rows, NAMES, "boosting")
    detector.arrays["left"][0] = 0  # a tree that leads to itself
    with pytest.raises(SetupError, match="do not fit one another"):
        Detector.load(detector.save(tmp_path / "circle.npz"))


def test_what_cannot_be_trained_is_told(rows):
    with pytest.raises(SetupError, match="need the columns sinr and pdr"):
        fit(*rows, ["a", "b", "c", "d", "e"], "thresholds")
    with pytest.raises(SetupError, match="there is no method 'svm'"):
        fit(*rows, NAMES, "svm")
    with pytest.raises(SetupError, match="between 0 and 1"):
        calibrated(fit(*rows, NAMES, "logistic"), *rows, 2.0)


@pytest.mark.parametrize("names", [("jam", "fade", "overload"), ("jam", "interference"), ("fade",)])
def test_causes_are_those_of_scikit_learn(names, rows, tmp_path):
    x, y = rows
    cause = np.where(y, np.array(names)[np.arange(len(y)) % len(names)], "none")
    for k, name in enumerate(names):
        x = x + (cause == name)[:, None] * 0.7 * k * np.array([0.0, 0.0, 1.0, 1.0, 0.0])
    detector = with_causes(fit(x, y, NAMES, "logistic"), x, cause)
    detector = Detector.load(detector.save(tmp_path / "d.npz"))
    filled = np.where(np.isnan(x), detector.fill, x)
    reported = np.array(detector.causes)[detector.cause(x)]
    if len(names) == 1:
        assert set(reported) == {"fade"}
        return
    model = ensemble.HistGradientBoostingClassifier(
        max_iter=60, learning_rate=0.1, max_leaf_nodes=15, min_samples_leaf=40, l2_regularization=1.0,
        class_weight="balanced", early_stopping=False, random_state=1,
    ).fit(filled[y], cause[y])  # fmt: skip
    assert (reported == model.predict(filled)).all()
    assert (reported[y] == cause[y]).mean() > 1.3 / len(names)


def test_causes_need_rows_that_have_one(rows):
    x, y = rows
    with pytest.raises(SetupError, match="no training row has a cause"):
        with_causes(fit(x, y, NAMES, "logistic"), x, np.full(len(y), "none"))


def test_the_rows_of_one_node_follow_one_another():
    rows, who = np.arange(10.0).reshape(5, 2), np.array([0, 0, 0, 1, 1])
    found = lagged(rows, who, 3)
    assert found[2].tolist() == [4.0, 5.0, 2.0, 3.0, 0.0, 1.0]
    assert found[4, :4].tolist() == [8.0, 9.0, 6.0, 7.0]
    assert np.isnan(found[4, 4:]).all()
    assert np.isnan(found[0, 2:]).all()
    assert lagged_names(["a", "a_mean", "b", "rows"])[:3] == ["a@0", "b@0", "a@1"]


def test_a_network_says_what_torch_says_and_sees_an_order_that_windows_do_not_have(tmp_path):
    """Rising or falling by a step somewhere in the last rows: mean and deviation are the same."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    label = rng.random(3000) < 0.4
    step = np.where(np.arange(10) < rng.integers(2, 9, 3000)[:, None], 1.0, -1.0) * np.where(label, 1.0, -1.0)[:, None]
    x = (step[:, :, None] + 0.3 * rng.normal(size=(3000, 10, 2))).reshape(3000, -1)
    names = lagged_names(["a", "b"])
    detector = Detector.load(fit(x[:2000], label[:2000], names, "cnn").save(tmp_path / "d.npz"))
    assert (detector.lags, detector.columns) == (10, ("a", "b"))
    assert (detector.alarm(x[2000:]) == label[2000:]).mean() > 0.97
    arrays = learn(x[:300], label[:300], names, 2)
    layers = [torch.nn.Conv1d(2, 16, 3, padding=1), torch.nn.Conv1d(16, 16, 3, padding=1), torch.nn.Linear(32, 1)]
    kept = ("kernel_1", "offset_1"), ("kernel_2", "offset_2"), ("weight", "bias")
    for layer, (weight, bias) in zip(layers, kept, strict=True):
        layer.double()
        values = {"weight": arrays[weight].reshape(layer.weight.shape), "bias": arrays[bias]}
        layer.load_state_dict({name: torch.from_numpy(value) for name, value in values.items()})
    given = torch.from_numpy(((x - arrays["mean"]) / arrays["scale"]).reshape(-1, 10, 2))
    assert ask(arrays, x) == pytest.approx(forward(layers, given).detach().numpy(), abs=1e-12)


def test_a_network_whose_arrays_do_not_fit_is_refused(rows, tmp_path):
    pytest.importorskip("torch")
    detector = fit(*rows, NAMES, "cnn")
    detector.arrays["lags"][0] = 5
    with pytest.raises(SetupError, match="do not fit one another"):
        Detector.load(detector.save(tmp_path / "odd.npz"))


def test_columns_that_say_the_same_are_one_cluster():
    rng = np.random.default_rng(3)
    sinr, other = rng.normal(size=(2, 500))
    rows = np.column_stack([sinr, -np.exp(sinr), other, sinr + rng.normal(size=500), np.zeros(500)])
    names = ["ue_sinr", "ue_bler", "ue_rssi", "gnb_sinr", "ue_ri"]
    assert clusters_of(rows, names) == {
        "ue_sinr": "gnb_sinr + ue_bler + ue_sinr", "ue_bler": "gnb_sinr + ue_bler + ue_sinr",
        "gnb_sinr": "gnb_sinr + ue_bler + ue_sinr", "ue_rssi": "ue_rssi", "ue_ri": "ue_ri",
    }  # fmt: skip


def test_a_detector_is_trained_and_judged_on_a_table_of_somebody_else(tmp_path):
    rng = np.random.default_rng(5)
    on = (np.arange(2000) // 50) % 4 == 3
    rows = (f"{10.0 - 6.0 * one + noise:.2f},{int(one)}" for one, noise in zip(on, rng.normal(size=2000), strict=True))
    file = tmp_path / "log.csv"
    file.write_text("\n".join(["sinr,jammed", *rows]))
    data = build([file], Recipe((), "jammed == 1", blocks=10), tmp_path / "data").folder
    detector = train(data, "logistic", false_alarms=0.05, limit="best")
    assert detector.facts["offline"]
    assert judge(detector, data).f1 > 0.95
    with pytest.raises(SetupError, match=r"log\.csv is no data set; make one"):
        judge(detector, file)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data set of a table of 1000 rows."""
    folder = tmp_path_factory.mktemp("made")
    noise = np.random.default_rng(2).normal(0.0, 2.0, 1000)
    rows = [f"{10 - 6 * (k // 50 % 2) + noise[k]},{k // 50 % 2}" for k in range(1000)]
    (folder / "log.csv").write_text("\n".join(["SINR [dB],jammed", *rows]))
    build([str(folder / "log.csv")], Recipe((), "jammed == 1", blocks=10), folder / "data")
    return folder / "data"


def test_a_score_never_falls_with_the_excess():
    rng = np.random.default_rng(6)
    names = ["ue_excess", "ue_rsrp", "gnb_excess_mean"]
    x = rng.normal(size=(3000, 3)) * 10.0
    y = np.abs(x[:, 0]) > 8.0  # also where it is low: what is learnt must not be that
    pairs = np.array([[0, 1]])
    detector = fit(x, y, names, "boosting", ratios=pairs)
    for column in (0, 2):
        ramp = np.repeat(x[:50], 61, axis=0)
        ramp[:, column] = np.tile(np.linspace(-30.0, 30.0, 61), 50)
        assert (np.diff(detector.score(ramp).reshape(50, 61), axis=1) >= -1e-12).all()


def test_a_limit_may_be_set_for_the_rows_that_judge(tmp_path):
    rng, only = np.random.default_rng(4), "truth_loss >= 10"
    loss = np.where(rng.random(4000) < 0.3, rng.uniform(0.0, 20.0, 4000), 0.0)
    rows = [f"{10.0 - one + noise},{one}" for one, noise in zip(loss, rng.normal(0.0, 2.0, 4000), strict=True)]
    (tmp_path / "log.csv").write_text("\n".join(["SINR [dB],loss", *rows]))
    made = build([tmp_path / "log.csv"], Recipe((), "loss >= 3", keep=("loss",), blocks=10), tmp_path / "data").folder
    before, found = (train(made, "logistic", importance=False, only=one) for one in ("", only))
    assert found.limit > before.limit  # for rows that lose less is not what it is for
    assert judge(found, made, "valid", only=only).f1 > judge(before, made, "valid", only=only).f1 + 0.02
    assert judge(found, made, only=only).f1 > 0.9
    with pytest.raises(SetupError, match="no column 'truth_lost' of numbers"):
        train(made, "logistic", only="truth_lost >= 10")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("dataset.json", b"", "dataset.json cannot be read"),
        ("dataset.json", b"[]", "dataset.json is damaged"),
        ("dataset.json", None, "dataset.json is missing or damaged"),
        ("croissant.json", b"{}", "croissant.json is not what was written"),
        ("train/*.parquet", b"PAR1", "parquet is not what was written"),
    ],
)
def test_a_damaged_data_set_is_told(data, tmp_path, name, content, said):
    mine = shutil.copytree(data, tmp_path / "mine")
    for file in mine.glob(name):
        file.write_bytes(content) if content is not None else file.unlink()
    with pytest.raises(SetupError, match=said):
        train(mine, "forest")


def test_tables_of_others_and_columns_without_values_are_no_data_set(data, tmp_path):
    mine = shutil.copytree(data, tmp_path / "mine")
    index = json.loads((mine / "dataset.json").read_text())  # as a version without digests wrote it
    (mine / "dataset.json").write_text(json.dumps({k: v for k, v in index.items() if not k.startswith("digest")}))
    files = list(mine.glob("train/*.parquet"))
    whole = {file: pq.read_table(file) for file in files}
    for file, table in whole.items():
        empty = [pa.array(np.full(len(table), np.nan))] * 5
        kept = [table[name] for name in ("scene", "node", "time", "label")]
        pq.write_table(pa.table([*kept, *empty], names=["scene", "node", "time", "label", *"abcde"]), file)
    with pytest.raises(SetupError, match="has a value to learn from"):
        train(mine, "logistic")
    for file in files:
        pq.write_table(pa.table({"x": [1.0]}), file)
    with pytest.raises(SetupError, match="no column 'scene'"):
        train(mine, "logistic")


@pytest.mark.parametrize("method", ["forest", "boosting"])
def test_a_quiet_period_raises_the_limit_to_its_rate_and_never_lowers_it(data, tmp_path, method):
    detector = train(data, method, importance=False)
    noise = np.random.default_rng(3).normal(-2.0, 3.0, 1000)  # a network that is worse without a jammer
    (tmp_path / "q.csv").write_text("\n".join(["SINR [dB],jammed", *(f"{10 + x},0" for x in noise)]))
    build([str(tmp_path / "q.csv")], Recipe((), "jammed == 1", blocks=10), tmp_path / "quiet")
    for rate in (0.05, 0.2):
        mine = quieted(detector, tmp_path / "quiet", rate)
        verdicts = [judge(mine, tmp_path / "quiet", split) for split in ("train", "valid", "test")]
        share = sum(one.rows * one.false_alarms for one in verdicts) / sum(one.rows for one in verdicts)
        assert share <= rate
        assert mine.limit >= detector.limit
    assert quieted(detector, tmp_path / "quiet", 0.02).limit > detector.limit
    assert quieted(detector, tmp_path / "quiet", 0.99).limit == detector.limit


def test_a_period_under_a_jammer_calibrates_nothing(tmp_path, data):
    (tmp_path / "j.csv").write_text("\n".join(["SINR [dB],jammed", *(f"{x},1" for x in range(60))]))
    build([str(tmp_path / "j.csv")], Recipe((), "jammed == 1", blocks=3), tmp_path / "jammed")
    with pytest.raises(SetupError, match="no rows without the label"):
        quieted(train(data, "logistic", importance=False), tmp_path / "jammed")
