"""Members of a fleet as live nodes: who they are, whom they call, and what is not made while they are away."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.adapters.live.adapter import LiveAdapter
from cosim.adapters.live.arrivals import LiveArrivals
from cosim.adapters.live.check import unsendable
from cosim.adapters.live.choice import PORT, NodeChoice
from cosim.adapters.live.config import LiveConfig, OffloadBlock
from cosim.adapters.live.tests.test_live_adapter import checked, context, workload
from cosim.adapters.live.tests.test_live_real import CALLS, RUNS
from cosim.contract.adapter import Inputs
from cosim.contract.entities import Fleet, Link, Node, Scene, SlotRange, Stage
from cosim.contract.errors import ScenarioError
from cosim.contract.frame import Frame
from cosim.contract.laws import Law
from cosim.contract.link import LinkState
from cosim.contract.node_keys import Cell, Live, Radio
from cosim.contract.slots import SlotBook
from cosim.engine.continuum.arrivals import SourceTask, TaskSource, engine_seed
from cosim.results.ledgers import ledger_faults
from cosim.testbed.live.lease import Lease, NodeSlot
from cosim.testbed.live.roster import Roster
from cosim.testbed.live.task_queue import TaskResult

RADIO, CELL = Radio(), Cell()
LIVE = Live.si(lease=5.0, interval=0.1, wait=15.0)
TRUCK = Node("trucks", "vehicle", "device", cores=2, radio=RADIO, runs=RUNS, live=LIVE, missing="wait")
BASE = Node("north", "base-station", "edge", (0, 0, 0), cores=2, cell=CELL, runs=RUNS, live=LIVE, missing="wait")
LINKS = (Link((SlotRange(0),), (SlotRange(1),), LinkState(1e9, 0.001)),)
BLOCK = OffloadBlock.model_validate(CALLS)


def scene(*workloads, truck=TRUCK, real="netns"):
    nodes = (BASE, replace(BASE, id="south"), replace(BASE, id="mute", runs=None, live=None))
    return Scene.build(nodes, (Fleet("trucks", "sumo", 0, 3, truck),), LINKS, workloads, real=real)


def mobility(book, *members):
    slots = book.assign(list(members))
    zeros = {name: np.zeros(len(slots)) for name in ("x", "y", "z", "speed", "heading")}
    return Frame("mobility", 0.0, slots, zeros, book.table())


def link(**cells):
    """trucks_1=0: the first slot is served by the node at slot 0."""
    slots = np.array([2 + int(name[-1]) for name in cells], np.int32)
    return Frame("link", 0.0, slots, {"cell": np.array(list(cells.values()), np.int32)})


def roster(found, *idle):
    """All live nodes are there; those in `idle` offer no service."""
    live = [(slot, node) for slot, node in found.computers() if node.live is not None]
    made = Roster([NodeSlot(slot, node.id, node.id, 9.0, 1.0, True, False) for slot, node in live], random=bytes)
    for standing in made.standings:
        name = standing.slot.node
        works = [] if name in idle else ["call"] if name.startswith("trucks") else ["forward"]
        facts = {"works": works, "window": 4, "cores": 2}
        standing.lease = Lease(standing.slot.number, b"", b"", b"", facts, 0.0, 9.0)
    return made


def test_a_device_calls_the_base_station_that_serves_it():
    found = scene()
    choice, there = NodeChoice(found), roster(found)
    for _ in range(3):
        choice.sent("south")  # busy, and yet it serves
    choice.served([link(trucks_1=1, trucks_2=0)])
    assert choice.called(there, "trucks-1") == ("south", f"10.172.0.2:{PORT}")
    assert choice.called(there, "trucks-2") == ("north", f"10.172.0.1:{PORT}")
    assert choice.called(there, "trucks-3")[0] == "north"  # served by nobody: whoever has least to do
    choice.served([link(trucks_1=0)])
    assert choice.called(there, "trucks-1")[0] == "north"
    assert choice.slot("trucks-3") == 5
    for cell in (-1, 2):  # out of coverage; a base station without software
        choice.served([link(trucks_1=cell)])
        assert choice.called(there, "trucks-1")[0] == "north"
    choice.served([link(trucks_1=1)])
    assert choice.called(roster(found, "south"), "trucks-1")[0] == "north"  # it has no service


@given(st.lists(st.tuples(st.sets(st.integers(0, 4), max_size=3), st.lists(st.integers(0, 2), max_size=4)), max_size=8))
def test_tasks_are_made_for_vehicles_that_are_there(tmp_path_factory, steps):
    """Each step says who is there, then from which slots tasks arrive."""
    found = scene(workload(1.0, sources=(SlotRange(3, 3),)))
    adapter = LiveAdapter(LiveConfig.model_validate({"offload": {"detect": CALLS}}))
    adapter.start(_unreal(tmp_path_factory))
    adapter._choice = NodeChoice(found)
    gateway = _Gateway(roster(found))
    book, made, skipped = SlotBook(3, 3, "trucks"), 0, 0
    for members, arrivals in steps:
        frame = mobility(book, *(f"v{k}" for k in sorted(members)))
        assert len(checked(adapter.step(0.0, Inputs({"mobility": (frame,)})))["resources"]) == 0
        here = set(frame.slot.tolist())
        for k in arrivals:
            adapter._make(gateway, 0, BLOCK, SourceTask(0.0, 3 + k, 100, 10, 1e6, 100), 0.0)
            made, skipped = made + (3 + k in here), skipped + (3 + k not in here)
    summary = adapter.finish()
    assert (summary["tasks"]["created"], summary["skipped"]) == (made, skipped)
    assert ledger_faults(summary) == []
    assert gateway.offered == made
    adapter.close()


def _unreal(factory):
    return context(factory.mktemp("run"), scene(workload(1.0, sources=(SlotRange(3, 3),)), real=""), pacing=0.0)


def test_a_member_makes_the_tasks_of_the_step_in_which_it_came(tmp_path_factory):
    """The frame is a step old when it is read; the model has had the member since then."""
    load = workload(1.0, sources=(SlotRange(3, 3),))
    adapter = LiveAdapter(LiveConfig.model_validate({"offload": {"detect": CALLS}}))
    adapter.start(context(tmp_path_factory.mktemp("run"), scene(load, real=""), pacing=0.0))
    old = mobility(SlotBook(3, 3, "trucks"), "v1")
    adapter._come_and_go(2.5, [Frame("mobility", 2.0, old.slot, dict(old.columns), old.table)])
    ((_, _, arrivals),) = adapter._arrivals
    seed = engine_seed(context(tmp_path_factory.mktemp("other"), scene(load)).seed_of("continuum"))
    expected = list(TaskSource(seed, load, 0, 3, int(old.table.generation[0]), 2.0).until(9.0))
    assert list(arrivals.until(9.0)) == expected
    adapter.close()


class _Gateway:
    """Takes everything, and says `ended` when it is asked for results."""

    def __init__(self, there):
        self.roster, self.offered, self.lock = there, 0, threading.RLock()
        self.bodies, self.ended = [], []

    def offer(self, _node, queued):
        self.offered += 1
        self.bodies.append(queued.make())
        return True

    def results(self):
        found, self.ended = self.ended, []
        return found


@pytest.mark.parametrize(
    ("more", "least", "size"),
    [
        ({}, 0.0, 256),
        ({"pace": "node"}, 2.5, 256),
        ({"kernel": "hold"}, 2.5, 1),
        ({"kernel": "hold", "size": 40}, 0.0, 40),
    ],
)
def test_a_host_may_take_the_time_of_its_own_clock_and_is_free_when_its_answer_is_here(
    tmp_path_factory, more, least, size
):
    """5e9 cycles, 2.5e9 of them on board, at 1 GHz; and the second task finds the first one's host free again."""
    found = scene(workload(1.0, sources=(SlotRange(3, 3),)))
    adapter = LiveAdapter(LiveConfig.model_validate({"offload": {"detect": CALLS}}))
    adapter.start(_unreal(tmp_path_factory))
    adapter._choice, adapter._clocks = NodeChoice(found), {"north": 1e9, "south": 1e9}
    adapter.step(0.0, Inputs({"mobility": (mobility(SlotBook(3, 3, "trucks"), "v0"),)}))
    gateway = _Gateway(roster(found))
    block = OffloadBlock.model_validate({**CALLS, **more})
    for ended in ([], [TaskResult(0, 3, "done", 0.0, 0.0, 0.1, 0.1, 0.2, 0.3, 10, "")]):
        gateway.ended = ended
        adapter._make(gateway, 0, block, SourceTask(0.0, 3, 100, 10, 5e9, 100, 2.5e9), 0.0)
    assert [(body["least"], body["size"]) for body in gateway.bodies] == [(least, size)] * 2
    assert len({body["to"] for body in gateway.bodies}) == 1
    adapter._make(gateway, 0, block, SourceTask(0.0, 3, 100, 10, 5e9, 100, 2.5e9), 0.0)
    assert gateway.bodies[2]["to"] != gateway.bodies[1]["to"]
    adapter.close()


