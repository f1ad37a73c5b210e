"""Plans as plain data that stays small: nodes that differ in name and place only are written once.

A scene of 100,000 nodes is some hundred blocks of keys and 100,000 names. In the compact form the nodes
of a scene are `{"like": [keys, ...], "each": [[id, index into like, position], ...]}`, and ranges of
slots are `{"@slots": [[first, count], ...]}` with neighbours among the static nodes in one range.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

from cosim.contract.block import as_plain
from cosim.contract.entities import Node, SlotRange, alike

if TYPE_CHECKING:
    from cosim.scenario.plan.plan import Plan

_SLOTS = "@slots"


def compact(plan: Plan) -> dict[str, Any]:
    """`plan` as compact plain data, without the folder that the scenario happens to lie in."""
    static = len(plan.scene.nodes)
    return {field.name: _plain(getattr(plan, field.name), static) for field in fields(plan) if field.name != "root"}


def expanded(data: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data with one mapping per node and one range per static node, from what `compact` gave.

    Data that was never compact is returned as it is. Raises `ValueError`, `TypeError` or `LookupError`
    for anything else.
    """
    scene = data.get("scene")
    nodes = scene.get("nodes") if isinstance(scene, Mapping) else None
    if not isinstance(nodes, Mapping):
        return dict(data)
    like = nodes["like"]
    each = [{"id": name, **like[which], "position": position} for name, which, position in nodes["each"]]
    whole: dict[str, Any] = _spread({**data, "scene": {**data["scene"], "nodes": []}}, len(each))
    whole["scene"]["nodes"] = each
    return whole


def _plain(value: Any, static: int) -> Any:  # noqa: ANN401 - whatever a plan holds
    return as_plain(value, partial(_short, static))


def _short(static: int, value: Any) -> dict[str, Any] | None:  # noqa: ANN401
    """What stands for ranges of slots and for nodes."""
    if isinstance(value, (tuple, list)) and value:
        if isinstance(value[0], SlotRange):
            return {_SLOTS: _merged(value, static)}
        if isinstance(value[0], Node):
            return _nodes(value, static)
    return None


def _nodes(nodes: Sequence[Node], static: int) -> dict[str, Any]:
    sorts, index = alike(nodes)
    shared = [field.name for field in fields(Node) if field.name not in ("id", "position")]
    like: dict[str, dict[str, Any]] = {}  # by its text: nodes that came as JSON share no values
    texts = []
    for node in sorts:
        keys = {name: _plain(getattr(node, name), static) for name in shared}
        texts.append(json.dumps(keys))
        like.setdefault(texts[-1], keys)
    places = {text: place for place, text in enumerate(like)}
    where = [places[text] for text in texts]
    each = [[node.id, where[which], node.position] for node, which in zip(nodes, index, strict=True)]
    return {"like": list(like.values()), "each": each}


def _merged(ranges: Iterable[SlotRange], static: int) -> list[list[int]]:
    found: list[list[int]] = []
    for part in ranges:
        last = found[-1] if found else None
        if last is not None and part.first < static and part.count == 1 and part.first == last[0] + last[1]:
            last[1] += 1
        else:
            found.append([part.first, part.count])
    return found


def _spread(value: Any, static: int) -> Any:  # noqa: ANN401
    if isinstance(value, list):
        return [_spread(item, static) for item in value]
    if not isinstance(value, Mapping):
        return value
    if value.keys() == {_SLOTS}:
        return [
            {"first": first, "count": size}
            for begin, count in value[_SLOTS]
            for first, size in (
                [(slot, 1) for slot in range(begin, begin + count)] if begin < static else [(begin, count)]
            )
        ]
    return {key: _spread(item, static) for key, item in value.items()}
