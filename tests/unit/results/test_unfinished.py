"""Figures of a run that ends with many tasks unfinished, against the same tasks in a run ten times as long."""

from __future__ import annotations

import json
import math

import pytest

import cosim
from cosim.results.figures import warnings
from cosim.results.replications import group_warnings
from tests.extensions import needs

RATE, WORK = 1.5, 1.0  # tasks per s, mean s of computing: a load of 1.5


def queue(duration: str, **more: object) -> cosim.Scenario:
    """M/M/1 at a load of 1.5; links take 8 ps."""
    made = cosim.Scenario("queue").set("run", duration=duration, step="1 s", seed=1)
    made.adapter("continuum", scheduler="nearest", discipline="fcfs")
    made.kind("source", tier="device").kind("server", tier="edge", cpu="1 x 1 GHz")
    made.node("source-1", kind="source").node("server-1", kind="server").node(
        "server-2", kind="server", cpu="3 x 1 GHz"
    )
    made.link("source-1", "server-1", rate="1000 Gbit/s", delay="0 s")
    made.link("server-1", "server-2", rate="1000 Gbit/s", delay="1 s")
    return made.workload(
        "job", source="source-1", arrivals=f"poisson {RATE} Hz", input="1 B", output="1 B", deadline="20 s",
        work=f"exponential {WORK} Gcycles", **more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    base = tmp_path_factory.mktemp("queue")
    done = [cosim.run(made, out=base) for made in (queue("400 s"), queue("4000 s", stop="400 s"))]
    return done, [json.loads((one.folder / "metrics.json").read_text()) for one in done]


def test_an_overloaded_queue_does_not_look_perfect(runs):
    cut, whole = runs[1]
    found, truth = cut["figures"], whole["figures"]
    assert found["tasks_created"] == truth["tasks_created"]
    assert truth["tasks_in_flight"]["value"] == 0
    # of n tasks n / load end in time; 1 / sqrt(n / load) is the standard deviation of their number, relatively
    completed = found["completion_ratio"]["value"]
    spread = 3 / math.sqrt(found["tasks_completed"]["value"])
    assert completed == pytest.approx(1 / (RATE * WORK), rel=2 * spread)
    assert found["unfinished_share"]["value"] == pytest.approx(1 - completed)
    for key in ("late_share", "response_mean", "response_median", "response_p95", "response_p99"):
        low, high = found[key]["low"], found[key]["high"]
        assert low <= truth[key]["value"] <= (math.inf if high is None else high + 1e-9), key
    assert {key for key, entry in found.items() if entry.get("at_least")} == {
        "late_share", "response_mean", "response_p95", "response_p99",
    }  # fmt: skip
    # the last tasks wait longest here, so the median is that of a run in which the unfinished never end
    assert truth["response_median"]["value"] == pytest.approx(found["response_median"]["high"])
    assert cut["workloads"]["job"]["at_least"] == "late_share, response_mean, response_p95, response_p99"


@needs("cosco")
def test_bounds_of_an_overloaded_interval_hold_what_a_longer_run_shows(tmp_path):
    def figures(duration: str, **more: object) -> dict[str, dict[str, float | None]]:
        made = cosim.Scenario("hosts").set("run", duration=duration, step="10 s", seed=1)
        made.adapter("interval", policy="least-loaded")
        made.kind("source", tier="device").kind("server", tier="edge", cpu="2 x 1 GHz", memory="4 GB")
        made.node("source-1", kind="source").node("server-1", kind="server")
        made.workload("job", source="source-1", arrivals="poisson 0.3 Hz", input="1 MB", output="0 B",
                      work="exponential 10 Gcycles", deadline="60 s", **more)  # fmt: skip
        done = cosim.run(made, out=tmp_path)
        return json.loads((done.folder / "metrics.json").read_text())["figures"]

    found, truth = figures("400 s"), figures("8000 s", stop="400 s")
    assert truth["completion_ratio"]["value"] == 1.0
    assert found["completion_ratio"]["value"] == found["tasks_completed"]["value"] / truth["tasks_created"]["value"]
    for key in ("late_share", "response_mean", "response_median", "response_p95", "response_p99"):
        low, high = found[key]["low"], found[key]["high"]
        assert 0.0 < low <= truth[key]["value"] <= (math.inf if high is None else high), key


def test_the_warning_stands_with_the_figures_wherever_they_are_read(runs):
    (short, long), (cut, whole) = runs
    (text,) = cut["warnings"]
    assert text.startswith(f"{cut['figures']['tasks_in_flight']['value']:.0f} of ")
    assert "unfinished at the end" in text
    assert short.warnings == cosim.load(short.folder).warnings == [text]
    assert long.warnings == whole["warnings"] == []
    both = cosim.load_all([short.folder, long.folder])
    assert list(both.warnings.values()) == [[text]]
    compared = cosim.compare(short, long)
    assert list(compared.warnings.values()) == [[text]]
    assert "warning: " in repr(compared)
    assert group_warnings([cut["figures"], whole["figures"]]) == [f"1 of 2 runs; the worst: {text}"]
    none = cut["figures"] | {"tasks_completed": {"value": 0.0}}
    none["tasks_in_flight"] = none["unfinished_share"] = {"value": 0.0}
    (failed,) = warnings(none)
    assert failed == f"none of {none['tasks_created']['value']:,.0f} tasks was completed"
    assert group_warnings([cut["figures"], none]) == [f"2 of 2 runs; the worst: {failed}"]
    assert warnings(cut["figures"]) == [text]


def test_utilisation_is_of_all_cores_and_energy_without_power_is_none(runs):
    """One core of four is busy for nearly the whole time."""
    figures = runs[1][0]["figures"]
    hosts = runs[1][0]["hosts"]
    assert hosts["server-1"]["utilisation"] > 0.95
    assert figures["utilisation_mean"]["value"] == pytest.approx(hosts["server-1"]["utilisation"] / 4)
    for key in ("energy_total", "energy_edge", "energy_radio"):
        assert figures[key]["value"] is None
        assert "not given" in figures[key]["meaning"]
