"""The compiled linkd: built from its sources when it is first needed, and kept in the cache folder."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cosim.errors import SetupError

SOURCES = Path(__file__).parent / "native"
FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra")
LIMIT = 120.0  # s for the compiler
INSTALLED = Path("/usr/local/lib/cosim/linkd")  # where an image without a compiler has it


def cache() -> Path:
    """Folder for generated files: `COSIM_CACHE`, else `continuum-cosim` in the user's cache folder."""
    if os.environ.get("COSIM_CACHE"):
        return Path(os.environ["COSIM_CACHE"])
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "continuum-cosim"


def linkd() -> Path:
    """The program; SetupError, which says why, when there is none and it cannot be built here."""
    if os.access(INSTALLED, os.X_OK):
        return INSTALLED
    return build(["linkd.c", "switch.c"], "linkd")


def command(seed: int = 0, *, python: bool = False) -> tuple[list[str], str]:
    """How to start linkd, and in words which of the two it is and why."""
    options = [f"--seed={seed}"]
    if not python:
        try:
            return [str(linkd()), *options], "linkd, compiled"
        except SetupError as error:
            reason = f"linkd in Python: {error}"
    else:
        reason = "linkd in Python, as asked for"
    return [sys.executable, "-m", "cosim.emulation.linkd", *options], reason


def build(sources: Sequence[str], name: str, flags: Sequence[str] = ()) -> Path:
    """Compile `sources` of the folder `native` to the file `name`-digest in the cache folder, if it is not there."""
    compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
    if shutil.which(compiler[0]) is None:
        raise SetupError(f"no C compiler ({compiler[0]}); install one, or name yours in CC")
    arguments = [*compiler, *FLAGS, *flags]
    digest = hashlib.sha256("\0".join((*arguments, os.uname().machine)).encode())
    for file in sorted(SOURCES.glob("*.[ch]")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    made = cache() / f"{name}-{digest.hexdigest()[:16]}"
    if made.exists():
        return made
    try:
        made.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=made.parent) as folder:
            fresh = Path(folder) / name
            subprocess.run(
                [*arguments, "-o", str(fresh), *(str(SOURCES / source) for source in sources)],
                check=True,
                capture_output=True,
                text=True,
                timeout=LIMIT,
            )
            fresh.replace(made)  # several processes may build at the same time
    except subprocess.CalledProcessError as error:
        raise SetupError(f"{compiler[0]} cannot compile {name}: {error.stderr.strip()[:500]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"cannot build {name} in {made.parent}: {error}; COSIM_CACHE names another folder") from error
    return made
