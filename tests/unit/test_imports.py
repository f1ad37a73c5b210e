"""The rooms of the house, and the direction of imports between them, walked in the source."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Each room of the core, and the rooms that it may import besides itself. `contract` is the ground.
MAY_IMPORT = {
    "contract": set(),
    "compiled": {"contract"},
    "talk": {"contract"},
    "physics": {"compiled", "contract"},
    # What radio cells share is the same law in both.
    "engine": {"compiled", "contract", "physics"},
    "schedulers": {"compiled", "contract", "engine"},
    # Many environments at once are many worlds of the interval model, in one compiled call.
    "envs": {"bus", "compiled", "contract", "engine", "results", "scenario", "schedulers"},
    "scenario": {"contract"},
    "bus": {"compiled", "contract", "scenario", "talk"},
    # An autopilot flies a fleet; it talks MAVLink, has a key, and knows neither scenarios nor the bus.
    "autopilot": {"contract", "physics", "talk"},
    "testbed": {"contract", "scenario", "talk"},
    "testing": {"contract"},
    # A run starts the programs of its real nodes. Code is compiled before a run by living through a small example of
    # each adapter. The log of a base station counts the blocks of its channel.
    "results": {"bus", "contract", "physics", "scenario", "talk", "testbed", "testing"},
    "sources": {"contract", "scenario"},
    # A twin simulates with the pure models, or runs scenarios whole; it reads what runs recorded.
    "twin": {"compiled", "contract", "engine", "results", "scenario", "sources"},
    "learn": {"compiled", "contract", "results", "sources"},
    # Pictures of drones are rendered anew when somebody looks at them.
    "report": {"bus", "contract", "learn", "physics", "results", "scenario", "talk", "twin"},
    # What people import in Python: the verbs of the command line as functions.
    "api": {"bus", "contract", "report", "results", "scenario", "twin"},
    "cli": {
        "api", "compiled", "contract", "learn", "report", "results", "scenario", "schedulers", "sources",
        "talk", "testbed", "testing", "twin",
    },
}  # fmt: skip
ADAPTERS_MAY_IMPORT = {
    "autopilot", "contract", "engine", "learn", "physics", "schedulers", "talk", "testbed", "testing",
}  # fmt: skip
# What nodes and machines run is light: it does without what the rest of its room needs.
LIGHT = {
    "testbed/inference": {"contract"},
    "testbed/live": {"contract", "talk", "testbed/inference", "testbed/emulation"},
    "testbed/emulation": {"contract", "talk"},
}
# What each extension uses of others.
EXTENSIONS = {
    "corais": {"metanet"},
    "mail_mmsg": {"metanet"},
}
MOSAIK = {"cosim/bus/mosaik_driver.py", "adapters/mosaik"}
FREE = {"cosim.version"}


def modules(folder: str) -> list[Path]:
    return sorted(path for path in (ROOT / folder).rglob("*.py") if "tests" not in path.parts)


@cache
def imports(path: Path) -> frozenset[str]:
    """Dotted names of the modules that a file imports, wherever in it: also in functions and for type checking only."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
            if node.module == "cosim":
                found.update(f"cosim.{alias.name}" for alias in node.names)
    return frozenset(found)


def rooms(path: Path) -> set[str]:
    """The rooms that a file imports, extensions and adapters included."""
    return {name.split(".")[1] for name in imports(path) - FREE if name.startswith("cosim.")}


def room(path: Path) -> str:
    return path.relative_to(ROOT / "cosim").parts[0].removesuffix(".py")


def core() -> list[Path]:
    return [path for path in modules("cosim") if room(path) not in ("__init__", "__main__")]


def test_rooms_import_what_they_may():
    wrong = {}
    for path in core():
        if found := rooms(path) - MAY_IMPORT[room(path)] - {room(path)}:
            wrong[str(path.relative_to(ROOT))] = sorted(found)
    assert not wrong, f"must not import: {wrong}"


def test_a_room_imports_rooms_below_it_on_the_map():
    """So no room reaches itself through others."""
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    drawn = page.partition("```text\n")[2].partition("```")[0].splitlines()
    lines = [set(line[:36].split()) for line in drawn]
    line_of = {name: number for number, names in enumerate(lines) for name in names}
    assert set(line_of) == set(MAY_IMPORT) == {room(path) for path in core()}
    for name, others in MAY_IMPORT.items():
        assert all(line_of[other] > line_of[name] for other in others), name
        assert f"`{name}`" in page


def test_what_may_be_imported_is():
    """An arrow that nobody needs any more goes."""
    needed: dict[str, set[str]] = {}
    for path in core():
        needed.setdefault(room(path), set()).update(rooms(path) - {room(path)})
    assert needed == MAY_IMPORT


def test_what_runs_on_a_node_is_light():
    for folder, permitted in LIGHT.items():
        own = {folder, *permitted}
        for path in modules(f"cosim/{folder}"):
            for name in imports(path) - FREE:
                place = name.removeprefix("cosim.").replace(".", "/")
                if name.startswith("cosim."):
                    assert any(f"{place}/".startswith(f"{one}/") for one in own), f"{path}: {name}"


def test_adapters_know_the_contract_and_the_leaves_only():
    others, wrong = {}, {}
    for path in modules("adapters"):
        own, file = path.relative_to(ROOT / "adapters").parts[0], str(path.relative_to(ROOT))
        names = {name for name in imports(path) if name.startswith("cosim.adapters.")}
        if found := {name for name in names if name.split(".")[2] != own}:
            others[file] = sorted(found)
        if found := rooms(path) - ADAPTERS_MAY_IMPORT - {"adapters"}:
            wrong[file] = sorted(found)
    assert not others, f"adapters must not import each other: {others}"
    assert not wrong, f"must not import: {wrong}"


def test_extensions_know_the_core_and_what_they_state():
    for path in modules("extensions"):
        own = path.relative_to(ROOT / "extensions").parts[0]
        used = {name.split(".")[2] for name in imports(path) if name.startswith("cosim.extensions.")} - {own}
        assert used <= EXTENSIONS.get(own, set()), path


def test_mosaik_is_known_in_two_places():
    files = {str(path.relative_to(ROOT)): imports(path) for path in (*core(), *modules("adapters"))}
    knowing = {file for file, names in files.items() if {n.split(".")[0] for n in names} & {"mosaik", "mosaik_api_v3"}}
    assert not {file for file in knowing if not file.startswith(tuple(MOSAIK))}
