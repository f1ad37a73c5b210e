"""A mosaik simulator on the bus: in process, by command, by connection, and when it fails."""

import asyncio
import os
import subprocess
import sys
import time as wall
from pathlib import Path

import numpy as np
import pytest

from cosim.adapters.mosaik import ADAPTER
from cosim.adapters.mosaik.adapter import MosaikAdapter
from cosim.adapters.mosaik.config import MosaikConfig
from cosim.adapters.mosaik.wiring import SlotNames
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Fleet, Node, Scene
from cosim.contract.errors import AdapterError, ScenarioError
from cosim.contract.frame import Frame, fault
from cosim.contract.signals import CATALOGUE
from tests.ports import free_port

HERE = Path(__file__).parent
TOYS = f"%(python)s {HERE / 'toys.py'} %(addr)s"
SCENE = Scene.build(
    tuple(Node(name, "edge", "edge") for name in ("edge-1", "edge-2", "edge-3", "cloud")),
    (Fleet("car", "sumo", 0, 3, Node("car", "car", "device")),),
)
SUM = {
    "models": [{"model": "Sum", "nodes": "edge-*"}],
    "inputs": [{"signal": "host", "column": "power", "to": "Sum.add"}],
    "outputs": [{"from": "Sum.total", "signal": "load", "column": "total", "unit": "J"}],
}


@pytest.fixture
def start(tmp_path):
    """Starts an adapter on a configuration, and closes it in the end."""
    started = []

    def make(toy=None, *, duration=10.0, period=1.0, **block):
        block.setdefault("simulator", {"python": f"cosim.adapters.mosaik.tests.toys:{toy}"})
        block.setdefault("timeout", "20 s")
        adapter = MosaikAdapter(MosaikConfig.model_validate(block))
        started.append(adapter)
        adapter.start(Context("toy", SCENE, period, duration, (1, 2), str(tmp_path), str(tmp_path)))
        return adapter

    yield make
    for adapter in started:
        adapter.close()


def host(time, power):
    """A host frame with `power` at the first slots, NaN where it is None."""
    n = len(power)
    columns = {column.name: np.zeros(n, column.dtype) for column in CATALOGUE["host"].columns}
    columns["power"] = np.array([np.nan if value is None else value for value in power])
    return Inputs({"host": (Frame("host", time, np.arange(n, dtype=np.int32), columns),)})


def totals(adapter, steps, power=(1.0, 10.0, 100.0), period=1.0):
    rows = []
    for k in range(steps):
        (frame,) = adapter.step(k * period, host(k * period, power))
        rows.append(frame["total"].tolist())
    return rows


def sim(adapter):
    """The object behind an adapter whose simulator runs in process."""
    proxy = adapter.backend._proxy
    while not hasattr(proxy, "sim"):
        proxy = proxy._out
    return proxy.sim


def test_each_entity_gets_and_gives_the_value_of_its_node(start):
    assert totals(start("Toy", **SUM), 3) == [[1, 10, 100], [2, 20, 200], [3, 30, 300]]


def test_frames_keep_to_the_signal_that_the_outputs_declare(start):
    adapter = start("Toy", **SUM)
    config = adapter.config
    (frame,) = adapter.step(0.0, host(0.0, [1.0]))
    (signal,) = ADAPTER.signals_of(config)
    assert fault(frame, signal, SCENE.capacity) == ""
    assert frame.slot.tolist() == [0, 1, 2]
    assert (signal.column("total").unit, signal.column("total").meaning) == ("J", "Sum.total")
    assert [read.signal for read in ADAPTER.ports_of(config).reads] == ["host"]
    assert ADAPTER.ports_of(config).writes == ("load",)


def test_absent_rows_and_nan_are_no_values(start):
    adapter = start("Toy", **SUM)
    totals(adapter, 1, (1.0, None))
    assert sim(adapter).seen[0][2] == {"Sum0": {"add": {"host.edge-1": 1.0}}}


def test_an_entity_without_a_node_gets_the_values_of_all_selected(start):
    block = {**SUM, "models": [{"model": "Sum"}], "inputs": [{**SUM["inputs"][0], "nodes": ["edge-*", "car"]}]}
    adapter = start("Toy", **{**block, "outputs": [{**SUM["outputs"][0], "nodes": ["edge-2", "cloud"]}]})
    (frame,) = adapter.step(0.0, host(0.0, [1.0, 2.0, 4.0, 8.0, 16.0]))
    assert sim(adapter).seen[0][2]["Sum0"]["add"] == {
        "host.edge-1": 1.0, "host.edge-2": 2.0, "host.edge-3": 4.0, "host.car.0": 16.0,
    }  # fmt: skip
    assert (frame.slot.tolist(), frame["total"].tolist()) == ([1, 3], [23.0, 23.0])


