"""Responses to alarms by policies of the user's own, and relays that fly to the alarms."""

from __future__ import annotations

import numpy as np
import pytest

from cosim.adapters.radio import ADAPTER
from cosim.adapters.radio.check import problems
from cosim.adapters.radio.config import RadioConfig
from cosim.adapters.radio.tests.test_jammers import alarm, frames
from cosim.adapters.radio.tests.test_radio_adapter import CALM, mobility, phone, scene, started, station, traffic
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Node
from cosim.contract.errors import ScenarioError, error_line
from cosim.contract.frame import fault
from cosim.contract.functions import search_in
from cosim.contract.signals import DESTINATION
from cosim.scenario.load import load

HEAD = """
import numpy as np
from cosim.schedulers.alarms import ANY, OFF, RadioOrders
from cosim.schedulers.state import decides

"""
STATIONS = (station("a", 0.0), station("b", 300.0), station("c", 500.0, carrier=3.6e9))


def drone(name, x, **cell):
    made = station(name, x, height=0.0, **cell)
    return Node(made.id, made.kind, made.tier, made.position, cell=made.cell, keys=(("vehicle", '{"frame":"copter"}'),))


@pytest.fixture
def policy(tmp_path):
    """Writes a policy's module beside the scenario; how to name its function `act`."""

    def write(text):
        number = len(list(tmp_path.iterdir()))
        (tmp_path / f"own_{number}.py").write_text(HEAD + text)
        search_in(tmp_path)
        return f"own_{number}:act"

    return write


def cells_of(do, nodes, alarms, steps, **response):
    config = {"time_to_trigger": "0 s", "response": {"do": do, **response}, **CALM}
    adapter = started(scene(*nodes), **config)
    slot = [k for k, node in enumerate(nodes) if node.cell is None]
    seen = []
    for time in range(steps):
        one = [alarm(float(time), slot, [time in alarms] * len(slot))]
        seen.append(frames(adapter, float(time), alarm=one)["link"]["cell"].tolist())
    return adapter, seen


@pytest.mark.parametrize(
    ("answer", "cells"),
    [
        ("np.where(state.devices['alarm'] != 0, 2, ANY)", [0, 2, 2, 0]),
        ("np.where(state.devices['alarm'] != 0, OFF, ANY)", [0, -1, -1, 0]),
        ("RadioOrders(carrier=3.6e9 * state.devices['alarm'])", [0, 2, 2, 0]),
        ("None", [0, 0, 0, 0]),
    ],
)
def test_a_policy_says_where_a_device_may_be(policy, answer, cells):
    do = policy(f"@decides('response')\ndef act(state):\n    return {answer}\n")
    adapter, seen = cells_of(do, (*STATIONS, phone("p", 50.0)), (1, 2), 4)
    assert seen == [[cell] for cell in cells]
    assert adapter.finish()["responses"] == int(cells[1] != 0)


def test_a_policy_wakes_spare_cells_and_remembers(policy):
    """A class is made anew for each run: this one keeps the cell awake for two steps after the alarm."""
    do = policy(
        "@decides('response')\nclass act:\n    def __init__(self):\n        self.until = -1.0\n\n"
        "    def __call__(self, state):\n        if state.devices['alarm'].any():\n"
        "            self.until = state.time + 2 * state.interval\n"
        "        return RadioOrders(awake=np.full(len(state.cells), state.time <= self.until))\n"
    )
    nodes = station("a", 0.0), phone("p", 90.0), station("spare", 100.0)
    for _ in range(2):
        adapter, seen = cells_of(do, nodes, (1,), 6, spare=["spare"])
        assert seen == [[0], [2], [2], [2], [0], [0]]
        assert adapter.finish()["responses"] == 1


