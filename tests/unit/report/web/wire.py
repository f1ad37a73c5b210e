"""The messages of the dashboard as the browser reads them."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

from cosim.report.web.message import ALIGN, DTYPES, Array


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    """Header and columns of a message, as the browser reads it. Raises `ValueError` when it is none."""
    if len(data) < 4:
        raise ValueError("the message is too short")
    (length,) = struct.unpack_from("<I", data)
    header: dict[str, Any] = json.loads(data[4 : 4 + length])
    place, columns = -(-(4 + length) // ALIGN) * ALIGN, {}
    for name, kind, count in header["columns"]:
        columns[name] = np.frombuffer(data, DTYPES[kind], count, place)
        place += -(-columns[name].nbytes // ALIGN) * ALIGN
    if place != len(data):
        raise ValueError("the message is not as long as its header says")
    return header, columns
