"""Small scenarios with real nodes, and their plans."""

from __future__ import annotations

from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan

_HEAD = "apiVersion: cosim/v1\nkind: Scenario\nname: small\nrun: {duration: 10 s}\n"
DRONE = "{kind: edge, at: [0 m, 0 m], cpu: 1 x 1 GHz, wifi: {}, runs: vuav}"
EDGE = "{kind: edge, at: [9 m, 0 m], cpu: 2 x 2 GHz, wifi: {}, runs: vedgenode}"


def write(folder, *, more="", adapters="", **nodes):
    """A scenario's file; node names are written with _ for -."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "scenario.cosim.yaml"
    lines = "".join(f"  {name.replace('_', '-')}: {text}\n" for name, text in nodes.items())
    wireless = "wifi: {}, " if "wifi" in lines else ""
    path.write_text(f"{_HEAD}adapters: {{{wireless}network: {{}}{adapters}}}\nnodes:\n{lines}{more}")
    return path


def plan(folder, *, nodes_are="containers", more="", adapters="", **nodes):
    return compile_plan(load(write(folder, more=more, adapters=adapters, **nodes), [f"run.nodes={nodes_are}"]))