def test_a_policy_sees_what_is_documented(policy):
    seen = []
    do = policy("seen = []\n\n@decides('response')\ndef act(state):\n    seen.append(state)\n")
    nodes = (*STATIONS, phone("p", 50.0), drone("d", 20.0))
    adapter = started(scene(*nodes), response={"do": do, "spare": ["d"]}, background="20 %", **CALM)
    for time in range(3):
        columns = {"score": [0.7], "on": [True], "cause": [1], "raised": [2]}
        one = alarm(float(time), [3], [True])
        one = type(one)("alarm", float(time), one.slot, {n: np.asarray(v) for n, v in columns.items()})
        moved = mobility(float(time), [4], [20.0 + time])
        busy = traffic(float(time), [3], 1, 2, sent=1e6 * time)
        adapter.step(float(time), Inputs({"alarm": [one], "mobility": [moved], "traffic": [busy]}, []))
    import sys

    seen = sys.modules[do.partition(":")[0]].seen
    state = seen[-1]
    assert (state.time, state.interval, state.names) == (2.0, 1.0, ("a", "b", "c", "d"))
    (device,) = state.devices
    reported_of = {name: float(device[name]) for name in state.devices.dtype.names}
    assert reported_of | {"uplink": 0.0, "downlink": 0.0} == {
        "slot": 3.0, "alarm": 1.0, "score": 0.7, "cause": 1.0, "raised": 2.0, "cell": 0.0, "uplink": 0.0,
        "downlink": 0.0, "uploads": 1.0, "downloads": 2.0, "x": 50.0, "y": 0.0, "z": 0.0,
    }  # fmt: skip
    assert min(reported_of["uplink"], reported_of["downlink"]) > 1e6
    cells = state.cells
    assert cells["slot"].tolist() == [0, 1, 2, 4]
    assert cells["carrier"].tolist() == [3.5e9, 3.5e9, 3.6e9, 3.5e9]
    assert cells["spare"].tolist() == cells["flies"].tolist() == [0, 0, 0, 1]
    assert cells["awake"].tolist() == [1, 1, 1, 0]
    assert cells["x"].tolist() == [0.0, 300.0, 500.0, 22.0]
    assert (cells["attached"].tolist(), cells["up"].tolist()) == ([1, 0, 0, 0], [1] * 4)
    assert cells["load"][0] > 0.2 == cells["load"][1]
    rsrp = adapter.step(3.0, Inputs())[0]["rsrp"][0]
    assert state.received()[0, 0] == pytest.approx(rsrp + 10 * np.log10(12 * 51))
    state.power[:] = 0.0  # a copy
    assert adapter.step(4.0, Inputs())[0]["cell"].tolist() == [0]


@pytest.mark.parametrize(
    ("answer", "reported_of"),
    [
        ("np.full(len(state.devices), 9)", "answered cell 9; expected 0..2, -1 for any or -2 for off the air"),
        ("np.full(len(state.devices), 0.5)", "answered cell 0.5; expected whole numbers"),
        ("[1, 2, 3]", "answered cell as int64 of shape (3,); expected 1 finite numbers"),
        ("RadioOrders(awake=[True])", "answered awake as bool of shape (1,); expected 3 finite numbers"),
        ("RadioOrders(carrier=[2e9])", "answered carrier 2e+09 Hz; expected 3.5e+09, 3.6e+09 Hz, or 0 for any"),
        ("RadioOrders(send={1: (0, 0, 9)})", "answered to send cell 1; expected one that flies: none"),
        ("'cell-2'", "answered cell as <U6 of shape ()"),
    ],
)
def test_orders_that_cannot_be_are_told_with_the_policy_and_its_line(policy, answer, reported_of):
    do = policy(f"@decides('response')\ndef act(state):\n    return {answer}\n")
    adapter = started(scene(*STATIONS, phone("p", 50.0)), response={"do": do}, **CALM)
    with pytest.raises(ValueError, match=r"response act \(.*own_0.py:6\)") as caught:
        adapter.step(0.0, Inputs())
    assert reported_of in str(caught.value)


def test_the_error_of_a_policy_is_told_with_its_line(policy):
    do = policy("@decides('response')\ndef act(state):\n    return 1 / 0\n")
    adapter = started(scene(*STATIONS, phone("p", 50.0)), response={"do": do}, **CALM)
    with pytest.raises(ZeroDivisionError) as caught:
        adapter.step(0.0, Inputs())
    assert "own_0.py:8, in act)" in error_line(caught.value)


