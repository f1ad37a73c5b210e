"""The compact form of a plan holds what the whole one holds."""

import json
from dataclasses import replace

import pytest

from cosim.contract.entities import Event, Fleet, Link, Node, Scene, SlotRange, alike
from cosim.contract.link import LinkState
from cosim.scenario.plan.compact import compact, expanded
from cosim.scenario.plan.compile import plan_of
from cosim.scenario.plan.store import plan_from_dict


def whole(plan):
    """What `dataclasses.asdict` and pydantic say, which write every node."""
    from dataclasses import asdict

    data = asdict(plan)
    for link in data["scene"]["links"]:
        link["state"] = link["state"]._asdict()
    del data["root"]
    return json.loads(json.dumps(data, default=lambda block: block.model_dump(mode="json", by_alias=True)))


@pytest.mark.parametrize("name", ["hello", "convoy", pytest.param("city-edge", marks=pytest.mark.sumo)])
def test_expanding_gives_every_node_and_every_range(name):
    plan = plan_of(f"scenarios/{name}")
    assert json.loads(json.dumps(plan.as_dict())) == whole(plan)
    assert plan_from_dict(json.loads(json.dumps(plan.as_dict())), plan.root) == plan


def test_a_range_of_nodes_is_written_once():
    plan = plan_of("scenarios/hello")
    one = Node("", "device", "device")
    nodes = tuple(replace(one, id=f"d-{k}", position=(float(k), 0.0, 0.0)) for k in range(1000))
    fleets = (Fleet("f", "sumo", 0, 5, one), Fleet("g", "sumo", 0, 7, one))
    every = (*(SlotRange(k) for k in range(1000)), SlotRange(1000, 5), SlotRange(1005, 7))
    scene = Scene.build(nodes, fleets, (Link(every, every[:1], LinkState(1.0)),))
    plan = replace(plan, scene=scene, events=(Event(1.0, "fail", every[3:5]),))
    short = compact(plan)
    assert len(short["scene"]["nodes"]["like"]) == 1
    assert short["scene"]["links"][0]["a"] == {"@slots": [[0, 1000], [1000, 5], [1005, 7]]}
    assert len(json.dumps(short["scene"])) < 60 * len(nodes)
    assert json.loads(json.dumps(expanded(json.loads(json.dumps(short))))) == whole(plan)


def test_data_that_was_never_compact_stays():
    assert expanded({"name": "town"}) == {"name": "town"}
    assert expanded({"scene": {"nodes": [{"id": "a"}]}}) == {"scene": {"nodes": [{"id": "a"}]}}


def test_nodes_of_one_sort_share_everything_but_name_and_place():
    a = Node("a", "edge", "edge")
    sorts, index = alike([a, replace(a, id="b"), replace(a, id="c", cores=4), replace(a, position=(1.0, 2.0, 3.0))])
    assert [node.cores for node in sorts] == [0, 4]
    assert index == [0, 0, 1, 0]
