"""Arrow arrays made from buffers are those that pyarrow makes."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from cosim.results.arrays import numbers, table, taken, texts, values_of


@pytest.mark.parametrize("values", [
    np.arange(5, dtype=np.int32), np.array([0.5, np.nan]), np.array([True, False, True] * 5), np.empty(0, np.int64),
    np.arange(10, dtype=np.float32)[::2],
])  # fmt: skip
def test_numbers_are_as_pyarrow_has_them(values):
    assert numbers(values).equals(pa.array(values)) or np.isnan(values).any()
    missing = np.arange(len(values)) % 2 == 1
    found, expected = numbers(values, missing), pa.array(values, mask=missing)
    found.validate(full=True)
    assert found.null_count == missing.sum()
    assert found.equals(expected)


def test_texts_and_tables_are_as_pyarrow_has_them():
    words = ["a", "", "größer", "drone-1"]
    assert texts(words).equals(pa.array(words))
    assert texts([]).equals(pa.array([], pa.string()))
    schema = pa.schema([("word", pa.string()), ("x", pa.float64()), ("n", pa.int32())])
    columns = [["a", None, "ü"], [None, 1.5, 2.0], [1, 2, 3]]
    found = table(schema, columns)
    found.validate(full=True)
    assert found.equals(pa.Table.from_pydict(dict(zip(schema.names, columns, strict=True)), schema=schema))


def test_strings_are_taken_as_pyarrow_takes_them():
    words = texts(["a", "", "größer", "drone-1"])
    for array in (words, words.slice(1, 3)):
        for places in ([], [1], [0, 2], [2, 1, 1]):
            found = taken(array, np.array(places, np.int64))
            found.validate(full=True)
            assert found.equals(array.take(pa.array(places, pa.int64())))


def test_a_slice_gives_its_own_values():
    assert values_of(numbers(np.arange(6.0)).slice(2, 3)).tolist() == [2.0, 3.0, 4.0]
    assert values_of(numbers(np.empty(0, np.int32))).dtype == np.int32


def test_pandas_is_left_alone():
    code = (
        "import sys, numpy as np; from cosim.results.arrays import *;"
        "x = numbers(np.arange(3)); values_of(x); texts(['a']);"
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
