"""The slot book: stable, lowest free first, one generation per identity."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.errors import RunError
from cosim.contract.slots import SlotBook

steps = st.lists(st.lists(st.sampled_from([f"v{i}" for i in range(12)]), unique=True), max_size=30)


def test_members_keep_their_slots_in_any_order():
    book = SlotBook(5, 10, "cars")
    assert book.assign(["a", "b", "c"]).tolist() == [5, 6, 7]
    assert book.assign(["c", "a", "b"]).tolist() == [7, 5, 6]


def test_lowest_free_slot_is_reused_and_its_generation_grows():
    book = SlotBook(0, 10, "cars")
    book.assign(["a", "b", "c", "d"])
    book.assign(["b", "d"])
    assert book.assign(["d", "e", "b", "f", "g"]).tolist() == [3, 0, 1, 2, 4]
    table = book.table()
    assert table.ids == ("e", "b", "f", "d", "g")
    assert table.generation.tolist() == [1, 0, 1, 0, 0]


def test_a_slot_freed_in_a_step_is_taken_in_the_same_step():
    book = SlotBook(0, 1, "cars")
    assert book.assign(["a"]).tolist() == [0]
    assert book.assign(["b"]).tolist() == [0]
    assert book.table().generation.tolist() == [1]


def test_table_is_the_same_object_while_nobody_arrives():
    book = SlotBook(0, 10, "cars")
    assert book.table().epoch == 0
    book.assign(["a", "b"])
    table = book.table()
    assert table.epoch == 1
    book.assign(["b"])
    book.assign(["b"])
    assert book.table() is table
    book.assign(["b", "c"])
    assert book.table().epoch == 2
    assert table.ids == ("a", "b")


def test_who_returns_to_the_slot_it_left_is_no_new_identity():
    book = SlotBook(0, 10, "cars")
    book.assign(["a"])
    table = book.table()
    book.assign([])
    book.assign(["a"])
    assert book.table() is table


def test_overflow_names_the_key_to_change():
    book = SlotBook(0, 2, "cars")
    with pytest.raises(RunError, match=r"3 members .* capacity is 2; set nodes\.cars\.capacity to 3"):
        book.assign(["a", "b", "c"])


@pytest.mark.parametrize("ids", [["a", "a"], ["b", "c", "b"], ["a", "b", "a"]])
def test_an_id_that_occurs_twice_is_named(ids):
    book = SlotBook(0, 9, "cars")
    book.assign(["a"])
    with pytest.raises(ValueError, match=f"'{ids[0]}' of fleet 'cars' occurs twice"):
        book.assign(ids)


def test_an_empty_id_is_refused():
    with pytest.raises(ValueError, match="empty id"):
        SlotBook(0, 9, "cars").assign([""])


def test_the_returned_array_is_the_callers_own():
    book = SlotBook(0, 9, "cars")
    book.assign(["a", "b"])[:] = 99
    assert book.assign(["a", "b"]).tolist() == [0, 1]


@given(steps, st.integers(0, 100))
def test_slots_identify_members(presence, first):
    book = SlotBook(first, 12, "cars")
    held: dict[str, int] = {}
    generations: dict[int, int] = {}
    epochs: dict[int, tuple] = {}
    for ids in presence:
        slots = book.assign(ids)
        table = book.table()
        assert slots.dtype == np.int32
        assert len(set(slots.tolist())) == len(ids) == len(book)
        free = set(range(first, first + 12)) - {held[i] for i in ids if i in held}
        for member, slot in zip(ids, slots.tolist(), strict=True):
            assert table.ids[slot - first] == member
            if member in held:
                assert held[member] == slot
            else:
                assert slot == min(free)
                free.remove(slot)
        held = dict(zip(ids, slots.tolist(), strict=True))
        for offset, generation in enumerate(table.generation.tolist()):
            assert generation >= generations.get(offset, 0)
            generations[offset] = generation
        state = (table.ids, table.generation.tolist())
        assert epochs.setdefault(table.epoch, state) == state
