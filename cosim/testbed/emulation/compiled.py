"""The compiled linkd: built from its sources when it is first needed, and kept in the cache folder.

python -m cosim.testbed.emulation.compiled [/usr/local/lib/cosim/linkd]       builds it now, for an image without a
compiler
"""

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

from cosim.contract.environment import cache
from cosim.contract.errors import SetupError

SOURCES = Path(__file__).parent / "native"
FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra")
LIMIT = 120.0  # s for the compiler
INSTALLED = Path("/usr/local/lib/cosim/linkd")  # where an image without a compiler has it
REMEDY = "apt install gcc libc6-dev, or name your compiler in CC"


def linkd() -> Path:
    """The program; SetupError with the reason when there is none and it cannot be built here."""
    if os.access(INSTALLED, os.X_OK):
        return INSTALLED
    return build(["linkd.c", "switch.c"], "linkd")


def obstacle() -> str:
    """Why linkd cannot be built here, "" when nothing is known to be in the way; builds nothing."""
    return "" if os.access(INSTALLED, os.X_OK) else _missing()


def build(sources: Sequence[str], name: str, flags: Sequence[str] = ()) -> Path:
    """Compile `sources` of the folder `native` to the file `name`-digest in the cache folder, if it is not there."""
    missing, compiler = _missing(), _compiler()
    if missing:
        raise SetupError(f"{name}: {missing}")
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


def main(arguments: Sequence[str]) -> int:
    """Build linkd, copy it to the first argument if there is one, and print its path."""
    try:
        made = linkd()
        if arguments:
            shutil.copy2(made, arguments[0])
            made = Path(arguments[0])
    except (SetupError, OSError) as error:
        sys.stderr.write(f"linkd: {error}\n")
        return 2
    sys.stdout.write(f"{made}\n")
    return 0


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CC", "")) or ["cc"]


def _missing() -> str:
    compiler = _compiler()[0]
    return "" if shutil.which(compiler) else f"no C compiler ({compiler}) to build it with, nor {INSTALLED}: {REMEDY}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
