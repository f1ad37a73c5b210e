from collections.abc import Callable
from pathlib import Path

import pytest

from cosim.contract.errors import RunError
from cosim.scenario.plan.plan import Plan
from cosim.scenario.plan.show import describe
from cosim.scenario.plan.store import plan_from_dict
from tests.plans import through_text

MakePlan = Callable[..., Plan]
TINY = """\
apiVersion: cosim/v1
kind: Scenario
name: tiny
run: {{duration: 1 s}}
adapters: {{traffic: {{}}}}
nodes: {{cars: {{kind: vehicle, fleet: traffic{more}}}}}
"""


def test_a_plan_survives_json_with_infinity(make_plan: MakePlan) -> None:
    plan = make_plan()
    again = through_text(plan, plan.root)
    assert again == plan
    assert again.hash == plan.hash
    assert again.scene.workloads[1].deadline == float("inf")
    assert isinstance(again.adapters[0].seed, tuple)


def test_something_else_is_refused(make_plan: MakePlan) -> None:
    data = make_plan().as_dict()
    del data["ticks"]
    with pytest.raises(RunError, match=r"not a plan of this version of cosim: ticks"):
        plan_from_dict(data, Path())


def test_the_description_names_everything(make_plan: MakePlan) -> None:
    plan = make_plan()
    text = describe(plan)
    for part in (
        "Plan of smart-farm: A farm", plan.hash, "600 s in 1,200 steps of 500 ms, as fast as possible",
        "air reads mobility from traffic", "air reads traffic from engine (one step later)", "cars (from traffic)",
        "100 Mbit/s", "poisson 2 Hz", "90 Mcycles", "degrade", "edge-1 / cloud", "own process", "every 10 s",
    ):  # fmt: skip
        assert part in text, part
    assert "of the rate" not in text
    assert all(adapter.name in text for adapter in plan.adapters)
    assert not any(line.endswith(" ") for line in text.splitlines())


def test_the_computers_on_board_of_a_fleet_are_named(make_plan: MakePlan) -> None:
    def reported(count: int) -> str:
        return describe(make_plan(text=TINY.format(more=f", capacity: {count}, runs: vedgenode")))

    assert "cars (from traffic), on board cars-1 .. cars-8" in reported(8)
    assert reported(1).count("cars (from traffic), on board cars-1 ") == 1


def test_the_smallest_plan_can_be_described(make_plan: MakePlan) -> None:
    assert "no adapter reads anything" in describe(make_plan(text=TINY.format(more="")))


def test_links_that_lose_in_rows_and_reorder_are_shown(make_plan: MakePlan) -> None:
    link = "{between: [a, b], delay: 20 ms, loss: 2 %, burst: 8, reorder: 1 %, duplicate: 0.5 %}"
    nodes = "{a: {kind: device}, b: {kind: edge, cpu: 1 x 1 GHz}}"
    text = describe(make_plan(text=TINY[: TINY.index("nodes")].format() + f"nodes: {nodes}\nlinks: [{link}]\n"))
    assert "20 ms, 1 % reordered  0.02, 8 in a row, 0.5 % twice" in text
