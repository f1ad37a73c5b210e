"""`cosim render`: the compose file of a scenario's real nodes."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from cosim.cli.arguments import Overrides, ScenarioPath
from cosim.cli.console import Json, count, emit, errors
from cosim.contract.errors import Problem, ScenarioError

_SHOWN = 8  # ports of nodes for which the way to find them is printed


def render(
    scenario: ScenarioPath,
    overrides: Overrides = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write; default: compose.yaml beside the scenario.")
    ] = None,
    images: Annotated[
        bool, typer.Option("--images", help="Use images that are there instead of building them from the checkout.")
    ] = False,
    elsewhere: Annotated[
        list[str] | None,
        typer.Option(
            "--elsewhere", help="MACHINE=NODE,NODE: these nodes are in compose.MACHINE.yaml, for another host."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the compose file that runs the scenario with its nodes as containers."""
    from cosim.scenario.load import load
    from cosim.scenario.plan.compile import compile_plan
    from cosim.testbed.launch.carrier import carrier
    from cosim.testbed.launch.compose import checkout, divided, render

    with errors(as_json):
        loaded = load(scenario, [*(overrides or []), "run.nodes=containers"])
        plan = compile_plan(loaded)
        target = out.resolve() if out else loaded.path.parent.resolve() / "compose.yaml"
        root = None if images else checkout(loaded.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        others: dict[str, str] = {}
        if elsewhere:
            machines = _machines(elsewhere)
            text, others = divided(plan, loaded.path, target.parent, root, overrides or (), machines)
        else:
            text = render(plan, loaded.path, target.parent, root, overrides or ())
        if not out and target.is_symlink():  # many shipped scenarios share a file
            target.unlink()
        target.write_text(text, encoding="utf-8")
        for machine, other in others.items():
            (target.parent / f"compose.{machine}.yaml").write_text(other, encoding="utf-8")
        real = [node for _, node in plan.scene.computers() if node.runs]
        nodes = [node.id for node in real]
        compose = f"docker compose -f {shlex.quote(os.path.relpath(target))}"
        ports = [
            f"{node.id}, port {port}: {compose} port {node.id}-net {port}"
            for node in real
            if node.runs
            for port in node.runs.ports
        ]
        remark = carrier(plan, "containers").remark
        emit(
            {
                "file": str(target),
                "nodes": nodes,
                "builds": root is not None,
                "remark": remark,
                "warnings": list(plan.warnings),
            },
            as_json,
            "\n".join(
                [
                    f"{target}: {count(len(nodes), 'real node')}"
                    + ("" if root else "; images are not built from here"),
                    *([remark] if remark else []),
                    *(f"warning: {warning}" for warning in plan.warnings),
                    *_elsewhere(others),
                    f"{'then start it here' if others else 'start it'}: {compose} up",
                    "then, where things are:",
                    f"  dashboard: {compose} port dashboard 8080",
                    *(f"  {line}" for line in ports[:_SHOWN]),
                    *([f"  and {count(len(ports) - _SHOWN, 'port')} more"] if len(ports) > _SHOWN else []),
                ]
            ),
        )


def _elsewhere(machines: Iterable[str]) -> Iterator[str]:
    """What is to be done for each of the other machines, before the run is started."""
    for machine in machines:
        file = f"compose.{machine}.yaml"
        yield f"on {machine}, with the keys of its nodes if they have some: docker compose -f {file} up --no-build"


def _machines(texts: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for text in texts:
        machine, _, nodes = text.partition("=")
        names = [name for name in nodes.split(",") if name]
        if not re.fullmatch("[a-z0-9][a-z0-9-]{0,30}", machine) or not names or machine in found:
            hint = "write it as host2=uav-1,uav-2, once for each machine"
            raise ScenarioError(Problem(f"'{text}' says no machine and its nodes", "--elsewhere", hint=hint))
        found[machine] = names
    return found
