"""Nodes: which keys they end up with, and what selectors select."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cosim.scenario.load import load
from cosim.scenario.resolve import Resolved, expand

Farm = Callable[..., Path]


def node(farm: Farm, name: str, *changes: tuple[str, str]) -> Resolved:
    return next(node for node in load(farm(*changes)).world.everything if node.id == name)


def test_later_blocks_win_key_by_key(farm: Farm) -> None:
    power = node(farm, "edge-1").block.power
    assert power is not None
    assert (power.idle, power.max) == (2.7, 8.0)  # idle from the kind, max from the node


def test_defaults_kinds_groups_and_node_in_this_order(farm: Farm) -> None:
    changes = (
        ("kinds:\n", 'defaults: {slots: 1, memory: 1 GiB, color: "#000000"}\nkinds:\n  cloud: {slots: 2}\n'),
        ("groups:\n", "groups:\n  big: {members: [cloud, edge-1], slots: 3}\n  bigger: {members: cloud, slots: 4}\n"),
    )
    assert node(farm, "cloud", *changes).block.slots == 4
    assert node(farm, "edge-1", *changes).block.slots == 3
    assert node(farm, "mast", *changes).block.slots == 1
    assert node(farm, "cloud", *changes, ("{kind: cloud,", "{kind: cloud, slots: 5,")).block.slots == 5
    assert node(farm, "cloud", *changes).block.color == "#b279a2"  # the kind's, above the defaults


def test_kinds_start_from_other_kinds_and_from_the_built_in_one(farm: Farm) -> None:
    own = ("kinds:\n", "kinds:\n  scout: {kind: drone, slots: 2}\n  drone: {kind: uav, radio: {power: 20 dBm}}\n")
    scout = node(farm, "uav-1", ("{kind: uav,", "{kind: scout,"), own)
    assert scout.kind == "scout"
    assert scout.block.tier == "device"
    assert scout.block.radio is not None
    assert (scout.block.radio.power, scout.block.radio.height, scout.block.slots) == (20.0, 0.0, 2)
    assert node(farm, "edge-1").block.tier == "edge"  # 'kinds.edge' adds to the built-in kind


def test_null_takes_a_part_away(farm: Farm) -> None:
    assert node(farm, "uav-1", ("at: [0 m, 20 m]", "radio: null")).block.radio is None


def test_a_table_replaces_idle_and_max(farm: Farm) -> None:
    power = node(farm, "edge-1", ("power: {max: 8 W}", "power: {table: [1 W, 2 W]}")).block.power
    assert power is not None
    assert power.table == [1.0, 2.0]
    kind = ("power: {idle: 2.7 W, max: 6.4 W}", "power: {table: [1 W, 2 W]}")
    power = node(farm, "edge-1", kind).block.power
    assert power is not None
    assert (power.table, power.max) == (None, 8.0)


def test_groups_may_give_the_kind(farm: Farm) -> None:
    changes = (('"uav-*", color', '"uav-*", kind: rover, color'), ("{kind: uav, at", "{at"))
    assert node(farm, "uav-2", *changes).kind == "rover"


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("edge", ["edge"]),
        ("uav-[1..3]", ["uav-1", "uav-2", "uav-3"]),
        ("a[08..11]b", ["a08b", "a09b", "a10b", "a11b"]),
        ("r[1..2]-c[1..2]", ["r1-c1", "r1-c2", "r2-c1", "r2-c2"]),
        ("n[0..1]", ["n0", "n1"]),
        ("n[000..1]", ["n000", "n001"]),
    ],
)
def test_ranges(name: str, ids: list[str]) -> None:
    assert expand(name) == ids


@pytest.mark.parametrize(
    "name", ["", "a[2..1]", "a[1..2000001]", "a[1..9999]b[1..999]", "a[1..]", "1a", "a b", "x" * 65]
)
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(ValueError, match=r"backwards|more than|not a name"):
        expand(name)


def test_too_many_nodes_in_all(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    from cosim.contract.errors import ScenarioError

    monkeypatch.setattr("cosim.scenario.resolve.MOST_NODES", 2_000)
    with pytest.raises(ScenarioError, match="more than"):
        load(farm(("  cloud:", "  d-[1..1200]: {kind: cloud}\n  e-[1..1200]: {kind: cloud}\n  cloud:")))
    load(farm(("  cloud:", "  d-[1..1200]: {kind: cloud}\n  e-[1..700]: {kind: cloud}\n  cloud:")))


@pytest.mark.parametrize(
    ("selector", "ids"),
    [
        ("kind:uav", ["uav-1", "uav-2", "uav-3"]),
        ("tier:edge", ["edge-1", "mast"]),
        (["cars", "uav-2"], ["uav-2", "cars"]),
        (["uav-*", "uav-1"], ["uav-1", "uav-2", "uav-3"]),
    ],
)
def test_selectors(farm: Farm, selector: str | list[str], ids: list[str]) -> None:
    assert [node.id for node in load(farm()).world.select(selector)] == ids
