"""The direction of imports, walked in the source: what each package may know of."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

BASE = {"errors", "units", "telemetry", "selector"}
# Each package and what it may import of cosim besides itself.
MAY_IMPORT = {
    "errors": set(),
    "units": set(),
    "selector": set(),
    "telemetry": set(),
    "compiling": set(),
    "shore": set(),
    "pair": {"shore"},
    # The engine calls the built-in schedulers from compiled code; they know arrays only.
    "continuum": {"compiling", "errors", "schedulers", "radio"},
    "radio": {"compiling"},
    "vehicles": {"compiling"},
    "emulation": {"errors"},
    # An autopilot flies a fleet; it talks MAVLink, has a key, and knows neither scenarios nor the bus.
    "autopilot": {"errors", "live.keys", "pair", "shore", "vehicles"},
    # What runs on an edge node: numpy, torch and HTTP, nothing of the simulation.
    "inference": {"errors", "pair", "shore"},
    # What the frames say of links becomes states of interfaces here.
    "launch": BASE | {"plan", "emulation", "live", "registry", "bus.frame", "bus.presence"},
    # What names a machine's clock is told by the service and read by those that call it.
    # What shapes a machine's links is the same as for real nodes.
    "live": BASE | {"inference.limits", "emulation"},
    "web": BASE | {"plan", "bus", "results"},
    "traces": {"errors"},
    "predict": {"errors", "traces"},
    "schedulers": {"continuum", "errors"},
    # The registry hands out descriptions of adapters, so it knows the contract and nothing else.
    "registry": {"errors", "bus.adapter"},
    "scenario": BASE | {"registry", "bus.adapter"},
    "plan": BASE | {"scenario", "registry", "bus.adapter"},
    "bus": BASE | {"plan", "registry"},
    # A run starts the programs of its real nodes.
    "results": BASE | {"scenario", "plan", "registry", "bus", "launch"},
    # Readers of other simulators' files and of traces; what they make is a scenario's text.
    "importing": BASE | {"scenario", "continuum", "traces", "plan.geo"},
    # A twin simulates with the pure models, or runs scenarios whole; it reads what runs recorded.
    "twin": BASE | {"compiling", "scenario", "plan", "results", "continuum", "radio", "vehicles", "bus.adapter"},
    "report": BASE | {"plan", "bus", "results", "twin"},
    "testing": BASE | {"plan", "registry", "bus"},
    "cli": BASE
    | {
        "scenario",
        "plan",
        "registry",
        "bus",
        "schedulers",
        "results",
        "report",
        "testing",
        "importing",
        "emulation",
        "autopilot",
        "launch",
        "live",
        "web",
        "twin",
    },
}
ADAPTERS_MAY_IMPORT = {
    "errors", "units", "telemetry", "selector", "continuum", "radio", "vehicles", "traces", "predict", "schedulers",
    "plan.entities", "plan.faults", "plan.geo", "plan.reality", "bus.adapter", "bus.frame", "bus.presence", "bus.slots",
    "testing", "emulation", "autopilot", "launch", "live",
}  # fmt: skip
MOSAIK = {"cosim/bus/mosaik_driver.py", "adapters/mosaik"}


def modules(folder: str) -> list[Path]:
    return sorted(path for path in (ROOT / folder).rglob("*.py") if "tests" not in path.parts)


def imports(path: Path) -> set[str]:
    """Dotted names of the modules that a file imports, wherever in it, but for type checking only."""
    found: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
            if node.module in ("cosim", "cosim.bus", "cosim.plan", "cosim.telemetry"):
                found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def package(path: Path) -> str:
    relative = path.relative_to(ROOT / "cosim")
    return relative.parts[0].removesuffix(".py")


def allowed(name: str, permitted: set[str]) -> bool:
    """Whether `name` ("cosim.bus.frame") lies in one of the permitted packages or modules."""
    inner = name.removeprefix("cosim.")
    return any(inner == entry or inner.startswith(entry + ".") for entry in permitted)


@pytest.mark.parametrize("path", modules("cosim"), ids=lambda path: str(path.relative_to(ROOT)))
def test_core_imports_point_one_way(path):
    own = package(path)
    if own in ("__init__", "__main__"):
        return
    permitted = MAY_IMPORT[own] | {own} if own in MAY_IMPORT else BASE | {"plan", "bus", own}
    wrong = {
        name
        for name in imports(path)
        if name.startswith("cosim.") and not allowed(name, permitted) and name not in ("cosim.bus", "cosim.plan")
    }
    wrong -= {"cosim.version"}
    assert not wrong, f"{path.relative_to(ROOT)} must not import {', '.join(sorted(wrong))}"


@pytest.mark.parametrize("path", modules("cosim"), ids=lambda path: str(path.relative_to(ROOT)))
def test_core_names_no_adapter(path):
    named = {name for name in imports(path) if name.startswith("adapters.")}
    assert not named


@pytest.mark.parametrize("path", modules("adapters"), ids=lambda path: str(path.relative_to(ROOT)))
def test_adapters_know_the_contract_and_the_leaves_only(path):
    own = path.relative_to(ROOT / "adapters").parts[0]
    names = imports(path)
    others = {name for name in names if name.startswith("adapters.") and name.split(".")[1] != own}
    assert not others, f"adapters must not import each other: {others}"
    core = {n for n in names if n.startswith("cosim.") and not allowed(n, ADAPTERS_MAY_IMPORT)}
    core -= {"cosim.bus", "cosim.plan", "cosim.telemetry", "cosim.version"}
    assert not core, f"{path.relative_to(ROOT)} must not import {', '.join(sorted(core))}"


@pytest.mark.parametrize("path", [*modules("cosim"), *modules("adapters")], ids=lambda p: str(p.relative_to(ROOT)))
def test_mosaik_is_known_in_two_places(path):
    relative = str(path.relative_to(ROOT))
    if any(relative.startswith(place) for place in MOSAIK):
        return
    assert not {name for name in imports(path) if name.split(".")[0] in ("mosaik", "mosaik_api_v3")}