def test_members_without_software_cannot_be_live(tmp_path):
    adapter = LiveAdapter(LiveConfig())
    with pytest.raises(ScenarioError, match=r"nodes\.trucks\.live: members of a fleet come and go") as caught:
        adapter.start(context(tmp_path, scene(truck=replace(TRUCK, runs=None))))
    assert "give them 'runs'" in str(caught.value)
    with pytest.raises(ScenarioError, match=r"nodes\.trucks\.live\.lease"):
        adapter.start(context(tmp_path, scene(truck=replace(TRUCK, live=LIVE.model_copy(update={"lease": 0.001})))))


def test_a_fleet_with_software_can_send_over_the_network():
    load = workload(1.0, sources=(SlotRange(3, 3),))
    assert unsendable(scene(load), {"detect": BLOCK}, "live") == []
    (wrong,) = unsendable(scene(load, truck=replace(TRUCK, runs=None, live=None)), {"detect": BLOCK}, "live")
    assert "tasks of trucks cannot cross" in wrong.message


def stage(name, *after, pinned=False, work=2e6, output=60.0, accelerator=""):
    return Stage(name, Law("fixed", work), Law("fixed", output), after, pinned, accelerator)


FILTER, DETECT = stage("filter", pinned=True, work=3e6), stage("detect", 0, work=5e6, output=7.0)


