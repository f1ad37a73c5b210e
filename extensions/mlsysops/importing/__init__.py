"""Scenarios from the descriptors of the MLSysOps framework: nodes, clusters, datacentres, continuum, applications.

    from cosim.extensions.mlsysops.importing import read

    imported = read([Path("node-1.yaml"), Path("cluster.yaml"), Path("app.yaml")])

The descriptors state what nodes are, but give no figures of their links and tasks. So `read` fills in nominal figures
and reports each in a notice. It is tolerant because the files vary: keys match in any spelling (`continuum_layer`,
`continuumLayer`, `Continuum-Layer`), user files and validated copies are both accepted, and an invalid field causes a
notice instead of failing the import.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cosim.extensions.mlsysops.importing.bodies import read_bodies
from cosim.extensions.mlsysops.importing.nodes import read_inventory
from cosim.extensions.mlsysops.importing.scenario import scenario
from cosim.sources.importing.imported import Imported, Notice

__all__ = ["read"]


def read(files: Sequence[str | Path]) -> Imported:
    """Descriptors as a scenario for the adapter `continuum`; a folder stands for the YAML files in it.

    Raises `ScenarioError` when a file is not YAML text, or when there is no node that can be a host.
    """
    notices: list[Notice] = []
    bodies = read_bodies([Path(file) for file in files], notices)
    inventory = read_inventory(bodies, notices)
    return scenario(inventory, bodies, notices)