@pytest.mark.parametrize(
    ("response", "path", "reported_of"),
    [
        ({"do": "nowhere:act"}, "do", "there is no module 'nowhere' beside the scenario file"),
        ({"do": "cosim.schedulers.policies:nothing"}, "do", "has no attribute 'nothing'"),
        ({"do": "cosim.schedulers.policies:edf"}, "do", "decides per interval, task; radio asks per response"),
        ({"do": "math:sqrt"}, "do", '@decides("response")'),
        ({"do": "math:sqrt", "hold": "5 s"}, "hold", "a policy is asked at every step"),
        ({"do": "other-cell", "to": "alarms"}, "to", "'to' belongs to relay-drone"),
        ({"do": "relay-drone", "spare": ["d"], "height": "9 m"}, "height", "write to: alarms as well"),
        ({"do": "math:sqrt", "spare": ["p"]}, "spare", "'p' is no base station"),
    ],
)
def test_responses_that_cannot_be_are_told(response, path, reported_of):
    config = RadioConfig.model_validate({"response": response})
    where = scene(station("a", 0.0), phone("p", 50.0), drone("d", 9.0))
    found = problems(config, Context("radio", where, 1.0, 9.0, (1,), ".", ".", written=("alarm",)))
    assert [(p.path, p.fatal) for p in found][:1] == [(f"adapters.radio.response.{path}", True)]
    assert reported_of in str(found[0])


def test_a_response_of_no_name_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'other-cell'"):
        RadioConfig.model_validate({"response": {"do": "other-cel"}})


def test_an_untrusted_scenario_may_not_bring_a_response(tmp_path, monkeypatch):
    monkeypatch.setenv("COSIM_UNTRUSTED", "1")
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    file = tmp_path / "scenario.cosim.yaml"
    file.write_text(
        "apiVersion: cosim/v1\nkind: Scenario\nname: guest\nrun: {duration: 1 s}\n"
        "nodes: {a: {kind: base-station, at: [0 m, 0 m]}}\nadapters: {radio: {response: {do: 'evil:act'}}}\n"
    )
    (tmp_path / "evil.py").write_text("raise SystemExit('it was imported')\n")
    with pytest.raises(ScenarioError, match="'evil:act', which is code"):
        load(file)


def test_a_relay_is_sent_to_the_middle_of_the_alarms_near_it_and_home_at_last():
    response = {"do": "relay-drone", "to": "alarms", "height": "25 m", "hold": "1.5 s", "spare": ["left", "right"]}
    people = [phone(f"p{k}", x) for k, x in enumerate((-60.0, -40.0, 60.0, 80.0))]
    nodes = (drone("left", -5.0), drone("right", 5.0), station("bs", 0.0), *people)
    adapter = started(scene(*nodes), response=response, **CALM)
    goals = []
    for time, who in enumerate(([], [3], [3, 4, 5, 6], [], [], [])):
        on = alarm(float(time), [3, 4, 5, 6], [slot in who for slot in (3, 4, 5, 6)])
        sent = frames(adapter, float(time), alarm=[on])["destination"]
        assert sent.slot.tolist() == [0, 1]
        assert fault(sent, DESTINATION, 7) == ""
        goals.append(np.column_stack([sent[axis] for axis in "xyz"]))
    home = [np.nan] * 3
    np.testing.assert_equal(goals[0], [home, home])
    np.testing.assert_equal(goals[1], [[-60.0, 0.0, 25.0], home])
    np.testing.assert_allclose(goals[2], [[-50.0, 0.0, 25.0], [70.0, 0.0, 25.0]])
    np.testing.assert_equal(goals[3], goals[2])  # the alarms are over, the response is not
    np.testing.assert_equal(goals[4], [home, home])


def test_a_relay_whose_vehicle_does_not_fly_to_orders_is_told():
    config = RadioConfig.model_validate({"response": {"do": "relay-drone", "to": "alarms", "spare": ["d"]}})
    where = scene(station("a", 0.0), drone("d", 9.0))
    for ordered, count in (([], 1), (["d"], 0)):
        context = Context("radio", where, 1.0, 9.0, (1,), ".", ".", offered={"vehicle": {"ordered": ordered}})
        assert len(problems(config, context)) == count


def test_only_responses_that_send_write_destinations():
    for response, writes in (
        (None, False),
        ({"do": "other-cell"}, False),
        ({"do": "x:y"}, True),
        ({"do": "relay-drone", "to": "alarms"}, True),
    ):
        ports = ADAPTER.ports_of(RadioConfig.model_validate({"response": response}))
        assert ("destination" in ports.writes) == writes
