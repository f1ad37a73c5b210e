"""The direction of imports, walked in the source: what each package may know of."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Each package and what it may import of cosim besides itself. `contract` is the ground: everybody may.
MAY_IMPORT = {
    "contract": set(),
    "compiling": {"contract", "machine_code"},
    "machine_code": set(),
    "supervisor": set(),
    "children": set(),
    "talk": {"contract"},
    "continuum": {"compiling", "contract", "radio"},
    "peers": {"compiling", "contract", "continuum"},
    # A GPU cluster with a kernel of its own; rows by address and the tariffs are the continuum's.
    "cluster": {"compiling", "contract", "continuum"},
    "radio": {"compiling", "contract"},
    "vehicles": {"compiling", "contract"},
    "emulation": {"contract", "talk"},
    # An autopilot flies a fleet; it talks MAVLink, has a key, and knows neither scenarios nor the bus.
    "autopilot": {"contract", "supervisor", "talk", "vehicles"},
    # What runs on an edge node: numpy, torch and HTTP, nothing of the simulation.
    "inference": {"contract", "supervisor"},
    # What the frames say of links becomes states of interfaces here.
    # Which image a node gets depends on the kernels that it is to run.
    "launch": {"children", "contract", "talk", "telemetry", "plan", "emulation", "live", "inference"},
    # What names a machine's clock is told by the service and read by those that call it.
    # What shapes a machine's links is the same as for real nodes.
    "live": {"children", "contract", "talk", "inference.limits", "emulation"},
    # Pictures of drones are rendered anew when somebody looks at them.
    "web": {"contract", "talk", "plan", "bus", "results", "vehicles.tiles", "vehicles.weeds"},
    "telemetry": {"contract"},
    # Tables that others wrote, for twins and data sets.
    "tables": {"contract"},
    "traces": {"contract"},
    "predict": {"contract", "traces"},
    "schedulers": {"compiling", "contract", "continuum", "peers"},
    # Compares schedulers on a suite of its own; statistics are those of results.
    "bench": {"children", "contract", "peers", "schedulers", "results"},
    # Many environments at once are many worlds of the interval model, in one compiled call.
    "envs": {"compiling", "contract", "scenario", "plan", "bus", "results", "schedulers", "continuum", "peers"},
    "scenario": {"contract"},
    "plan": {"contract", "scenario"},
    "bus": {"compiling", "contract", "plan", "talk"},
    # A run starts the programs of its real nodes.
    # Code is compiled before a run by living through a small example of each adapter.
    # The log of a base station counts the blocks of its channel.
    "results": {"children", "contract", "talk", "scenario", "plan", "bus", "launch", "testing", "radio"},
    # Readers of other simulators' files and of traces; what they make is a scenario's text.
    "importing": {"contract", "scenario", "continuum", "peers", "cluster", "traces"},
    # A twin simulates with the pure models, or runs scenarios whole; it reads what runs recorded.
    "twin": {
        "compiling",
        "contract",
        "tables",
        "scenario",
        "plan",
        "results",
        "continuum",
        "peers",
        "radio",
        "vehicles",
    },
    # Labelled data sets of runs, and detectors that are trained with them.
    "dataset": {"children", "compiling", "contract", "tables", "results"},
    "detect": {"compiling", "contract", "dataset"},
    "report": {"contract", "plan", "bus", "results", "twin", "detect"},
    # What people import in Python: the verbs of the command line as functions.
    "api": {"contract", "scenario", "bus", "results", "report", "twin"},
    "testing": {"contract", "plan", "bus"},
    "cli": {
        "api",
        "bench",
        "compiling",
        "contract",
        "scenario",
        "plan",
        "bus",
        "schedulers",
        "talk",
        "results",
        "report",
        "testing",
        "importing",
        "cluster",
        "dataset",
        "detect",
        "tables",
        "telemetry",
        "emulation",
        "autopilot",
        "launch",
        "live",
        "web",
        "twin",
    },
}
ADAPTERS_MAY_IMPORT = {
    "contract", "telemetry", "continuum", "peers", "cluster", "radio", "vehicles", "traces", "predict", "schedulers",
    "testing", "emulation", "autopilot", "launch", "live", "talk", "dataset", "detect", "inference.limits",
}  # fmt: skip
MOSAIK = {"cosim/bus/mosaik_driver.py", "adapters/mosaik"}


def modules(folder: str) -> list[Path]:
    return sorted(path for path in (ROOT / folder).rglob("*.py") if "tests" not in path.parts)


@cache
def imports(path: Path) -> frozenset[str]:
    """Dotted names of the modules that a file imports, wherever in it: also in functions and for type checking only."""
    found: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
            if node.module in ("cosim", "cosim.bus", "cosim.plan", "cosim.telemetry"):
                found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def package(path: Path) -> str:
    relative = path.relative_to(ROOT / "cosim")
    return relative.parts[0].removesuffix(".py")


def allowed(name: str, permitted: set[str]) -> bool:
    """Whether `name` ("cosim.contract.frame") lies in one of the permitted packages or modules."""
    inner = name.removeprefix("cosim.")
    return any(inner == entry or inner.startswith(entry + ".") for entry in permitted)


def test_core_imports_point_one_way():
    wrong = {}
    for path in modules("cosim"):
        if (own := package(path)) in ("__init__", "__main__"):
            continue
        permitted = MAY_IMPORT[own] | {own}
        core = {name for name in imports(path) if name.startswith("cosim.") and not allowed(name, permitted)}
        if core := core - {"cosim.bus", "cosim.plan", "cosim.version"}:
            wrong[str(path.relative_to(ROOT))] = sorted(core)
    assert not wrong, f"must not import: {wrong}"


def test_no_package_reaches_itself_through_others():
    arrows: dict[str, set[str]] = {}
    for path in modules("cosim"):
        if (own := package(path)) not in ("__init__", "__main__"):
            inner = {name.split(".")[1] for name in imports(path) if name.startswith("cosim.")}
            arrows.setdefault(own, set()).update(inner - {own, "version"})
    for start in arrows:
        seen, waiting = set(), [start]
        while waiting:
            for target in arrows.get(waiting.pop(), set()) - seen:
                seen.add(target)
                waiting.append(target)
        assert start not in seen, f"package '{start}' imports itself through others"


def test_core_names_no_adapter():
    named = {
        str(path.relative_to(ROOT)): name
        for path in modules("cosim")
        for name in imports(path)
        if name.startswith("adapters.")
    }
    assert not named, f"import adapters: {named}"


def test_adapters_know_the_contract_and_the_leaves_only():
    others, core = {}, {}
    for path in modules("adapters"):
        own, names = path.relative_to(ROOT / "adapters").parts[0], imports(path)
        file = str(path.relative_to(ROOT))
        if found := {name for name in names if name.startswith("adapters.") and name.split(".")[1] != own}:
            others[file] = sorted(found)
        wrong = {n for n in names if n.startswith("cosim.") and not allowed(n, ADAPTERS_MAY_IMPORT)}
        if wrong := wrong - {"cosim.bus", "cosim.plan", "cosim.telemetry", "cosim.version"}:
            core[file] = sorted(wrong)
    assert not others, f"adapters must not import each other: {others}"
    assert not core, f"must not import: {core}"


def test_mosaik_is_known_in_two_places():
    files = {str(path.relative_to(ROOT)): imports(path) for path in (*modules("cosim"), *modules("adapters"))}
    knowing = {file for file, names in files.items() if {n.split(".")[0] for n in names} & {"mosaik", "mosaik_api_v3"}}
    assert not {file for file in knowing if not file.startswith(tuple(MOSAIK))}
