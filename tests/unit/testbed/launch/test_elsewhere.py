"""Nodes on other machines: their services go into files of their own, and a trunk leads to them."""

from __future__ import annotations

import pytest
from ruamel.yaml import YAML

from cosim.contract.errors import ScenarioError
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.testbed.launch.compose import divided, render
from tests.unit.testbed.launch.worlds import DRONE, EDGE, plan, write

LIVE = EDGE.replace("vedgenode", "vedgenode, live: {}")


def files(folder, made, elsewhere):
    main, others = divided(made, folder / "scenario.cosim.yaml", folder, None, (), elsewhere)
    read = YAML(typ="safe").load
    return read(main), {name: read(text) for name, text in others.items()}


def test_a_node_goes_with_its_sidecar_and_the_rest_stays(tmp_path):
    made = plan(tmp_path, adapters=", live: {}", uav_1=DRONE, host=LIVE, other=EDGE)
    whole = YAML(typ="safe").load(render(made, tmp_path / "scenario.cosim.yaml", tmp_path, None))
    main, others = files(tmp_path, made, {"h2": ["host"], "h3": ["uav-1"]})
    assert set(main["services"]) == {*whole["services"], "trunk"} - {"host", "host-net", "uav-1", "uav-1-net"}
    assert set(others["h2"]["services"]) == {"trunk-h2", "host", "host-net"}
    assert set(others["h3"]["services"]) == {"trunk-h3", "uav-1", "uav-1-net"}
    assert set(others["h2"]["volumes"]) == {"sockets", "key-host"}
    for document in (main, *others.values()):
        assert document["networks"]["management"]["external"]
        assert document["name"] == made.name  # so volumes of keys are called the same everywhere
    assert "control" not in others["h2"]["networks"]
    sidecar = others["h2"]["services"]["host-net"]
    assert sidecar["environment"] == whole["services"]["host-net"]["environment"]
    assert list(sidecar["depends_on"]) == ["trunk-h2"]
    ends = main["services"]["trunk"], others["h2"]["services"]["trunk-h2"]
    assert [end["command"][0] for end in ends] == ["near", "far"]
    for end in ends:
        assert end["cap_drop"] == ["ALL"]
        assert "cap_add" not in end
        assert end["networks"] == ["management"]


@pytest.mark.parametrize(
    ("elsewhere", "said"),
    [
        ({"h2": ["hots"]}, "there is no real node 'hots' to be on h2"),
        ({"h2": ["network"]}, "there is no real node 'network'"),
        ({"h2": ["host"], "h3": ["host"]}, "'host' is to be on two machines"),
    ],
)
def test_what_cannot_be_elsewhere_is_refused(tmp_path, elsewhere, said):
    made = plan(tmp_path, uav_1=DRONE, host=EDGE)
    with pytest.raises(ScenarioError, match=said):
        files(tmp_path, made, elsewhere)


def test_traffic_control_is_of_one_machine(tmp_path):
    path = write(tmp_path, uav_1=DRONE, host=EDGE)
    made = compile_plan(load(path, ["run.nodes=containers", "adapters.network.backend=tc"]))
    with pytest.raises(ScenarioError, match="traffic control carries no links between machines"):
        files(tmp_path, made, {"h2": ["host"]})
