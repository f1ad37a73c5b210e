"""What images are built from where there is no checkout: an installed package brings the rest of one.

Wheels hold, in `cosim/image`, the files of a checkout that the Dockerfiles need besides the package. So an image
holds the very code that is installed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

BROUGHT = Path(__file__).resolve().parents[2] / "image"  # made when a wheel is built
_BESIDE = ("adapters", "extensions")  # in a checkout they are beside the package, with links in it
_NOT_SOURCES = ("image", "gallery", "scenarios", "precompiled", "tests", "__pycache__")


def brings_sources() -> bool:
    """Whether images can be built from this installation."""
    return BROUGHT.is_dir()


def lay_out(folder: Path) -> None:
    """Make `folder`, which must not be there, a checkout as far as images need one."""
    shutil.copytree(BROUGHT, folder)
    package = Path(__file__).parents[2]
    for name in _BESIDE:
        if (package / name).is_dir():
            shutil.copytree(package / name, folder / name, ignore=shutil.ignore_patterns(*_NOT_SOURCES))
        else:  # an installation without extensions; the Dockerfiles copy the folder
            (folder / name).mkdir()
    shutil.copytree(package, folder / "cosim", ignore=shutil.ignore_patterns(*_NOT_SOURCES, *_BESIDE))
    for name in _BESIDE:
        (folder / "cosim" / name).symlink_to(Path("..", name))
