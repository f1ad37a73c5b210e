"""How packages are built: by setuptools, with machine code in wheels.

Machine code is made with what the package itself needs to run, so building a wheel needs that, too. An editable
installation and a source archive contain none and need setuptools only.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = dict[str, str | list[str] | None]


def get_requires_for_build_wheel(config_settings: Settings | None = None) -> list[str]:
    """What pip installs for the time of building a wheel."""
    needs = list(build_meta.get_requires_for_build_wheel(config_settings))
    if os.environ.get("COSIM_PRECOMPILE") != "0":
        project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
        needs += project["dependencies"]
    return needs
