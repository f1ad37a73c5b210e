"""Scenarios in plain Python, where an index outside an array is an error, against machine code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[2]
# each for as long as plain Python needs some seconds
LASTING = {
    "disaster": "15 min", "edge-inference": "5 s", "fog-interval": "1 h", "gpu-generated": "2 h", "hello": "10 s",
    "jammed-city": "5 s", "offloading": "80 s", "predictive-migration": "1 h", "smart-farm": "1 min",
    "stress-5g": "5 s",
}  # fmt: skip


def tables(folder: Path, scenario: str, plain: bool) -> dict[str, dict[str, list[object]]]:
    """Columns of tasks and of all recorded signals of a run, by file."""
    command = [
        sys.executable, "-m", "cosim", "run", scenario, "--set", f"run.duration={LASTING[scenario]}",
        "--out", str(folder), "--no-report", "--quiet",
    ]  # fmt: skip
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1" if plain else "0"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    found = {str(file.relative_to(folder)).split("/", 2)[2]: file for file in folder.rglob("*.parquet")}
    return {name: pq.read_table(file).to_pydict() for name, file in found.items()}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", LASTING)
def test_plain_python_finds_no_index_out_of_range_and_the_same_numbers(tmp_path, scenario):
    compiled, plain = (tables(tmp_path / str(mode), scenario, mode) for mode in (False, True))
    assert compiled.keys() == plain.keys()
    assert compiled
    for name, columns in compiled.items():
        for column, expected in columns.items():
            found = plain[name][column]
            if expected and isinstance(expected[0], float):
                np.testing.assert_allclose(
                    np.array(found, float), np.array(expected, float), 1e-9, 1e-9, err_msg=f"{name} {column}"
                )
            else:
                assert found == expected, (name, column)
