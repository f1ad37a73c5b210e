"""Whether the machine code of windows and trees is already there, and how it gets there."""

from __future__ import annotations

import numpy as np

from cosim.compiled.compiling import ready
from cosim.extensions.detection.dataset import windows
from cosim.extensions.detection.detect import detector


def compiled() -> bool:
    """Whether a detector scores windows without compiling first. Imports numba."""
    return ready(windows.windowed, detector.grown)


def compile_all() -> None:
    """Have all of it compiled, whatever form the next detector has; nothing happens where it is."""
    if not compiled():
        none, where = np.empty(0), np.empty(0, np.int64)
        windows.windowed(none, where, none.copy(), none.copy())
        detector.grown(np.empty((0, 1)), where, where, none, where, where, none, none.copy())
