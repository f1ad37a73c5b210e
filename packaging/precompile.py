"""Compile what adapters need into the package that is imported: `python packaging/precompile.py`.

Building a wheel does this, and so does `make` after it has installed a checkout; it takes about a minute on two cores.
The machine code is used as long as it was made of the same sources, by the same numba and for the same kind of
processor (see `cosim.compiling`).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

PROCESSES = 4  # at most; each takes half a GB


def _compile(name: str) -> None:
    """Have what the adapter `name` needs compiled into the folder COSIM_CACHE."""
    from cosim.results.compiled import compile_first

    compile_first([name], lambda text: print(text, flush=True))


def _camera() -> None:
    """What vehicles have in many scenarios and not in the adapter's example: a camera that marks what it sees."""
    import numpy as np

    from cosim.vehicles.coverage import Coverage

    one = np.zeros(1, np.int64)
    Coverage(1, (0.0, 0.0, 1.0, 1.0)).look(one, np.zeros((1, 5)), one + 1)


def _machines() -> None:
    """What nodes have in many scenarios and not in the adapter's example: batteries, clocks, accelerators."""
    from cosim.continuum.equipment import place

    place()


def precompile(folder: Path) -> int:
    """Fill `cosim.compiling.PRECOMPILED` anew, compiling into the empty `folder`; the number of entry points."""
    os.environ["COSIM_CACHE"] = str(folder)
    for name in ("NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT"):
        os.environ.pop(name, None)
    from cosim.bus import scan
    from cosim.compiling import PRECOMPILED
    from cosim.contract.registry import list_adapters
    from cosim.results.compiled import uncompiled

    shutil.rmtree(PRECOMPILED, ignore_errors=True)
    scan.compile_all()
    here = uncompiled(one.name for one in list_adapters() if one.kind)
    with ProcessPoolExecutor(min(PROCESSES, os.cpu_count() or 1)) as pool:
        jobs = [pool.submit(_machines), pool.submit(_camera), *(pool.submit(_compile, name) for name in here)]
        for job in jobs:
            job.result()
    PRECOMPILED.mkdir()
    made = [file for file in folder.rglob("*") if file.suffix in (".nbi", ".nbc")]
    for file in made:
        shutil.copyfile(file, PRECOMPILED / file.name)
    return sum(file.suffix == ".nbi" for file in made)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="cosim-precompile-") as folder:
        count = precompile(Path(folder))
    print(f"{count} compiled functions are part of this installation")
    sys.exit(0 if count else 1)


if __name__ == "__main__":
    main()
