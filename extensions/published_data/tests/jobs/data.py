"""Where the real data lie; tests that read them are skipped without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
DATA = Path(os.environ.get("COSIM_DATA", ROOT.parent / "shared" / "data"))


def needs(folder: str):
    """Marks of a test that reads the data below `folder`."""
    there = (DATA / folder).is_dir()
    return [pytest.mark.data, pytest.mark.skipif(not there, reason=f"there is no {DATA / folder}")]