def test_several_free_entities_go_to_as_many_nodes(start):
    models = [{"model": "Sum", "count": 2, "params": {"start": 5.0}}]
    adapter = start("Toy", models=models, outputs=[{**SUM["outputs"][0], "nodes": ["edge-1", "cloud"]}])
    (frame,) = adapter.step(0.0, Inputs())
    assert (frame.slot.tolist(), frame["total"].tolist()) == ([0, 3], [5.0, 5.0])


def test_children_with_the_name_of_a_node_belong_to_it(start):
    block = {"models": [{"model": "Sum"}], "outputs": [{**SUM["outputs"][0], "from": "Part.total", "nodes": "edge-*"}]}
    (frame,) = start("Parent", **block).step(0.0, Inputs())
    assert (frame.slot.tolist(), frame["total"].tolist()) == ([0, 1], [1.0, 2.0])


def test_columns_that_refer_to_nodes_arrive_as_names(start):
    block = {**SUM, "inputs": [{"signal": "link", "column": "cell", "to": "Sum.add"}]}
    adapter = start("Toy", **block)
    sim(adapter).step = lambda time, inputs, max_advance: adapter.seen.append(inputs) or time + 1
    adapter.seen = []
    columns = {column.name: np.zeros(2, column.dtype) for column in CATALOGUE["link"].columns}
    columns["cell"][:] = (3, -1)
    adapter.step(0.0, Inputs({"link": (Frame("link", 0.0, np.arange(2, dtype=np.int32), columns),)}))
    assert adapter.seen == [{"Sum0": {"add": {"link.edge-1": "cloud"}}}]


def test_a_signal_of_the_catalogue_may_be_written_whole(start):
    outputs = [
        {"from": "Sum.total", "signal": "cell", "column": name}
        for name in ("attached", "active", "utilisation", "rate")
    ]
    adapter = start("Toy", models=[{"model": "Sum", "nodes": "edge-1", "params": {"start": 1.0}}], outputs=outputs)
    (frame,) = adapter.step(0.0, Inputs())
    assert fault(frame, CATALOGUE["cell"], SCENE.capacity) == ""
    assert frame["attached"].tolist() == [1]
    assert ADAPTER.signals_of(adapter.config) == ()


@pytest.mark.parametrize(
    ("selector", "slots"),
    [
        ("edge-[2..9]", [1, 2]), ("edge-?", [0, 1, 2]), ("*", [0, 1, 2, 3]), ("cloud", [3]), ("cl", []),
        ("kind:edge", [0, 1, 2, 3]), ("tier:cloud", []), (["cloud", "edge-1"], [0, 3]), ("edge-[1.3]", []),
    ],
)  # fmt: skip
def test_nodes_are_selected_as_elsewhere_in_a_scenario(selector, slots):
    assert SlotNames(SCENE).static(selector) == slots


def test_members_of_a_fleet_are_selected_by_its_name():
    assert SlotNames(SCENE).members("c*r") == [4, 5, 6]
    assert SlotNames(SCENE).members("kind:car") == [4, 5, 6]


def test_each_attribute_is_requested_once(start):
    outputs = [{"from": "Sum.total", "signal": "load", "column": name} for name in ("a", "b")]
    adapter = start("Toy", models=SUM["models"], outputs=outputs)
    assert adapter.requests == {f"Sum{k}": ["total"] for k in range(3)}


# -- time --------------------------------------------------------------------------------------


def test_a_coarse_simulator_is_stepped_when_it_is_due_and_held_in_between(start):
    assert [row[0] for row in totals(start("Coarse", **SUM), 5)] == [1, 1, 1, 2, 2]


def test_a_fine_simulator_makes_all_its_steps(start):
    adapter = start("Toy", resolution="250 ms", **SUM)
    assert [row[0] for row in totals(adapter, 3)] == [1, 5, 9]
    assert [(time, last) for time, last, _ in sim(adapter).seen][:2] == [(0, 41), (1, 41)]


def test_an_event_based_simulator_is_stepped_by_values(start, caplog):
    adapter = start("Eventful", **SUM)
    assert "event-based" in caplog.text
    assert [adapter.step(0.0, Inputs())[0]["total"].tolist()] == [[pytest.approx(float("nan"), nan_ok=True)] * 3]
    assert totals(adapter, 1, (1.0,), period=0)[0][0] == 1
    assert sim(adapter).seen[0][:2] == (0, 0)


def test_a_hybrid_simulator_is_stepped_by_values_and_by_itself(start):
    adapter = start("Hybrid", **SUM)
    for time, power in ((0.0, ()), (1.0, ()), (2.0, (1.0,)), (5.0, ()), (6.0, ())):
        adapter.step(time, host(time, power))
    assert [(time, last) for time, last, _ in sim(adapter).seen] == [(0, 11), (2, 2), (6, 11)]


