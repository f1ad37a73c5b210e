"""Engagements that what is measured decides."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from cosim.adapters.vehicle import ADAPTER
from cosim.adapters.vehicle.config import VehicleConfig
from cosim.adapters.vehicle.tests.test_vehicle_adapter import DRONE, HOUSE, TRACTOR, WORK, Run
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Scene
from cosim.contract.errors import ScenarioError
from cosim.contract.frame import Frame
from cosim.physics.vehicles import phases

WORKING = "target.behaviour.state == 'working'"


def by(when, hysteresis="0 s", disengage=None, **keys):
    pair = {"drone": "uav", "target": "tractor", "engage": {"when": when, "hysteresis": hysteresis}, **keys}
    return [pair if disengage is None else {**pair, "disengage": disengage}]


def ordered(run):
    """Moments of all orders to engage that were written down."""
    return [record["t_command"] for record in run.adapter.finish()["engagements"]]


def test_a_drone_is_engaged_when_the_tractor_works_and_called_off_when_it_is_done():
    run = Run(missions={"tractor": {**WORK["tractor"], "start": "20 s"}}, engage=by(WORKING))
    run.to(19.0)
    assert run.states[0] == ["home-idle"]
    run.to(150.0)
    assert run.states[0][-4:] == ["follow", "return", "landing", "home-idle"]
    (found,) = run.ended
    assert phases.OUTCOMES[found["outcome"]] == "completed"
    assert phases.REASONS[found["reason"]] == "target-done"


def test_the_condition_must_hold_for_the_hysteresis():
    moments = [ordered_at("5 s"), ordered_at("15 s")]
    assert moments[1] - moments[0] == pytest.approx(10.0)


def ordered_at(hysteresis):
    run = Run(missions=WORK, engage=by(WORKING, hysteresis))
    run.to(30.0)
    (moment,) = ordered(run)
    return moment


def test_a_break_begins_the_hysteresis_anew():
    window = "(time >= 5 and time < 8) or time >= 20"
    run = Run(missions=WORK, engage=by(window, "4 s"))
    run.to(40.0)
    assert ordered(run) == [pytest.approx(24.0)]


def test_a_drone_is_called_off_and_engaged_again():
    pauses = [{"at": "40 s", "for": "60 s"}]
    missions = {"tractor": {**WORK["tractor"], "pauses": pauses}}
    off = {"when": "target.mobility.speed < 0.1", "hysteresis": "5 s"}
    run = Run(missions=missions, engage=by("target.mobility.speed > 0.5", "2 s", off))
    run.to(200.0)
    first, *rest = run.ended
    assert phases.REASONS[first["reason"]] == "disengaged"
    assert len(ordered(run)) >= 2
    assert rest or ordered(run)[1] > 100.0


def test_an_order_that_comes_to_nothing_is_not_given_again_and_again():
    run = Run(missions=WORK, engage=by(WORKING, reserve="100 %"))
    run.to(40.0)
    assert len(run.ended) == 1
    assert phases.REASONS[run.ended[0]["reason"]] == "battery"


def test_signals_of_others_decide():
    config = VehicleConfig.model_validate({
        "substep": "20 ms", "missions": WORK, "engage": by("drone.link.snr > 10 and target.link.loss < 0.1"),
    })  # fmt: skip
    ports = ADAPTER.ports_of(config)
    assert {read.signal: (read.delayed, read.required) for read in ports.reads} == {
        "peer_link": (True, False), "link": (True, False),
    }  # fmt: skip
    adapter = ADAPTER.build(config)
    adapter.start(Context("vehicle", Scene.build((DRONE, TRACTOR, HOUSE)), 1.0, 900.0, (3,), ".", "."))
    states = []
    for time in range(12):
        snr = np.array([5.0 if time < 6 else 20.0, 20.0])
        link = Frame("link", float(time), np.arange(2, dtype=np.int32), {"snr": snr, "loss": np.zeros(2)})
        frames = adapter.step(float(time), Inputs({"link": (link,)}, []))
        states.append(int(frames[2]["state"][0]))
    assert states[:6] == [0] * 6
    assert states[7] > 0


def test_without_conditions_nothing_more_is_read():
    plain = VehicleConfig.model_validate(
        {"engage": [{"drone": "uav", "target": "tractor", "commands": [{"at": "5 s"}]}]}
    )
    assert [read.signal for read in ADAPTER.ports_of(plain).reads] == ["peer_link"]


def test_a_function_of_one_s_own_decides(tmp_path, monkeypatch):
    (tmp_path / "farm_rules.py").write_text(
        "def near(view):\n"
        "    x = view.value('target', 'mobility', 'x')\n"
        "    return view.time > 7 and x is not None and view.value('drone', 'link', 'snr') is None\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    run = Run(missions=WORK, engage=[{
        "drone": "uav", "target": "tractor", "engage": {"when": "farm_rules:near", "reads": ["link", "mobility"]},
    }])  # fmt: skip
    run.to(20.0)
    assert ordered(run) == [pytest.approx(8.0)]


@pytest.mark.parametrize(
    ("engage", "words"),
    [
        (by("target.behaviour.state == 'wroking'"), "'wroking' is none of"),
        (by("drone.charge > 0.5"), "write ROLE.SIGNAL.COLUMN, at character 1"),
        (by("controller.host.utilisation < 0.5"), "there is no role 'controller'"),
        (by("no_such_module_here:near"), "there is no module 'no_such_module_here'"),
        (by(WORKING, disengage={"when": "time >"}), "cannot be read"),
    ],
)
def test_conditions_that_cannot_be_are_refused_with_their_place(engage, words):
    with pytest.raises(ScenarioError) as caught:
        Run(missions=WORK, engage=engage)
    (problem,) = caught.value.problems
    assert words in problem.message
    assert problem.path.endswith("when")


def test_a_signal_that_nobody_writes_is_refused():
    config = VehicleConfig.model_validate({"missions": WORK, "engage": by("drone.link.snr > 10")})
    scene = Scene.build((DRONE, TRACTOR, HOUSE))
    context = Context("vehicle", scene, 1.0, 900.0, (3,), ".", ".", written=("mobility", "vehicle"))
    (problem,) = ADAPTER.problems(config, context)
    assert problem.path == "adapters.vehicle.engage.0.engage.when"
    assert "no adapter of the scenario writes 'link'" in problem.message


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"commands": [{"at": "1 s"}], "engage": {"when": "time > 1"}},
        {"commands": [{"at": "1 s"}], "disengage": {"when": "time > 1"}},
        {"engage": {"when": "time > 1", "reads": ["link"]}},
        {"engage": {"when": ""}},
        {"engage": {"when": "time > 1", "hysteresis": 5}},
    ],
)
def test_keys_that_do_not_fit_are_refused(keys):
    with pytest.raises(ValidationError):
        VehicleConfig.model_validate({"engage": [{"drone": "uav", "target": "tractor", **keys}]})
