"""The wires of nodes whose links the kernel shapes: for each medium a bridge, in a namespace of its own.

A node's interface is a pair of devices: one end is in the node under the interface's name, the other on the bridge.
The bridge passes everything on at once; what a link is like is imposed where packets leave the node.
"""

from __future__ import annotations

from collections.abc import Sequence

from cosim.contract.errors import SetupError
from cosim.testbed.emulation.netns import Namespaces
from cosim.testbed.launch.programs import Program

BRIDGES = "_bridges"  # no node is named so: ids begin with a letter or a digit


def wire(spaces: Namespaces, nodes: Sequence[Program]) -> None:
    """Give `nodes`, whose namespaces are made, their interfaces. Raises `SetupError` when the kernel refuses."""
    where = spaces.create(BRIDGES).name
    media = sorted({interface.name for node in nodes for interface in node.interfaces})
    # Without a spanning tree and its delay; addresses are those of nodes only.
    _batch(spaces, BRIDGES, [f"link add {name} type bridge stp_state 0 forward_delay 0" for name in media])
    _batch(spaces, BRIDGES, [f"link set {name} up" for name in media])
    number = 0
    for node in nodes:
        made, ready = [], []
        for interface in node.interfaces:
            number += 1
            # One packet a frame: what the kernel would cut up only later would be delayed and lost in lumps.
            made.append(
                f"link add {interface.name} address {interface.mac} mtu {interface.medium.mtu} gso_max_segs 1 "
                f"type veth peer name port{number} netns {where}"
            )
            made.append(f"addr add {interface.address}/{interface.prefix} dev {interface.name}")
            made.append(f"link set {interface.name} up")
            ready.append(f"link set port{number} master {interface.name} up")
        _batch(spaces, node.node, made)
        _batch(spaces, BRIDGES, ready)


def _batch(spaces: Namespaces, node: str, lines: Sequence[str]) -> None:
    done = spaces.run(node, ["ip", "-batch", "-"], text="\n".join(lines) + "\n")
    if done.returncode:
        raise SetupError(f"cannot wire {node}: ip: {done.stderr.strip()[:400]}")
