"""`cosim export mlsysops`: a scenario as the framework's descriptors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosim.cli.arguments import Overrides, ScenarioPath
from cosim.cli.console import Json, count, emit, errors
from cosim.cli.exporting import Force
from cosim.contract.errors import SetupError


def mlsysops(
    scenario: ScenarioPath,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the descriptors.")],
    overrides: Overrides = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a scenario's nodes, cluster and workloads as descriptors of the MLSysOps framework."""
    with errors(as_json):
        from ruamel.yaml import YAML

        from cosim.extensions.mlsysops.policies.descriptors import descriptors
        from cosim.scenario.plan.compile import plan_of

        plan = plan_of(scenario, overrides or (), force=True)
        found = {out / name: document for name, document in descriptors(plan.scene, plan.name).items()}
        there = [str(path) for path in found if path.exists()]
        if there and not force:
            raise SetupError(f"{there[0]} is there already; name another folder with --out, or replace it with --force")
        out.mkdir(parents=True, exist_ok=True)
        writer = YAML(typ="safe", pure=True)
        writer.default_flow_style = False
        writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
        for path, document in found.items():
            with path.open("w", encoding="utf-8") as file:
                writer.dump(document, file)
        left = [fleet.name for fleet in plan.scene.fleets]
        text = f"{out}  {count(len(found), 'descriptor')}"
        text += f"; left out: fleets {', '.join(left)}" if left else ""
        emit({"files": [str(path) for path in found], "left_out": left}, as_json, text)
