"""Virtual environments with packages of others, each made once, and the versions that the project asks for.

With COSIM_CLIENTS=1 a missing environment is made (network needed) in COSIM_CLIENTS_DIR, by default a folder of the
user's cache; without, what needs it is skipped.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CACHE = Path(os.environ.get("COSIM_CLIENTS_DIR", Path.home() / ".cache" / "continuum-cosim" / "clients"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def package(requirement: str) -> str:
    """The package that a requirement names."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def interpreter(name: str, *requirements: str, base: str = sys.executable) -> Path:
    """The Python of the environment `name`, in which pip has installed `requirements` with the interpreter `base`."""
    folder = CACHE / name
    python, made = folder / "bin" / "python", folder / "made-of.txt"
    wanted = "\n".join((str(Path(base).resolve()), *requirements))

    def there() -> bool:
        return python.exists() and made.exists() and made.read_text("utf-8") == wanted

    if not there() and os.environ.get("COSIM_CLIENTS") != "1":
        pytest.skip(f"the environment {folder} is missing, or made of other packages; COSIM_CLIENTS=1 makes it")
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be making it
        if not there():  # none yet, or of other versions, or one that was given up half made
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([base, "-m", "venv", folder], check=True)
            # What follows the clock beside it comes first.
            words = ["nice", python, "-m", "pip", "install", "--quiet", "--prefer-binary", *requirements]
            subprocess.run(words, check=True, timeout=1800)  # a busy machine builds for long
            made.write_text(wanted, "utf-8")
    return python
