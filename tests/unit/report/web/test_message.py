"""Frames on their way to the browser."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.report.web.message import ALIGN, pack, pack_columns, strict
from tests.unit.report.web.wire import unpack

COLUMNS = st.dictionaries(
    st.text(min_size=1, max_size=8),
    st.tuples(st.sampled_from(["<i4", "<f4", "u1"]), st.lists(st.integers(0, 200), max_size=20)),
    max_size=5,
)


@given(COLUMNS, st.dictionaries(st.sampled_from(["time", "name", "x"]), st.floats() | st.text(max_size=9)))
def test_what_is_packed_is_read_back(columns, header):
    arrays = {name: np.array(values, dtype) for name, (dtype, values) in columns.items()}
    data = pack(header, pack_columns(arrays))
    assert len(data) % ALIGN == 0
    found, read = unpack(data)
    assert {key: found[key] for key in header} == strict(header)
    assert list(read) == list(arrays)
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        assert read[name].tolist() == array.tolist()


@given(st.data())
def test_a_cut_message_is_noticed(data):
    message = pack({"time": 1.0}, pack_columns({"x": np.arange(9, dtype="<f4")}))
    cut = message[: data.draw(st.integers(0, len(message) - 1))]
    with pytest.raises((ValueError, KeyError)):
        unpack(cut)


def test_json_has_no_infinities():
    found = strict({"a": [np.float64("inf"), float("nan"), np.int32(3), np.bool_(True)], 5: np.zeros(2)})
    assert found == {"a": [None, None, 3, True], "5": [0.0, 0.0]}
    assert strict((1, "a", None)) == [1, "a", None]
