"""Environments with some of the optional packages, made of links to what is installed here.

`python -m tests.without torch sumo -- -q tests/unit` runs pytest where there is no torch and no package of the extra
`sumo`, `python -m tests.without all` with what a run and pytest need alone. What only these packages need is not there
either, nor what needs them: pip makes no such environment. It has an interpreter and a folder of packages of its own,
so that programs which tests start, whatever their variables are, find no more than the tests do.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OURS = canonicalize_name(PROJECT["name"])
TOOLS = ("pip", "setuptools", "pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "mypy", "ruff")


@cache
def installed() -> dict[NormalizedName, Distribution]:
    found: dict[NormalizedName, Distribution] = {}
    for one in distributions():
        if one.read_text("RECORD"):  # not what a build has left in the checkout
            found.setdefault(canonicalize_name(one.name), one)  # the first on the path is the one that counts
    return found


@cache
def brought(line: str) -> frozenset[NormalizedName]:
    """What pip installs for a requirement, as far as it is here."""
    found: set[tuple[NormalizedName, str]] = set()
    waiting = [Requirement(line)]
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        for extra in {"", *one.extras} if name in installed() else ():
            if (name, extra) not in found:
                found.add((name, extra))
                needs = map(Requirement, installed()[name].requires or [])
                waiting += [need for need in needs if need.marker is None or need.marker.evaluate({"extra": extra})]
    return frozenset(name for name, _ in found)


def lines(extra: str) -> Iterator[str]:
    """The requirements of an extra, with those of the extras that it names."""
    for line in PROJECT["optional-dependencies"][extra]:
        one = Requirement(line)
        if canonicalize_name(one.name) == OURS:
            for other in sorted(one.extras):
                yield from lines(other)
        else:
            yield line


CORE = frozenset({OURS}).union(*map(brought, [*PROJECT["dependencies"], *TOOLS]))
# The packages of each extra that the core does not bring, and the line of each package.
EXTRAS = {
    extra: {name: line for line in lines(extra) if (name := canonicalize_name(Requirement(line).name)) not in CORE}
    for extra in PROJECT["optional-dependencies"]
}
OPTIONAL = {name: line for extra in EXTRAS.values() for name, line in extra.items()}


def others(names: Collection[str]) -> list[NormalizedName]:
    """The optional packages that can be there without those named."""
    return [name for name, line in OPTIONAL.items() if brought(line).isdisjoint(names)]


@cache
def files(name: NormalizedName) -> dict[str, list[str]]:
    """The files of a package by what they are in, directly below the folder of packages."""
    found: dict[str, list[str]] = {}
    for row in csv.reader(str(installed()[name].read_text("RECORD")).splitlines()):
        found.setdefault(row[0].partition("/")[0], []).append(row[0])
    return found


def modules(names: Iterable[NormalizedName]) -> set[str]:
    """What packages are imported as."""
    tops = {top.partition(".")[0] for name in names for top in files(name)}
    return {top for top in tops if top.isidentifier() and top != "__pycache__"}


def present(optional: Iterable[NormalizedName]) -> frozenset[NormalizedName]:
    """All packages of an environment with these optional ones."""
    return CORE.union(*(brought(OPTIONAL[name]) for name in optional))


def make(folder: Path, optional: Iterable[NormalizedName]) -> Path:
    """Make an environment that has these optional packages alone; its interpreter."""
    there = present(optional)
    venv.create(folder, symlinks=True)
    target, python = next(folder.glob("lib/python*/site-packages")), folder / "bin/python"
    # Folders that hold files of several packages, of which some are not there.
    mixed = {top for name in installed().keys() - there for top in files(name)}
    for name in there:
        for top, inside in files(name).items():
            for file in () if top == ".." else inside if top in mixed else [top]:
                link = target / file
                link.parent.mkdir(parents=True, exist_ok=True)
                if not link.is_symlink():
                    link.symlink_to(installed()[name].locate_file(file))
        for file in files(name).get("..", ()):
            path, script = Path(str(installed()[name].locate_file(file))), folder / "bin" / Path(file).name
            if path.parent.name == "bin" and not script.exists():
                first, _, rest = path.read_bytes().partition(b"\n")
                interpreted = first.startswith(b"#!") and b"python" in first
                script.write_bytes(b"#!%s\n%s" % (os.fsencode(python), rest) if interpreted else path.read_bytes())
                script.chmod(0o755)
    return python


if __name__ == "__main__":
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    named = [name for word in sys.argv[1:cut] for name in (OPTIONAL if word == "all" else EXTRAS.get(word, [word]))]
    if unknown := {*named} - OPTIONAL.keys():
        sys.exit(f"no extra and no package of one: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="without-") as folder:
        command = [make(Path(folder), others(named)), "-m", "pytest", *sys.argv[cut + 1 :]]
        sys.exit(subprocess.run(command, cwd=ROOT, check=False).returncode)
