"""Arrays in annotations."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Records: TypeAlias = Any
"""A record array, or rows of one; its dtype stands beside the annotation.

It is not `Records`: the stubs of numpy know no types of fields, so that whatever is said of two fields
matches every overload of every operator, and mypy takes up to four seconds a line to find that it is Any.
"""
