"""Compile what most first runs need into the package that is imported: `python packaging/precompile.py`.

Building a wheel does this, and so does `make` after it has installed a checkout; it takes about a minute. The machine
code is used as long as it was made of the same sources, by the same numba and for the same kind of processor
(see `cosim.compiling`). The other adapters compile at their first use.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

ADAPTERS = ("continuum", "radio", "vehicle", "wifi")


def precompile(folder: Path) -> int:
    """Fill `cosim.compiling.PRECOMPILED` anew, compiling into the empty `folder`; the number of entry points."""
    os.environ["COSIM_CACHE"] = str(folder)
    for name in ("NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT"):
        os.environ.pop(name, None)
    from cosim.compiling import PRECOMPILED

    shutil.rmtree(PRECOMPILED, ignore_errors=True)
    import numpy as np

    from cosim.results.compiled import compile_first
    from cosim.vehicles.coverage import Coverage

    compile_first(ADAPTERS, lambda text: print(text, flush=True))
    one = np.zeros(1, np.int64)  # the examples of the adapters have no camera that marks what it sees
    Coverage(1, (0.0, 0.0, 1.0, 1.0)).look(one, np.zeros((1, 5)), one + 1)
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
