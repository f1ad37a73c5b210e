"""One frame on its way to the browser: a JSON header and raw little-endian columns.

Layout: length of the header (uint32), header, zero bytes up to a multiple of 8, then every column
at a multiple of 8. The header's `columns` lists [name, dtype, length].
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from cosim.contract.frame import Array

ALIGN = 8
DTYPES = {"i4": "<i4", "f4": "<f4", "u1": "u1"}


def pack_columns(columns: Mapping[str, Array]) -> tuple[list[list[Any]], bytes]:
    """The list for the header, and the columns in one piece. Columns are int32, float32 or uint8."""
    names, pieces = [], []
    for name, column in columns.items():
        kind = next(short for short, dtype in DTYPES.items() if column.dtype == np.dtype(dtype))
        names.append([name, kind, len(column)])
        pieces += [column.tobytes(), bytes(-column.nbytes % ALIGN)]
    return names, b"".join(pieces)


def pack(header: Mapping[str, Any], columns: tuple[list[list[Any]], bytes]) -> bytes:
    """A message of `header` and what `pack_columns` made."""
    text = json.dumps(strict({**header, "columns": columns[0]}), separators=(",", ":"), allow_nan=False).encode()
    return struct.pack("<I", len(text)) + text + bytes(-(4 + len(text)) % ALIGN) + columns[1]


def strict(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """`value` with null for NaN and infinities, and plain values for numpy's."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(item) for item in value]
    if isinstance(value, (np.generic, np.ndarray)):
        return strict(value.tolist())
    return value
