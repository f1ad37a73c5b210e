"""A quantity of links is one line: from it come the key, the message, the engine's line and its struct."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Annotated, NamedTuple

import pytest

from cosim.contract.block import Block
from cosim.contract.declared import keys_of
from cosim.contract.link import INTEGERS, LinkState
from cosim.contract.quantity import DeclaredQuantity, carried, quantities
from cosim.scenario.model import LinkBlock
from cosim.testbed.emulation import message, protocol


class Doubling(NamedTuple):
    """A state with one more quantity than links have."""

    rate: Annotated[float, DeclaredQuantity("rate", "of the link", above=True, usual=1e9)]
    duplicate: Annotated[float, DeclaredQuantity("fraction", "of packets, sent twice", most=1.0)] = 0.0
    copies: Annotated[float, DeclaredQuantity("", "of each", least=2.0, optional=True)] = 2.0


@keys_of(Doubling)
class DoublingBlock(Block):
    """A link of the test."""

    name: str = ""


def test_a_declared_quantity_is_a_key_with_unit_and_bounds() -> None:
    block = DoublingBlock.model_validate({"name": "a", "duplicate": "25 %"})
    assert block.model_dump() == {"name": "a", "rate": "1000000000 bit/s", "duplicate": "25 %", "copies": None}
    assert DoublingBlock.model_fields["rate"].default == 1e9
    assert DoublingBlock.model_fields["duplicate"].description == "of packets, sent twice"
    for wrong in ({"duplicate": "101 %"}, {"duplicate": 0.1}, {"copies": 1.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            DoublingBlock.model_validate(wrong)


def test_what_a_file_leaves_out_is_the_records_default() -> None:
    state = LinkState(**carried(LinkBlock.model_validate({"between": ["a", "b"]}), LinkState))
    assert state[:4] == (1e9, 0.0, 0.0, 0.0)
    assert (state.burst, state.reorder) == (0.0, 0.0)


def test_every_quantity_of_links_reaches_the_engine() -> None:
    """In declared order, with the integers that are declared, within the bounds of the C side."""
    assert [*quantities(LinkState)] == [*INTEGERS] == [*LinkState._fields]
    state = LinkState(5e6, 0.02, 0.002, 0.05, burst=2.5, reorder=0.01)
    assert protocol.COMMAND.unpack(protocol.link_command(3, 7, state, queue=0.1)) == (ord("L"), 3, 7, 0.1, *state)
    assert (Path(protocol.__file__).parent / "native" / "link_state.h").read_text() == protocol.header()
    names = protocol.header().partition("uint64_t ")[2].partition(";")[0].split(", ")
    assert names == [*INTEGERS]
    kind = type("State", (ctypes.Structure,), {"_fields_": [(name, ctypes.c_uint64) for name in names]})
    assert [getattr(kind, name).offset for name in names] == [8 * k for k in range(len(names))]
    read = message.command(message.links(b"sessions", 1, {("a", "b", "wlan0"): state}))
    assert read.links == {("a", "b", "wlan0"): state}
