"""Where a run comes from: versions, git state of the scenario's folder, facts of the machine."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

_PACKAGES = (
    "continuum-cosim", "mosaik", "numpy", "numba", "pyzmq", "msgpack", "pyarrow", "duckdb", "pydantic",
    "eclipse-sumo", "libsumo", "traci",
)  # fmt: skip
_GIT_LIMIT = 5.0  # s for one call of git; a hanging network mount must not hold up a run


@cache
def versions() -> dict[str, str]:
    """Version of every installed distribution that can change a result, and of Python."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def git_state(folder: Path) -> dict[str, Any] | None:
    """`{"commit", "dirty"}` of the repository around `folder`; None without one, without git or in time.

    A repository can name programs in its configuration and attributes (`core.fsmonitor`, `filter.NAME.clean`, promisor
    remotes), which would run here. So the changes are asked of a repository without a configuration, which borrows
    objects and index of this one.
    """
    asked = ("--show-toplevel", "--absolute-git-dir", "--path-format=absolute", "--git-common-dir", "HEAD")
    found = (_git(folder, {}, "rev-parse", *asked) or "").splitlines()
    if len(found) != 4:
        return None
    top, own, common, commit = found
    with TemporaryDirectory(prefix="cosim-") as made:
        for name in ("refs", "info", "objects"):
            (Path(made) / name).mkdir()
        Path(made, "HEAD").write_text(commit + "\n", encoding="utf-8")
        with suppress(OSError):
            Path(made, "info/exclude").write_bytes(Path(common, "info/exclude").read_bytes())
        where = {"GIT_DIR": made, "GIT_WORK_TREE": top, "GIT_INDEX_FILE": f"{own}/index"}
        where["GIT_OBJECT_DIRECTORY"] = f"{common}/objects"
        changes = _git(folder, where, "status", "--porcelain", "--ignore-submodules=dirty", "--", ".")
    return {"commit": commit, "dirty": None if changes is None else bool(changes.strip())}


def host_facts() -> dict[str, Any]:
    """The machine, as far as it explains how long a run took. No host name: folders get published."""
    return {
        "platform": platform.platform(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory": _memory(),  # B
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def _git(folder: Path, where: Mapping[str, str], *arguments: str) -> str | None:
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *arguments],
            capture_output=True, text=True, timeout=_GIT_LIMIT, check=True, stdin=subprocess.DEVNULL,
            env={**os.environ, **quiet, **where},
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _memory() -> int | None:
    if sys.platform == "win32":
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
