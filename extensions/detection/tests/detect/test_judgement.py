"""The page of a judged detector, verdicts by setting, and columns with and without the label."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from cosim.cli.main import app
from cosim.contract.errors import SetupError
from cosim.extensions.detection.detect import by_group, contrasts, judge
from cosim.extensions.detection.detect.train import fit

pytest.importorskip("sklearn")

FEATURES = ["ue_sinr", "ue_sinr_mean", "gnb_sinr", "gnb_sinr_mean", "ue_rate", "ue_rate_mean"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data set of two settings of a jammer, of which one is hard to see."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "test").mkdir()
    rng = np.random.default_rng(3)
    scenes = {}
    for scene, (setting, strength) in enumerate((("power=10", 0.3), ("power=30", 9.0))):
        label = np.arange(400) % 4 == 0
        columns = {name: rng.normal(10.0, 1.0, 400) - strength * label * ("sinr" in name) for name in FEATURES}
        columns["ue_rate"][:5] = math.nan
        name = f"field-{scene}"
        scenes[name] = {"group": setting, "split": "test"}
        table = {"scene": [name] * 400, "node": ["p"] * 400, "time": np.arange(400.0), **columns, "label": label}
        pq.write_table(pa.table(table), folder / "test" / f"{name}.parquet")
    (folder / "dataset.json").write_text(json.dumps({"scenes": scenes}))
    return folder


@pytest.fixture(scope="module")
def detector():
    rng = np.random.default_rng(4)
    label = np.arange(3000) % 3 == 0
    x = rng.normal(10.0, 1.0, (3000, len(FEATURES))) - 8.0 * label[:, None] * (np.arange(len(FEATURES)) < 4)
    return fit(x, label, FEATURES, "logistic")


def test_the_verdicts_of_the_settings_add_up_to_that_of_all(data, detector):
    whole, parts = judge(detector, data), by_group(detector, data)
    assert list(parts) == ["power=10", "power=30"]
    assert sum(one.rows for one in parts.values()) == whole.rows == 800
    assert sum(one.recall * one.positive for one in parts.values()) == pytest.approx(whole.recall * whole.positive)
    assert parts["power=10"].recall < 0.5 < 0.95 < parts["power=30"].recall


def test_columns_are_told_with_and_without_the_label(data):
    found = {one.name: one for one in contrasts(data)}
    assert list(found)[-1] == "ue_rate"  # the least telling is last
    assert set(found) == {"ue_sinr", "gnb_sinr", "ue_rate"}
    sinr = found["ue_sinr"]
    assert sinr.without[0] == pytest.approx(10.0, abs=0.2)
    assert sinr.labelled[0] == pytest.approx(10.0 - 0.5 * 9.3, abs=0.5)
    assert sinr.without[1] < sinr.without[0] < sinr.without[2]
    assert sinr.area < 0.3
    assert found["ue_rate"].area == pytest.approx(0.5, abs=0.08)
    with pytest.raises(SetupError, match="no rows in the split 'train'"):
        contrasts(data, "train")


def test_the_page_has_settings_needs_and_columns(data, detector, tmp_path):
    file, page = detector.save(tmp_path / "d.npz"), tmp_path / "page.html"
    done = CliRunner().invoke(app, ["detect", "judge", str(file), str(data), "--html", str(page)])
    assert done.exit_code == 0, done.output
    assert str(page) in done.output
    text = page.read_text()
    for word in ("power=10", "power=30", "ue_sinr", "What is logged without and with the label", "trained without it"):
        assert word in text, word
    assert "http://" not in text.replace("http://www.w3.org", "")
