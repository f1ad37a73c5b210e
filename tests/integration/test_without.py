"""Where optional packages are missing every module of tests can be collected, and every test passes or skips."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from functools import cache
from itertools import chain, islice
from pathlib import Path

import pytest

from tests.without import EXTRAS, OPTIONAL, ROOT, brought, installed, make, modules, others, present

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def passes(python: Path, *words: str, skips: str = "") -> bool:
    command = [python, "-m", "pytest", "-q", "-m", "not slow and not chaos", "-p", "no:cacheprovider", *words]
    command.append("--continue-on-collection-errors")
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "COSIM_REQUIRE": "", "COSIM_SKIPS": skips}, check=False)
    return done.returncode in (0, pytest.ExitCode.NO_TESTS_COLLECTED)


@cache
def texts() -> dict[str, str]:
    """Name of each module of tests -> its text."""
    files = [path for top in ("adapters", "extensions", "tests") for path in (ROOT / top).rglob("*.py")]
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in files if "tests" in path.parts}
    return {name: path.read_text("utf-8") for name, path in names.items()}


@cache
def imported(name: str) -> set[str]:
    """What a module imports, in functions too."""
    found = set()
    for node in ast.walk(ast.parse(texts()[name])):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update({node.module, *(f"{node.module}.{alias.name}" for alias in node.names)})
    return found


@cache
def naming(package: str) -> frozenset[str]:
    """The files of tests that name a package, or import a module of tests that does."""
    if package not in installed():
        return frozenset()
    names = "|".join(modules(brought(OPTIONAL[package]) - present(others([package]))))
    own = "|".join(modules([package]))
    # "sumo" is an adapter in most places
    word = re.compile(
        rf"(?:import |from |importorskip\(.)(?:{names})\b|mark\.(?:{own})\b|[\"'](?!sumo\b)(?:{own})[.\"']"
    )
    found = {name for name, text in texts().items() if word.search(text)}
    tests = (name for name in texts() if name.rpartition(".")[2].startswith("test_"))
    return frozenset(f"{name.replace('.', '/')}.py" for name in tests if name in found or imported(name) & found)


def asked(reason: str) -> set[str]:
    """The optional packages, of those that are installed here, for which a test was skipped."""
    if module := re.search(r"could not import '(\w+)|module '(\w+)' is not installed", reason):
        top = module[1] or module[2]
        own = (name for name in OPTIONAL if top in modules({name} & installed().keys()))
        with_it = (name for name, line in OPTIONAL.items() if top in modules(brought(line)))
        return {*islice(chain(own, with_it), 1)}
    extras = re.findall(r"pip install -e '\.\[(\w+)\]'", reason)
    return {name for extra in extras for name in EXTRAS[extra] if name in installed()}


@pytest.mark.parametrize("package", sorted(OPTIONAL))
def test_nothing_fails_without(package, tmp_path):
    """What names it and others, of which one is missing: code may go another way where some of what it needs is there.

    What names it alone is the same as without any.
    """
    if package not in installed():
        pytest.skip(f"{package} is not installed here: all other tests run without")
    if files := naming(package) & frozenset().union(*(naming(other) for other in OPTIONAL if other != package)):
        assert passes(make(tmp_path, others([package])), *sorted(files))


def test_nothing_needs_more_than_it_asks_for(tmp_path):
    """Each test, first without any optional package, then with those alone that it has been skipped for.

    So none fails for want of a package that it does not ask for, whatever else is missing.
    """
    waiting: dict[frozenset[str], list[str]] = {frozenset(): ["tests", "adapters", "extensions"]}
    failed = []
    while waiting:
        there = min(waiting, key=len)
        folder = tmp_path / "-".join(["with", *sorted(there)])
        python, tests, skips = make(folder, there), folder / "tests", folder / "skips.json"
        tests.write_text("".join(f"{name}\n" for name in waiting.pop(there)))
        spread = [] if there else ["-n2", "--dist=loadgroup", "--no-loadscope-reorder"]
        if not passes(python, *spread, f"@{tests}", skips=str(skips)):
            failed.append(folder.name)
        for name, reason in json.loads(skips.read_text("utf-8")).items():
            if more := asked(reason):
                assert not more <= there, f"{name} is skipped although it has what it asks for: {reason}"
                waiting.setdefault(there | more, []).append(name)
    assert not failed
