"""How stations are numbered: three per node, then two per link, then one per accelerator.

Nodes and stations are numbers or arrays of numbers.
"""

from __future__ import annotations

from typing import Any

from cosim.compiled.compiling import part

PER_NODE = 3  # stations of a node


@part
def processor(n: Any) -> Any:  # noqa: ANN401 - an int or an array of them
    """The station of node n's processor."""
    return PER_NODE * n


@part
def uplink(n: Any) -> Any:  # noqa: ANN401 - an int or an array of them
    """The station of device n's radio towards its cell."""
    return PER_NODE * n + 1


@part
def downlink(n: Any) -> Any:  # noqa: ANN401 - an int or an array of them
    """The station of device n's radio from its cell."""
    return PER_NODE * n + 2


@part
def node_of(j: Any) -> Any:  # noqa: ANN401 - an int or an array of them
    """The node that station j, a processor or radio, belongs to."""
    return j // PER_NODE


@part
def first_link_station(nodes: int) -> int:
    """The first station of a link."""
    return PER_NODE * nodes


@part
def link_station(nodes: int, link: int, back: int) -> int:
    """The station of a link from a to b, or `back` (1) from b to a."""
    return PER_NODE * nodes + 2 * link + back
