"""The rooms of the house in figures: `python tools/house.py [--json] [--commits 100]`.

Rooms are the folders and modules of `cosim`, with `adapters` as one; extensions are counted apart. An arrow is that a
room imports another one, wherever in a module: in functions and for type checking too. A circle is a set of modules
that import one another when they are imported, directly or through others. Lines are those of Python outside of
folders `tests`, and of `benchmarks` and `scenarios` of extensions. A test holds the limits.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import statistics
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import networkx  # mosaik needs it

ROOT = Path(__file__).resolve().parents[1]
TOPS = ("cosim", "adapters", "extensions")
APART = {"tests", "benchmarks", "scenarios"}  # folders
FREE = {"cosim.version"}  # the function, not a room
CLASS = re.compile(r"^class ([^\W_]\w*)", re.MULTILINE)  # at the left margin; parsing takes twenty times as long
ENTRANCES = ("__init__", "__main__")  # of the package itself: no rooms
# What a change may not exceed. A limit that a change makes too wide goes down with it.
LIMITS = {
    "rooms": 19,
    "arrows": 71,
    "circles of rooms": 0,
    "circles of modules": 0,
    "lines of the core": 104_710,
    "lines": 149_253,
    "class names with several homes": 10,
}


def modules(folder: str) -> list[Path]:
    """The product's files below a folder, relative to the checkout."""
    found = sorted(path.relative_to(ROOT) for path in (ROOT / folder).rglob("*.py"))
    return [path for path in found if APART.isdisjoint(path.parts)]


def files() -> Iterator[Path]:
    """All files of the product."""
    return (path for top in TOPS for path in modules(top))


def name_of(path: Path) -> str:
    """What a file is imported as."""
    parts = path.with_suffix("").parts
    return ".".join(part for part in (parts if parts[0] == "cosim" else ("cosim", *parts)) if part != "__init__")


def room(path: Path) -> str:
    """The room that a file is in: `bus`, `adapters`, `extensions.metanet`."""
    if path.parts[0] == "extensions":
        return ".".join(("extensions", *path.with_suffix("").parts[1:2]))
    return path.parts[0] if path.parts[0] == "adapters" else path.with_suffix("").parts[1]


def room_of(name: str) -> str:
    """The room of an imported name, "" for none of ours."""
    parts = name.split(".")
    if parts[0] != "cosim" or len(parts) < 2 or name in FREE:
        return ""
    return ".".join(parts[1:3]) if parts[1] == "extensions" else parts[1]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def _names(nodes: Iterator[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def imports(path: Path) -> frozenset[str]:
    """Dotted names that a file imports, wherever in it, and those of what it takes from modules."""
    return frozenset(_names(ast.walk(tree(path))))


def arrows() -> dict[str, set[str]]:
    """Each room, and the rooms that it imports."""
    found: dict[str, set[str]] = {}
    for path in files():
        others = {room_of(name) for name in imports(path)} - {"", room(path), "extensions"}
        found.setdefault(room(path), set()).update(others)
    return {name: found[name] for name in sorted(found) if name not in ENTRANCES and name != "extensions.__init__"}


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The sets of more than one that reach one another."""
    sets = networkx.strongly_connected_components(networkx.DiGraph(graph))
    return sorted(sorted(one) for one in sets if len(one) > 1)


def module_graph() -> dict[str, set[str]]:
    """Each module, and the modules that it imports when it is imported."""
    paths = {name_of(path): path for path in files()}
    graph: dict[str, set[str]] = {}
    for name, path in paths.items():
        top = [node for node in tree(path).body if not (isinstance(node, ast.If) and "TYPE" in ast.unparse(node.test))]
        # Of a package that is imported for a module in it, only the module counts.
        taken = {one for one in _names(iter(top)) if one in paths}
        graph[name] = {one for one in taken if not any(other.startswith(f"{one}.") for other in taken)} - {name}
    return graph


@cache
def classes() -> Mapping[str, list[str]]:
    """Public classes, and the modules that define them."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in files():
        for name in CLASS.findall((ROOT / path).read_text(encoding="utf-8")):
            found[name].append(name_of(path))
    return found


def homes() -> dict[str, list[str]]:
    """Public classes that are defined in several modules."""
    return {name: places for name, places in sorted(classes().items()) if len(places) > 1}


def lines() -> dict[str, int]:
    """Lines of Python per room."""
    found: dict[str, int] = defaultdict(int)
    for path in files():
        found[room(path)] += len((ROOT / path).read_text(encoding="utf-8").splitlines())
    return dict(found)


def commits(count: int) -> dict[str, float]:
    """Files per commit, the share in one room, and lines added for each removed, over the last so many commits."""
    log = subprocess.run(
        ["git", "log", f"-{count}", "--no-merges", "-M", "--numstat", "--format=%x00"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    files, alone, added, removed = [], 0, 0, 0
    for one in log.split("\0")[1:]:
        rows = re.findall(r"^(\d+)\t(\d+)\t(.+)$", one, re.MULTILINE)
        inside = {"/".join(name.split("/")[:2]) for *_, name in rows if name.startswith(TOPS)}
        files.append(len(rows))
        alone += len(inside) <= 1
        added += sum(int(plus) for plus, *_ in rows)
        removed += sum(int(minus) for _, minus, _ in rows)
    return {
        "files": statistics.median(files), "one_room": alone / len(files), "added_per_removed": added / max(removed, 1),
    }  # fmt: skip


def house(count: int) -> dict[str, object]:
    """All figures."""
    graph = arrows()
    core = {name: {one for one in others if one in graph} for name, others in graph.items() if "." not in name}
    size = lines()
    return {
        "rooms": len(core),
        "arrows": sum(len(others) for others in core.values()),
        "circles of rooms": len(circles(core)),
        "circles of modules": len(circles(module_graph())),
        "lines of the core": sum(n for name, n in size.items() if not name.startswith("extensions")),
        "lines": sum(size.values()),
        "class names with several homes": len(homes()),
        "lines per room": dict(sorted(size.items())),
        "imports": {name: sorted(others) for name, others in graph.items()},
        "commits": commits(count) if count else {},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--commits", type=int, default=100, help="how many to look at; 0: none")
    given = parser.parse_args()
    found = house(given.commits)
    if given.json:
        print(json.dumps(found, indent=2))
        return
    for name, value in found.items():
        if isinstance(value, dict):
            print(f"\n{name}")
            for key, inner in value.items():
                shown = " ".join(inner) if isinstance(inner, list) else f"{inner:,.4g}" if name == "commits" else inner
                print(f"  {key:<28} {shown}")
        else:
            print(f"{name:<32} {value:,}")


if __name__ == "__main__":
    main()
