"""The detector on line: the scores and alarms that the same rows have in a data set."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

import cosim
from cosim.contract.errors import ScenarioError
from cosim.extensions.detection.adapter import ADAPTER
from cosim.extensions.detection.dataset import Recipe, build
from cosim.extensions.detection.dataset.leakage import feature_names, matrix, people, read
from cosim.extensions.detection.detect import Detector, judge
from cosim.extensions.detection.detect.network import LAGS, lagged, lagged_names
from cosim.extensions.detection.detect.train import fit, with_causes
from cosim.testing import check_adapter
from tests.contract.mutated import check_refused

pytest.importorskip("sklearn")

RULE = "jamming.loss >= 3"


def scenario(folder, **detector):
    made = cosim.Scenario("watched")
    made.folder = folder
    made.set("run", duration="20 s", step="1 s", seed=3)
    made.adapter("radio", log=True, fading="rayleigh", link_failure={"t310": "1 s", "access": "2 s"})
    if detector:
        made.adapter("detector", **detector)
    made.kind("jammer", tier="device")
    made.node("mast", kind="base-station", at=["0 m", "0 m"])
    made.node("phone-[1..4]", kind="device", at=["80 m", "0 m"])
    made.node("jam", kind="jammer", at=["100 m", "0 m"], jammer={"power": "30 dBm", "active": False})
    made.event("8 s", "jammer-on", node="jam", lasting="6 s")
    return made


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a detector, and the rows that it was trained with."""
    folder = tmp_path_factory.mktemp("detector")
    outcome = cosim.run(scenario(folder), out=folder / "runs")
    data = build([outcome.folder], Recipe(("ue", "gnb"), RULE, shares=(1.0, 0.0, 0.0)), folder / "data").folder
    rows = read(data, "train")
    x, label = matrix(rows).astype(np.float64), rows["label"].to_numpy(zero_copy_only=False)
    detector = fit(x, label, feature_names(rows), "logistic", signals=["ue", "gnb"])
    detector.save(folder / "detector.npz")
    return folder, rows, Detector.load(folder / "detector.npz")


@pytest.mark.parametrize("method", ["logistic", "forest", "cnn"])
def test_scores_on_line_are_those_of_the_data_set(method, trained):
    """To the bit: a tree that splits a column at 0 tells a rounding error from none."""
    if method == "cnn":
        pytest.importorskip("torch")
    folder, rows, detector = trained
    if method == "forest":
        label = rows["label"].to_numpy(zero_copy_only=False)
        detector = fit(matrix(rows), label, feature_names(rows), method, signals=["ue", "gnb"])
    given = matrix(rows)
    if method == "cnn":
        label, names = rows["label"].to_numpy(zero_copy_only=False), lagged_names(feature_names(rows))
        plain = [feature_names(rows).index(name[:-2]) for name in names if name.endswith("@0")]
        given = lagged(given[:, plain], people(rows), LAGS)
        detector = fit(given.astype(np.float64), label, names, method, signals=["ue", "gnb"])
    detector.save(folder / "again.npz")
    outcome = cosim.run(scenario(folder, model="again.npz"), out=folder / "runs")
    assert outcome.status == "complete"
    seen = pq.read_table(outcome.folder / "frames" / "alarm" / "detector.parquet").to_pydict()
    found = dict(
        zip(zip(seen["node"], seen["time"], strict=True), zip(seen["score"], seen["on"], strict=True), strict=True)
    )
    expected = detector.score(given)
    assert len(found) == len(rows)
    for node, time, score in zip(rows["node"].to_pylist(), rows["time"].to_pylist(), expected, strict=True):
        assert found[node, time][0] == (score if method == "forest" else pytest.approx(score, abs=1e-12))
    raised = [on for (_, time), (_, on) in found.items() if 9.0 <= time <= 13.0]
    assert np.mean(raised) > 0.8


def test_an_alarm_has_the_cause_that_judging_counts(trained, tmp_path):
    folder, rows, detector = trained
    data = build(
        [next(folder.glob("runs/watched/2*"))],
        Recipe(
            ("ue", "gnb"), RULE, shares=(1.0, 0.0, 0.0), causes=(f"jam: {RULE}", "fade: impairment.snr_down <= 300")
        ),
        tmp_path / "data",
    ).folder
    known = with_causes(detector, matrix(rows).astype(np.float64), np.array(read(data, "train")["truth_cause"]))
    known.save(folder / "causes.npz")
    outcome = cosim.run(scenario(folder, model="causes.npz"), out=tmp_path)
    seen = pq.read_table(outcome.folder / "frames" / "alarm" / "detector.parquet").to_pydict()
    counted = judge(known, data, "train").causes
    assert set(counted) == {"jam", "fade"}
    assert counted["jam"]["jam"] > 20
    for name in ("jam", "fade"):
        alarms = [cause == name for cause, on in zip(seen["cause"], seen["on"], strict=True) if on]
        assert sum(alarms) <= sum(reported[name] for reported in counted.values())
    assert all((cause == "none") != on for cause, on in zip(seen["cause"], seen["on"], strict=True))
    assert sum(cause == "jam" for cause in seen["cause"]) > 10


@pytest.mark.parametrize(
    ("keys", "reported"),
    [
        ({"model": "none.npz"}, "none.npz"),
        ({"model": "offline.npz"}, "which it does not see on line"),
        ({"model": "detector.npz", "signals": ["ue"]}, "was trained with the signals ue, gnb, not with ue"),
        ({"model": "text.npz"}, "is not a detector"),
    ],
)
def test_detectors_that_do_not_fit_are_refused_by_check(trained, keys, reported):
    folder, _, detector = trained
    replace(detector, facts={**detector.facts, "offline": True}).save(folder / "offline.npz")
    (folder / "text.npz").write_text("no")
    made = scenario(folder, **keys)
    with pytest.raises(ScenarioError, match=reported):
        cosim.run(made, out=folder / "runs")


def test_a_signal_that_nothing_writes_names_the_adapter():
    check_refused("hello", "adapters.vehicle.missions.uav-3.alarm=true", "it comes with the adapter 'detector'")


def test_keeps_the_contract():
    check_adapter(ADAPTER)


@pytest.mark.slow
def test_a_rehearsal_leaves_nothing_to_compile(tmp_path):
    """Trees too, although the example is a linear model."""
    code = (
        "import pathlib, cosim.compiled.compiling as compiling; compiling.PRECOMPILED = pathlib.Path('none brought'); "
        "from cosim.extensions.detection.adapter import ADAPTER; from cosim.testing import rehearse; "
        "assert not ADAPTER.is_compiled(); rehearse(ADAPTER); assert ADAPTER.is_compiled(); "
        "from cosim.extensions.detection.detect.detector import grown; assert len(grown.signatures) == 1"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)})
