"""Build the ns-3 engine against the `ns3` wheel: `python -m cosim.adapters.ns3.build [--wheel FOLDER]`; prints where
it is.

The engine is a program of its own under GPL-2.0, as ns-3 is; nothing of it is imported. The wheel needs not be
installed beside this package: one that has been installed elsewhere will do. What is built lies in the cache folder
(`COSIM_CACHE`, else `~/.cache/continuum-cosim`) under a name with a digest of the sources, the wheel and the compiler,
so a change of any of them builds anew.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cosim.contract.environment import cache, variable
from cosim.contract.errors import CosimError, SetupError
from cosim.contract.link import INTEGERS
from cosim.testbed.emulation.protocol import PAIR, REPORT

SOURCES = Path(__file__).parent / "engine"
INSTALLED = Path("/usr/local/lib/cosim/ns3-engine")  # where an image without a compiler has it
VERSION = "3.44"  # of ns-3, for which the engine was written
LIBRARIES = ("core", "network", "mobility", "propagation", "wifi", "spectrum", "antenna", "energy", "stats")
FLAGS = (
    "-std=c++20", "-O2", "-Wall", "-Wextra", "-Wl,--allow-shlib-undefined", f"-DLINK_FIELDS={len(INTEGERS)}",
    f"-DREPORT_SIZE={REPORT.size}", f"-DPAIR_SIZE={PAIR.size}",
)  # fmt: skip
INSTALL = (
    f"pip install ns3=={VERSION}.post0 (CPython 3.10 to 3.13 on x86-64), or name the folder `ns3` of an installation "
    "elsewhere in COSIM_NS3"
)
LIMIT = 600.0  # s for the compiler


def engine(folder: Path | None = None) -> Path:
    """The program, built first if need be. Raises `SetupError` with the reason when it cannot be built."""
    if folder is None and os.access(INSTALLED, os.X_OK):
        return INSTALLED
    ns3, compiler = wheel(folder), shlex.split(variable("CXX")) or ["g++"]
    made = _place(ns3, compiler)
    if not made.exists():
        _compile(ns3, compiler, made)
    return made


def built(folder: Path | None = None) -> bool:
    """Whether the program is there already."""
    if folder is None and os.access(INSTALLED, os.X_OK):
        return True
    try:
        return _place(wheel(folder), shlex.split(variable("CXX")) or ["g++"]).exists()
    except SetupError:
        return False


def obstacle() -> str:
    """Why there is no program and none can be built here, "" when nothing is known to be in the way; builds nothing."""
    compiler = shlex.split(variable("CXX")) or ["g++"]
    if built():
        return ""
    try:
        wheel()
    except SetupError as error:
        return str(error)
    return "" if shutil.which(compiler[0]) else _no_compiler(compiler)


def wheel(folder: Path | None = None) -> Path:
    """The wheel's folder `ns3`, with `include` and `lib64`: `folder`, else `COSIM_NS3`, else the installed one.

    SetupError when there is none, or another version.
    """
    if folder is None and variable("COSIM_NS3"):
        folder = Path(variable("COSIM_NS3"))
    if folder is None:
        found = importlib.util.find_spec("ns3")
        places = list(found.submodule_search_locations or ()) if found else []
        if not places:
            raise SetupError(f"backend ns3 needs the ns3 wheel, which is not installed: {INSTALL}")
        folder = Path(places[0])
    library = folder / "lib64" / f"libns{VERSION}-wifi.so"
    if not library.exists():
        raise SetupError(f"{folder} is no ns-3 {VERSION}, {library.name} is missing: {INSTALL}")
    return folder.resolve()


def _place(ns3: Path, compiler: list[str]) -> Path:
    digest = hashlib.sha256("\0".join((*compiler, *FLAGS, str(ns3), VERSION)).encode())
    for file in sorted((*SOURCES.glob("*.cc"), *SOURCES.glob("*.hpp"))):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return cache() / f"ns3-engine-{digest.hexdigest()[:16]}"


def _compile(ns3: Path, compiler: list[str], made: Path) -> None:
    if shutil.which(compiler[0]) is None:
        raise SetupError(_no_compiler(compiler))
    libraries = ns3 / "lib64"
    arguments = [
        *compiler, *FLAGS, str(SOURCES / "main.cc"), "-isystem", str(ns3 / "include"),
        f"-L{libraries}", f"-Wl,-rpath,{libraries}", *(f"-lns{VERSION}-{name}" for name in LIBRARIES), "-lpthread",
    ]  # fmt: skip
    try:
        made.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=made.parent) as folder:
            fresh = Path(folder) / "engine"
            subprocess.run([*arguments, "-o", str(fresh)], check=True, capture_output=True, text=True, timeout=LIMIT)
            fresh.replace(made)  # several processes may build at the same time
    except subprocess.CalledProcessError as error:
        raise SetupError(f"{compiler[0]} cannot compile the ns-3 engine: {error.stderr.strip()[:800]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(
            f"cannot build the ns-3 engine in {made.parent}: {error}; COSIM_CACHE names another folder"
        ) from error


def _no_compiler(compiler: list[str]) -> str:
    return f"no C++ compiler ({compiler[0]}); install one with C++20, or name yours in CXX"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m cosim.adapters.ns3.build", description="Build the ns-3 engine.")
    parser.add_argument("--wheel", type=Path, metavar="FOLDER", help="folder `ns3` of an installed wheel")
    try:
        made = engine(parser.parse_args().wheel)
    except CosimError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(f"{made}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
