"""Gradient-directed Monte-Carlo search (GDMC): a tree of perturbed parameter vectors, SimTune equation 7.

The root is the present parameter vector; a node's children are perturbations of it: every discrete
parameter moved to another level, the real ones moved together along the descent direction, and real ones
moved at random. Of the children of a node the one is followed for which

    v_i - gradient . s_i - sqrt(c ln n / n_i)        with s_i = phi - phi_i

is least: v_i the mean loss found below child i, n and n_i how often parent and child were visited. s_i is
what equation 6 subtracts, so the second term favours children on the descending side.

The paper finally takes the parameters "with the highest v_i", though v is a loss that is minimised: here
the vector with the lowest loss of its own is taken, not the lowest mean of a subtree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from cosim.contract.records import Floats
from cosim.extensions.simtune.surrogate.encoding import Encoding

Loss = Callable[[Floats], Floats]  # units (n, d) -> (n,)
Gradient = Callable[[Floats], Floats]  # unit (d,) -> (e,), by the features of `Encoding`

_SHORTER = (1.0, 0.25, 0.0625)  # the steps along the gradient, in parts of `step`


@dataclass(frozen=True, slots=True)
class Tree:
    """How the tree is searched."""

    rollouts: int = 100
    exploration: float = 0.01  # c of equation 7, in squares of the loss of the root
    step: float = 0.2  # longest step of the real parameters, in units
    width: int = 12  # children per node at most


@dataclass(slots=True)
class TreeNode:
    """The paper's triple (v, phi, n), and what hangs on it."""

    unit: Floats  # (d,) phi
    features: Floats  # (e,)
    loss: float  # of phi itself
    value: float  # v: before there are children the loss, then the frequency-weighted mean of theirs
    visits: int = 1  # n
    gradient: Floats | None = None  # (e,), once there are children
    children: list[TreeNode] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class TreeTrials:
    """All vectors that the search tried, the best first."""

    units: Floats  # (n, d)
    losses: Floats  # (n,)
    root: TreeNode


def bounds(node: TreeNode, exploration: float) -> Floats:
    """(children,) of equation 7 for the children of `node`; c is `exploration`."""
    gradient = node.gradient if node.gradient is not None else np.zeros_like(node.features)
    values = np.array([child.value for child in node.children])
    visits = np.array([child.visits for child in node.children], np.float64)
    steps = node.features - np.array([child.features for child in node.children])
    explore = np.sqrt(exploration * np.log(max(node.visits, 1)) / visits)
    result: Floats = values - steps @ gradient - explore
    return result


def search(
    encoding: Encoding, loss: Loss, gradient: Gradient, start: ArrayLike, *, tree: Tree | None = None, seed: int = 1
) -> TreeTrials:
    """Search from `start` (d,), a point of the unit cube; `loss` is asked for batches of children.

    A loss that is not finite counts as very bad. The same seed gives the same tree.
    """
    tree = tree or Tree()
    random = np.random.default_rng(np.random.SeedSequence([seed, 0x6D63]))
    unit = np.clip(np.asarray(start, np.float64), 0.0, 1.0)
    first = float(_finite(loss(unit[None]))[0])
    root = TreeNode(unit, encoding.features(unit)[0], first, first)
    exploration = tree.exploration * first * first
    nodes = [root]
    for _ in range(tree.rollouts):
        path = [root]
        while path[-1].children:
            path.append(path[-1].children[int(np.argmin(bounds(path[-1], exploration)))])
        nodes.extend(_expand(path[-1], encoding, loss, gradient, tree, random))
        for node in reversed(path):
            _back_propagate(node)
    losses = np.array([node.loss for node in nodes])
    order = np.argsort(losses, kind="stable")
    return TreeTrials(np.array([nodes[k].unit for k in order]), losses[order], root)


def _finite(losses: Floats) -> Floats:
    return np.where(np.isfinite(losses), losses, 1e9)


def _back_propagate(node: TreeNode) -> None:
    """v becomes the frequency-weighted mean of the children's, n the sum of theirs."""
    visits = np.array([child.visits for child in node.children], np.float64)
    node.value = float(visits @ np.array([child.value for child in node.children]) / visits.sum())
    node.visits = int(visits.sum())


def _expand(
    node: TreeNode, encoding: Encoding, loss: Loss, gradient: Gradient, tree: Tree, random: np.random.Generator
) -> list[TreeNode]:
    node.gradient = np.nan_to_num(gradient(node.unit))
    units = np.array(_perturbed(node, encoding, tree, random))
    features, losses = encoding.features(units), _finite(loss(units))
    node.children = [
        TreeNode(unit, row, float(value), float(value))
        for unit, row, value in zip(units, features, losses, strict=True)
    ]
    return node.children


def _perturbed(node: TreeNode, encoding: Encoding, tree: Tree, random: np.random.Generator) -> list[Floats]:
    """At most `width` neighbours: steps along the gradient, then discrete ones (half), then random ones."""
    found: list[Floats] = []
    slope = node.gradient[encoding.real_features] if node.gradient is not None else np.zeros(len(encoding.real))
    length = float(np.linalg.norm(slope))
    if length > 0.0:
        for part in _SHORTER:
            unit = node.unit.copy()
            unit[encoding.real] = np.clip(unit[encoding.real] - part * tree.step * slope / length, 0.0, 1.0)
            found.append(unit)
    moves = [
        (int(column), level)
        for column in encoding.discrete
        for level in _levels(encoding, int(column), node.unit[column], random)
    ]
    room = tree.width - len(found)
    limit = max(1, room // 2) if len(encoding.real) else room
    if len(moves) > limit:
        moves = [moves[k] for k in np.sort(random.permutation(len(moves))[:limit])]
    for column, level in moves:
        unit = node.unit.copy()
        unit[column] = encoding.unit(column, level)
        found.append(unit)
    while len(encoding.real) and len(found) < tree.width:
        unit = node.unit.copy()
        chosen = encoding.real[random.random(len(encoding.real)) < max(0.5, 1.0 / len(encoding.real))]
        chosen = chosen if len(chosen) else encoding.real[random.integers(len(encoding.real), size=1)]
        unit[chosen] = np.clip(unit[chosen] + tree.step * random.standard_normal(len(chosen)) / 2.0, 0.0, 1.0)
        found.append(unit)
    return found


def _levels(encoding: Encoding, column: int, unit: float, random: np.random.Generator) -> list[int]:
    """Other levels to try: all of a category or a boolean; of an integer its neighbours and one at random."""
    parameter = encoding.space.parameters[column]
    now = encoding.level(column, unit)
    if parameter.kind != "integer":
        return [level for level in range(parameter.levels) if level != now]
    tried = {now - 1, now + 1, int(random.integers(parameter.levels))} - {now}
    return sorted(level for level in tried if 0 <= level < parameter.levels)
