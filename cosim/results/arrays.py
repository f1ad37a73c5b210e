"""Arrow arrays from numpy arrays and texts, and back.

`pyarrow.array` and `to_numpy` import pandas where it is installed, to see whether it plays a part; that
takes a quarter of a second of every short run. These take buffers as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

# pyarrow's own `to_pandas_dtype` fails without pandas before pyarrow 26
_NUMPY = {pa.from_numpy_dtype(kind): np.dtype(kind) for kind in "?bhilBHILefd"}


def numbers(values: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> pa.Array:
    """`values` (n,) of a number type, or bool; null where `missing` (n,) is true."""
    valid = None if missing is None or not missing.any() else pa.py_buffer(_bits(~missing))
    data = _bits(values) if values.dtype == np.bool_ else np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, pa.py_buffer(data)])


def values_of(array: pa.Array) -> NDArray[Any]:
    """The numbers of an array without nulls, as a view: (n,), bool not included."""
    kind = _NUMPY[array.type]
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.empty(0, kind)
    return np.frombuffer(data, kind, len(array), array.offset * kind.itemsize)


def texts(values: Sequence[str]) -> pa.Array:
    """`values` as an array of strings."""
    encoded = [value.encode() for value in values]
    ends = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(one) for one in encoded], out=ends[1:])
    if ends[-1] > np.iinfo(np.int32).max:
        raise OverflowError(f"{ends[-1]} B of text do not fit into one array of strings")
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def taken(array: pa.Array, places: NDArray[np.int64]) -> pa.Array:
    """The strings of `array`, which has no nulls, at `places`. `array.take` would load all of `pyarrow.compute`."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32, len(array) + 1, 4 * array.offset).astype(np.int64)
    sizes = ends[places + 1] - ends[places]
    stops = np.zeros(len(places) + 1, np.int64)
    np.cumsum(sizes, out=stops[1:])
    found = np.repeat(ends[places] - stops[:-1], sizes) + np.arange(stops[-1])
    letters = np.frombuffer(data, np.uint8)[found] if len(found) else np.empty(0, np.uint8)
    buffers = [None, pa.py_buffer(stops.astype(np.int32)), pa.py_buffer(letters)]
    return pa.Array.from_buffers(pa.string(), len(places), buffers)


def _bits(values: NDArray[np.bool_]) -> NDArray[np.uint8]:
    return np.packbits(values, bitorder="little")


def table(schema: pa.Schema, columns: Sequence[Sequence[Any]]) -> pa.Table:
    """A table of texts and numbers, None where there is nothing; `columns` are in the order of `schema`."""
    return pa.Table.from_arrays(
        [_column(field.type, values) for field, values in zip(schema, columns, strict=True)], schema=schema
    )


def _column(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    missing = np.fromiter((value is None for value in values), np.bool_, len(values))
    if pa.types.is_string(kind):
        found = texts(["" if value is None else value for value in values])
        valid = pa.py_buffer(_bits(~missing)) if missing.any() else None
        return pa.Array.from_buffers(kind, len(values), [valid, *found.buffers()[1:]])
    return numbers(np.array([0 if value is None else value for value in values], _NUMPY[kind]), missing)
