"""Overlays: what is written is read back, sets the fields, and tells when a scenario leaves it."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.errors import ScenarioError
from cosim.scenario.extrapolation import extrapolations
from cosim.scenario.free import free_values
from cosim.scenario.load import Loaded, load
from cosim.scenario.plan.compile import compile_plan
from cosim.twin.calibration import Calibration, Gap, Judgement, ParameterEstimate
from cosim.twin.scenario.overlay import document, write
from tests.overlays import read

HELLO = Path(__file__).resolve().parents[3] / "scenarios" / "hello" / "scenario.cosim.yaml"
DATE = datetime(2030, 2, 3, 4, 5, 6, tzinfo=UTC)

CALIBRATE = """
include: {hello}
calibrate:
  free:
    kinds.field-edge.power.idle: {{bounds: [1 W, 6 W]}}
    links.0.rate: {{bounds: [10 Mbit/s, 500 Mbit/s], scale: log}}
    workloads.weed-detection.work: {{bounds: [exponential 100 Mcycles, exponential 900 Mcycles]}}
    adapters.continuum.scheduler: {{choices: [nearest, least-loaded]}}
    kinds.field-edge.power.max: {{bounds: [4 W, 9 W]}}
  observed: {{power: {{file: power.csv, signal: host.power}}}}
