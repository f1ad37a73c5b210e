"""The rooms of the house, and the direction of imports between them, walked in the source."""

from __future__ import annotations

from pathlib import Path

from tools import house

ROOT = house.ROOT

# Each room of the core, and the rooms that it may import besides itself. `contract` is the ground.
MAY_IMPORT = {
    "contract": set(),
    "compiled": {"contract"},
    "talk": {"contract"},
    "physics": {"compiled", "contract"},
    # What radio cells share is the same law in both.
    "engine": {"compiled", "contract", "physics"},
    "schedulers": {"contract", "engine"},
    "envs": {"bus", "contract", "results", "scenario", "schedulers"},
    "scenario": {"contract"},
    "bus": {"compiled", "contract", "scenario", "talk"},
    # An autopilot flies a fleet; it talks MAVLink, has a key, and knows neither scenarios nor the bus.
    "autopilot": {"contract", "physics", "talk"},
    "testbed": {"contract", "scenario", "talk"},
    "testing": {"contract"},
    # A run starts the programs of its real nodes. Code is compiled before a run by living through a small example of
    # each adapter.
    "results": {"bus", "contract", "scenario", "talk", "testbed", "testing"},
    "sources": {"contract", "scenario"},
    # A twin simulates with the pure models, or runs scenarios whole; it reads what runs recorded.
    "twin": {"compiled", "contract", "engine", "results", "scenario", "sources"},
    # Pictures of drones are rendered anew when somebody looks at them.
    "report": {"bus", "contract", "physics", "results", "scenario", "talk", "twin"},
    # What people import in Python: the verbs of the command line as functions.
    "api": {"bus", "contract", "report", "results", "scenario", "twin"},
    "cli": {
        "api", "compiled", "contract", "report", "results", "scenario", "schedulers", "sources",
        "talk", "testbed", "twin",
    },
}  # fmt: skip
ADAPTERS_MAY_IMPORT = {
    "autopilot", "contract", "engine", "physics", "schedulers", "talk", "testbed",
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
    "extcloudsim": {"traces"},
    "gpu_cluster": {"traces"},
    "mail_mmsg": {"metanet"},
    "metanet": {"cosco"},
    "mlsysops": {"detection"},
    "simtune": {"cosco", "metanet"},
}
MOSAIK = ("cosim/bus/mosaik_driver.py", "adapters/mosaik")


def rooms(path: Path) -> set[str]:
    """The rooms that a file imports besides its own."""
    return {house.room_of(name) for name in house.imports(path)} - {"", house.room(path)}


def core() -> list[Path]:
    return [path for path in house.modules("cosim") if house.room(path) not in house.ENTRANCES]


def test_rooms_import_what_they_may():
    wrong = {}
    for path in core():
        if found := rooms(path) - MAY_IMPORT[house.room(path)]:
            wrong[str(path)] = sorted(found)
    assert not wrong, f"must not import: {wrong}"


def test_a_room_imports_rooms_below_it_on_the_map():
    """So no room reaches itself through others."""
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    drawn = page.partition("```text\n")[2].partition("```")[0].splitlines()
    lines = [set(line[:36].split()) for line in drawn]
    line_of = {name: number for number, names in enumerate(lines) for name in names}
    assert set(line_of) == set(MAY_IMPORT) == {house.room(path) for path in core()}
    for name, others in MAY_IMPORT.items():
        assert all(line_of[other] > line_of[name] for other in others), name
        assert f"`{name}`" in page


def test_what_may_be_imported_is():
    """An arrow that no import needs goes."""
    needed = house.arrows()
    assert {name: needed[name] for name in MAY_IMPORT} == MAY_IMPORT
    assert needed["adapters"] == ADAPTERS_MAY_IMPORT


def test_the_house_stays_within_its_limits():
    found = house.house(0)
    assert {name: found[name] for name, most in house.LIMITS.items() if found[name] > most} == {}


def test_what_runs_on_a_node_is_light():
    for folder, permitted in LIGHT.items():
        own = {folder, *permitted}
        for path in house.modules(f"cosim/{folder}"):
            for name in filter(house.room_of, house.imports(path)):
                place = name.removeprefix("cosim.").replace(".", "/")
                assert any(f"{place}/".startswith(f"{one}/") for one in own), f"{path}: {name}"


def test_adapters_know_no_other_adapter_and_no_extension():
    for path in house.modules("adapters"):
        own = {".".join(("cosim.adapters", *path.with_suffix("").parts[1:2])), "cosim.adapters"}
        names = {name for name in house.imports(path) if name.startswith("cosim.adapters")}
        assert {".".join(name.split(".")[:3]) for name in names} <= own, path
        assert not any(name.startswith("extensions") for name in rooms(path)), path


def test_extensions_know_the_core_and_what_they_state():
    for path in house.modules("extensions"):
        own = house.room(path).removeprefix("extensions.")
        used = {name.removeprefix("extensions.") for name in rooms(path) if name.startswith("extensions.")}
        assert used <= EXTENSIONS.get(own, set()), path


def test_mosaik_is_known_in_two_places():
    for path in (*core(), *house.modules("adapters")):
        if {name.split(".")[0] for name in house.imports(path)} & {"mosaik", "mosaik_api_v3"}:
            assert str(path).startswith(MOSAIK)