def test_a_simulator_may_ask_for_progress_and_entities(start):
    adapter = start("Asking", **SUM)
    assert totals(adapter, 2)[1] == [2, 20, 200]
    progress, graph = sim(adapter).asked
    assert progress == pytest.approx(100 / 11)
    assert graph["nodes"]["toy.Sum0"] == {"type": "Sum"}


def test_an_older_version_of_the_api_is_adapted(start):
    assert totals(start("Old", **SUM), 2)[1] == [2, 20, 200]


def test_it_may_be_stepped_inside_a_running_event_loop(start):
    async def inside():
        return totals(start("Toy", **SUM), 2)

    assert asyncio.run(inside())[1] == [2, 20, 200]


def test_a_step_that_does_not_fit_is_refused(start):
    with pytest.raises(ScenarioError, match="not a whole number of resolutions"):
        start("Toy", resolution="300 ms", **SUM)


# -- other processes ---------------------------------------------------------------------------


def test_by_command_gives_the_same_bits_as_in_process(start):
    here = totals(start("Toy", **SUM), 5, (0.1, 0.7, 1e-9))
    there = start(simulator={"command": f"{TOYS} Toy"}, **SUM)
    pid = there.backend._process.pid
    assert totals(there, 5, (0.1, 0.7, 1e-9)) == here
    assert there.finish()["entities"] == {"Sum": 3}
    there.close()
    assert not alive(pid)