"""


def gap(signal: str, w1: float) -> Gap:
    return Gap(signal, w1, 0.3, 1.5, 0.2, 0.8, 0.02, unit="W", count=40)


def calibration(**changes: object) -> Calibration:
    estimates = (
        ParameterEstimate("kinds.field-edge.power.idle", 3.1, 2.9, 3.25, 2.7, "W", sensitivity=0.6, bounds=(1.0, 6.0)),
        ParameterEstimate("links.0.rate", 80.0, 70.0, 95.0, 100.0, "Mbit/s", "correlated", "with work (0.93)"),
        ParameterEstimate("workloads.weed-detection.work", 512.5, 480.0, 550.0, 600.0, "Mcycles"),
        ParameterEstimate("adapters.continuum.scheduler", "nearest", None, None, "least-loaded"),
        ParameterEstimate(
            "kinds.field-edge.power.max", 6.4, None, None, 6.4, "W", "no effect", "the host is never busy"
        ),
    )
    known: dict[str, object] = {
        "problem": "hello calibrated", "estimates": estimates,
        "fit": Judgement("until 60 s", (gap("power", 0.4),), (gap("power", 0.03),)),
        "held_back": Judgement("from 60 s", (gap("power", 0.5),), (gap("power", float("nan")),)),
        "method": "cma-es", "runs": 1200, "cpu_seconds": 2.5, "wall_seconds": 3.0, "seed": 7, "stopped": "converged",
        "warnings": ("power of north: 3 outliers",), "sources": ("power.csv: 80 rows, sha256 0123",),
        "figures": {"coverage": 0.9},
    }  # fmt: skip
    return Calibration(**{**known, **changes})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    tmp_path = tmp_path_factory.mktemp("overlay")
    (tmp_path / "power.csv").write_text("time,node,power\n", encoding="utf-8")
    file = tmp_path / "base.yaml"
    file.write_text(CALIBRATE.format(hello=HELLO), encoding="utf-8")
    return load(file)


def calibrated(base: Loaded, conditions: dict[str, tuple[object, object]] | None = None) -> Path:
    """The scenario with the overlay on it; without the block `calibrate`, which has bounds of its own."""
    free, problems = free_values(
        base.scenario, base.root, base.world, {name: used.config for name, used in base.adapters.items()}
    )
    assert not problems
    folder = base.path.parent
    write(folder / "hello.calibration.yaml", calibration(), loaded=base, free=free, conditions=conditions, date=DATE)
    file = folder / "twin.yaml"
    file.write_text(f"include: [{HELLO}, hello.calibration.yaml]\n", encoding="utf-8")
    return file


def test_an_included_overlay_sets_the_fields_and_tells_where_they_come_from(base):
    loaded = load(calibrated(base))
    scenario = loaded.scenario
    assert scenario.kinds["field-edge"].power.idle == pytest.approx(3.1)
    assert scenario.kinds["field-edge"].power.max == pytest.approx(6.4)
    assert [link.rate for link in scenario.links] == pytest.approx([80e6, 200e6])
    assert scenario.links[0].delay == pytest.approx(0.02)
    assert scenario.workloads["weed-detection"].work.a == pytest.approx(512.5e6)
    assert scenario.adapters["continuum"]["scheduler"] == "nearest"
    block = scenario.calibrated["hello-calibrated"]
    assert block.date == "2030-02-03T04:05:06+00:00"
    assert block.values["kinds.field-edge.power.idle"].interval == ["2.9 W", "3.25 W"]
    assert block.values["kinds.field-edge.power.idle"].bounds == ["1 W", "6 W"]
    assert block.values["kinds.field-edge.power.max"].verdict == "no effect"
    assert block.values["links.0.rate"].reason == "with work (0.93)"
    assert (block.fit.before["power"].w1, block.fit.after["power"].w1) == (0.4, 0.03)
    assert math.isnan(block.held_back.after["power"].w1)
    assert block.data == ["power.csv: 80 rows, sha256 0123"]
    assert block.warnings == ["power of north: 3 outliers"]
    assert block.versions["python"]
    assert extrapolations(loaded) == ()
    assert compile_plan(loaded).warnings == ()


def test_what_is_written_is_read_back(base):
    overlay = read(calibrated(base).parent / "hello.calibration.yaml")
    assert list(overlay.calibrated) == ["hello-calibrated"]
    assert overlay.fields["kinds"] == {"field-edge": {"power": {"idle": "3.1 W"}}}
    assert overlay.fields["adapters"] == {"continuum": {"scheduler": "nearest"}}
    assert overlay.calibrated["hello-calibrated"].runs == 1200


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            "kinds.field-edge.power.idle=4 W",
            "nodes.south.power.idle are 4 W, and calibration 'hello-calibrated' found 3.1 W (90 % interval 2.9 W to",
        ),
        ("nodes.north.power.idle=2700 mW", "nodes.north.power.idle is 2.7 W, and calibration"),
        ("workloads.weed-detection.work=exponential 2 Gcycles", "work is exponential 2 Gcycles, and calibration"),
        ("workloads.weed-detection.work=512.5 Mcycles", "work is 512.5 Mcycles, and calibration"),
        (
            "adapters.continuum.scheduler=round-robin",
            "scheduler is round-robin, and calibration 'hello-calibrated' found nearest",
        ),
    ],
)
def test_a_value_that_was_changed_beyond_its_interval_is_told(base, change, words):
    loaded = load(calibrated(base), [change])
    (warning,) = extrapolations(loaded)
    assert words in warning
    assert compile_plan(loaded).warnings == (warning,)


@pytest.mark.parametrize(
    "change",
    [
        "kinds.field-edge.power.idle=3 W", "kinds.field-edge.power.idle=3100 mW", "kinds.field-edge.power.max=8 W",
        "workloads.weed-detection.work=exponential 0.5 Gcycles", "run.seed=9",
    ],
)  # fmt: skip
def test_a_value_inside_its_interval_or_without_effect_is_not(base, change):
    assert extrapolations(load(calibrated(base), [change])) == ()


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ("workloads.weed-detection.arrivals=poisson 2.5 Hz", False),
        ("workloads.weed-detection.arrivals=poisson 9 Hz", True),
        ("workloads.weed-detection.arrivals=every 50 ms", True),
        ("workloads.weed-detection.input=exponential 0.2 MB", False),
        ("workloads.weed-detection.input=2 MB", True),
        ("workloads.position-report.input=210 B", False),
        ("workloads.position-report.input=300 B", True),
        ("nodes.uav-1.at=[0 m, 0 m, 0 m]", False),
    ],
)
def test_conditions_beyond_those_of_the_measurement_are_told(base, change, reported):
    conditions: dict[str, tuple[object, object]] = {
        "workloads.weed-detection.arrivals": ("1 Hz", "3 Hz"),
        "workloads.weed-detection.input": ("100 kB", "300 kB"),
        "workloads.position-report.input": ("200 B", "200 B"),  # nothing else was measured
        "workloads.gone.input": ("100 kB", "300 kB"),
        "host.utilisation": (0.1, 0.7),
    }
    loaded = load(calibrated(base, conditions), [change])
    assert bool(extrapolations(loaded)) is reported
    assert not reported or "has seen" in extrapolations(loaded)[0]


def test_warnings_make_no_other_plan(base):
    plan = compile_plan(load(calibrated(base), ["kinds.field-edge.power.idle=4 W"]))
    plain = base.path.parent / "plain.yaml"
    sealed = (base.path.parent / "hello.calibration.yaml").read_text(encoding="utf-8")
    plain.write_text(sealed.partition("\n")[2].partition("calibrated:")[0], encoding="utf-8")
    other = base.path.parent / "other.yaml"
    other.write_text(f"include: [{HELLO}, plain.yaml]\n", encoding="utf-8")
    assert compile_plan(load(other, ["kinds.field-edge.power.idle=4 W"])).hash == plan.hash


def test_a_calibration_without_a_scenario_keeps_its_values_as_provenance():
    reported = document(
        calibration(estimates=(ParameterEstimate("a", 2.0, 1.5, 2.5, 1.0, "W", bounds=(0.0, 5.0)),)), date=DATE
    )
    assert list(reported) == ["calibrated"]
    value = reported["calibrated"]["hello-calibrated"]["values"]["a"]
    assert (value["value"], value["bounds"], value["members"]) == ("2.0 W", ["0.0 W", "5.0 W"], [])


@pytest.mark.parametrize("text", ["name: x\n", "calibrated: {a: {date: 1}}\n", "calibrated: [\n"])
def test_a_file_that_is_no_overlay_is_refused(tmp_path, text):
    file = tmp_path / "x.calibration.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError):
        read(file)


@given(st.text(max_size=80))
def test_any_name_becomes_a_key(name):
    ((key, _),) = document(calibration(problem=name, estimates=()), date=DATE)["calibrated"].items()
    assert key[0].isalpha()
    assert len(key) <= 64
