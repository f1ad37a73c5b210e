"""What images are built from where there is no checkout: an installed package brings the rest of one.

Wheels hold, in `cosim/image`, the files of a checkout that the Dockerfiles need besides the packages `cosim` and
`adapters`. So an image holds the very code that is installed.
"""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

BROUGHT = Path(__file__).resolve().parents[1] / "image"  # made when a wheel is built
_NOT_SOURCES = ("image", "gallery", "precompiled", "tests", "__pycache__")


def brings_sources() -> bool:
    """Whether images can be built from this installation."""
    return BROUGHT.is_dir()


def lay_out(folder: Path) -> None:
    """Make `folder`, which must not be there, a checkout as far as images need one."""
    shutil.copytree(BROUGHT, folder)
    for name in ("cosim", "adapters"):
        found = find_spec(name)
        assert found is not None
        for place in found.submodule_search_locations or ():
            shutil.copytree(place, folder / name, ignore=shutil.ignore_patterns(*_NOT_SOURCES), dirs_exist_ok=True)