def test_by_connection(start):
    port = free_port()
    command = [sys.executable, str(HERE / "toys.py"), f"127.0.0.1:{port}", "Toy", "--remote"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                adapter = start(simulator={"connect": f"127.0.0.1:{port}"}, **SUM)
                break
            except AdapterError:  # not listening yet
                wall.sleep(0.1)
        assert totals(adapter, 2)[1] == [2, 20, 200]
        adapter.finish()
        adapter.close()
        server.wait(60)
    finally:
        server.kill()
        server.wait()


def test_a_simulator_published_by_others_runs_unmodified(start, tmp_path):
    pytest.importorskip("mosaik_csv")
    rows = "".join(f"2030-06-01 12:{minute:02}:00, {100 + minute}.5, {minute}\n" for minute in range(5))
    (tmp_path / "solar.csv").write_text("Solar\ntime, P, price\n" + rows)
    adapter = start(
        simulator={"python": "mosaik_csv:CSV"},
        resolution="1 s",
        params={"sim_start": "2030-06-01 12:00:00", "datafile": "%(root)s/solar.csv"},
        models=[{"model": "Solar"}],
        outputs=[
            {"from": "Solar.P", "signal": "solar", "column": "power", "unit": "W", "nodes": "edge-*"},
            {"from": "Solar.price", "signal": "solar", "column": "price", "nodes": "cloud"},
        ],
        period=30.0,
        duration=120.0,
    )
    frames = [adapter.step(time, Inputs())[0].copy() for time in (0.0, 30.0, 60.0, 90.0, 120.0)]
    assert [frame["power"][0] for frame in frames] == [100.5, 100.5, 101.5, 101.5, 102.5]
    assert frames[4]["price"].tolist() == pytest.approx([float("nan")] * 3 + [2.0], nan_ok=True)


# -- failures ----------------------------------------------------------------------------------


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("way", ["python", "command"])
@pytest.mark.parametrize(
    ("toy", "expected"),
    [
        ("Raising", "step raised ValueError: two is too much"),
        ("Standing", "returned 0 as its next step, which is not later"),
        ("Talking", "Sum0.total is 'a lot'; only numbers can become a column"),
        ("Silent", "get_data left out Sum0.total"),
    ],
)
def test_a_simulator_that_misbehaves_is_named(start, way, toy, expected):
    target = f"{TOYS} {toy}" if way == "command" else f"cosim.adapters.mosaik.tests.toys:{toy}"
    adapter = start(simulator={way: target}, **SUM)
    with pytest.raises(AdapterError) as caught:
        totals(adapter, 3)
    assert expected in str(caught.value)
    assert "adapter 'toy' failed in step at" in str(caught.value)
    if toy == "Raising":
        assert "two is too much" in caught.value.remote_traceback


@pytest.mark.chaos
def test_a_process_that_dies_is_told_with_its_last_words(start):
    adapter = start(simulator={"command": f"{TOYS} Dying"}, **SUM)
    with pytest.raises(AdapterError, match=r"exit code 7 and last wrote:\n(.*\n)*my last words"):
        totals(adapter, 3)


@pytest.mark.chaos
@pytest.mark.parametrize("way", ["python", "command"])
def test_a_simulator_that_hangs_is_left_at_the_limit(start, way):
    target = f"{TOYS} Hanging" if way == "command" else "cosim.adapters.mosaik.tests.toys:Hanging"
    adapter = start(simulator={way: target}, timeout="10 s" if way == "command" else "1 s", **SUM)
    adapter.backend.timeout = 1.0
    with pytest.raises(AdapterError, match="the bus waited 1 s for it to answer 'step'"):
        totals(adapter, 3)
    process = adapter.backend._process
    adapter.close()
    assert process is None or not alive(process.pid)


def test_a_command_that_ends_before_it_connects_is_told_at_once(start):
    with pytest.raises(AdapterError, match=r"ended during start.*exit code 3"):
        start(simulator={"command": "%(python)s -c 'import sys; sys.exit(3)' %(addr)s"}, **SUM)


@pytest.mark.parametrize(
    ("simulator", "expected"),
    [
        ({"command": "no-such-program %(addr)s"}, "'no-such-program' cannot be started"),
        ({"python": "cosim.adapters.mosaik.tests.toys:Quitting"}, "it gave up: no licence"),
        ({"connect": "127.0.0.1:1"}, "Could not connect"),
        ({"python": "cosim.adapters.mosaik.tests.toys:Doubling"}, "the same entity id twice"),
    ],
)
def test_a_simulator_that_cannot_be_started_is_told(start, simulator, expected):
    with pytest.raises(AdapterError) as caught:
        start(simulator=simulator, **SUM)
    assert caught.value.phase == "start"
    assert expected in str(caught.value)


@pytest.mark.parametrize("place", ["no_such_module:Sim", "cosim.adapters.mosaik.tests.toys:Nobody"])
def test_a_class_that_cannot_be_imported_is_refused(start, place):
    with pytest.raises(ScenarioError, match=f"adapters.toy.simulator.python: '{place}' cannot be imported"):
        start(simulator={"python": place}, **SUM)


def test_an_error_while_finalizing_is_raised(start):
    with pytest.raises(AdapterError, match="cannot write my file"):
        start("Leaving", **SUM).finish()


def test_all_unknown_names_are_told_at_once_with_the_known_ones(start):
    with pytest.raises(AdapterError) as caught:
        start(
            "Toy",
            models=[{"model": "Product"}, {"model": "Sum", "nodes": "edge-*", "params": {"begin": 1}}],
            inputs=[{"signal": "host", "column": "power", "to": "Sum.subtract"}],
            outputs=[{"from": "Quotient.total", "signal": "load", "column": "total"}],
        )
    text = str(caught.value)
    assert "adapters.toy.models[0].model: the simulator has no model 'Product'; it has Sum" in text
    assert "Sum has no parameter 'begin'; it has start" in text
    assert "Sum has no attribute 'subtract'; it has add, total, step" in text
    assert "no model 'Quotient'; it has Sum, Part" in text


def test_members_of_a_fleet_cannot_have_entities(start):
    with pytest.raises(ScenarioError, match="come and go"):
        start("Toy", **{**SUM, "models": [{"model": "Sum", "nodes": "car"}]})


def test_nodes_that_are_not_there_are_refused(start):
    with pytest.raises(ScenarioError, match=r"no node matches 'fog-\*'; the scenario has edge-1"):
        start("Toy", **{**SUM, "models": [{"model": "Sum", "nodes": "fog-*"}]})


def test_outputs_of_free_entities_need_nodes(start):
    with pytest.raises(AdapterError, match="belong to no node"):
        start("Toy", **{**SUM, "models": [{"model": "Sum"}]})


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"simulator": {}}, "exactly one of"),
        ({"simulator": {"python": "a:B", "connect": "h:1"}}, "exactly one of"),
        ({"simulator": {"command": "run me"}}, "must contain %\\(addr\\)s"),
        ({"models": [{"model": "Sum", "nodes": "a", "count": 2}]}, "exclude each other"),
        ({"outputs": [*SUM["outputs"], *SUM["outputs"]]}, "two outputs write load.total"),
        ({"outputs": [{"from": "Sum.total", "signal": "cell", "column": "rate"}]}, "also needs active, attached"),
        ({"outputs": [{"from": "Sum.total", "signal": "task", "column": "late"}]}, "holds events"),
        ({"inputs": [{**SUM["inputs"][0], "column": "watts"}]}, "signal 'host' has no column 'watts'"),
        ({"inputs": [*SUM["inputs"], {**SUM["inputs"][0], "delayed": True}]}, "both delayed and not"),
        ({"inputs": [{**SUM["inputs"][0], "to": "Sum"}]}, "pattern"),
    ],
)
def test_a_block_that_cannot_work_is_refused(change, expected):
    with pytest.raises(ValueError, match=expected):
        MosaikConfig.model_validate({"simulator": {"python": "a:B"}, **SUM, **change})
