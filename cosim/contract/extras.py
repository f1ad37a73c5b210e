"""What the extras of this package bring, and how it is installed."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

DISTRIBUTION = "continuum-cosim"


def how_to_install(extra: str) -> str:
    """The command that installs what `extra` brings.

    It names the packages of the extra, which package indexes have. This package itself comes as a checkout or as a
    wheel, and no index needs to have it.
    """
    from importlib.metadata import PackageNotFoundError, requires

    try:
        needs = requires(DISTRIBUTION) or []
    except PackageNotFoundError:  # a checkout that is not installed
        return pip(f"{Path(__file__).parents[2]}[{extra}]")
    wanted = re.compile(rf"\bextra == [\"']{extra}[\"']")
    return pip(*(line.split(";")[0].strip() for line in needs if wanted.search(line)))


def pip(*requirements: str) -> str:
    """The command that installs `requirements` for the interpreter that runs.

    Where `pip` is that of another one, as with `.venv/bin/cosim`, the command names the interpreter.
    """
    found = shutil.which("pip")
    here = found is not None and Path(found).parent == Path(sys.executable).parent
    program = ["pip"] if here else [sys.executable, "-m", "pip"]
    return shlex.join([*program, "install", *requirements])
