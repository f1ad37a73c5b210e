"""networkx loaded for mosaik alone is whole for everyone else."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from cosim.bus.graphs import load_graphs
load_graphs()
few = sum(name.startswith("networkx") for name in sys.modules)
import networkx
graph = networkx.Graph([(1, 2), (2, 3)])
{use}
assert few < sum(name.startswith("networkx") for name in sys.modules) / 5
assert type(graph) is networkx.Graph and not hasattr(networkx, "nothing_of_that_name")
"""
USES = (
    "assert networkx.shortest_path(graph, 1, 3) == [1, 2, 3]",
    "from networkx.algorithms import bipartite; assert bipartite.is_bipartite(graph)",
)


def test_what_was_left_out_comes_when_it_is_asked_for() -> None:
    programs = [
        subprocess.Popen([sys.executable, "-c", PROGRAM.format(use=use)], stderr=subprocess.PIPE) for use in USES
    ]
    errors = [program.communicate(timeout=60)[1].decode() for program in programs]
    assert [program.returncode for program in programs] == [0, 0], errors