def test_stages_in_a_line_are_done_on_board_and_at_the_host():
    load = workload(10.0, sources=(SlotRange(3, 3),), graph=(FILTER, DETECT, stage("sort", 1, output=4.0)))
    assert unsendable(scene(load), {"detect": BLOCK}, "live") == []
    arrivals = LiveArrivals(1, load, 0, BLOCK)
    arrivals.appear(3)
    (first, *_) = arrivals.until(1.0)
    assert (first.input, first.sent, first.output) == (1000, 60, 4)
    assert (first.onboard, first.work) == (3e6, 10e6)
    every = workload(10.0, graph=(stage("all"),))  # nothing on board: the input is sent
    arrivals = LiveArrivals(1, every, 0, BLOCK)
    arrivals.appear(arrivals.slots[0])
    (one, *_) = arrivals.until(1.0)
    assert (one.input, one.sent, one.onboard, one.work) == (1000, 1000, 0.0, 2e6)


@pytest.mark.parametrize(
    "graph",
    [
        (FILTER,), (stage("far"), stage("back", 0, pinned=True)), (FILTER, DETECT, stage("other", 0)),
        (FILTER, stage("detect", 0, accelerator="gpu")),
    ],
    ids=["on board only", "back on board", "side by side", "accelerator"],
)  # fmt: skip
def test_other_graphs_are_refused(graph):
    load = workload(1.0, sources=(SlotRange(3, 3),), graph=graph)
    (wrong,) = unsendable(scene(load), {"detect": BLOCK}, "live")
    assert "live nodes do not run stages" in wrong.message
    assert "those on board first" in wrong.hint


def test_over_management_no_graph_is_run():
    load = workload(1.0, graph=(FILTER, DETECT))
    (wrong,) = unsendable(scene(load), {"detect": OffloadBlock()}, "live")
    assert "stages" in wrong.message
