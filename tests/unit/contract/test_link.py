"""A quantity of links is one line: from it come the key, the message, the engine's line and its struct."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import fields
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


PROGRAM = """
#include <stdio.h>
#include "link_state.h"
int main(void)
{
    engine_report report = {%s};
    engine_pair pair = {%s};
    engine_command command = {%s};
    fwrite(&report, sizeof report, 1, stdout);
    fwrite(&pair, sizeof pair, 1, stdout);
    fwrite(&command, sizeof command, 1, stdout);
    return 0;
}
"""


@pytest.mark.needs("cc")
def test_a_compiler_lays_records_out_as_they_are_packed(tmp_path) -> None:
    """Every field is set by its name in C, each to another number, and found under that name in Python."""
    reported = [one.name for one in fields(protocol.Statistics) if one.name != "pairs"]
    names = [
        ["pairs", *reported],
        ["sender", "receiver", *protocol.PairCount._fields],
        ["kind", "port", "other", "queue", *(f"row.{name}" for name in LinkState._fields)],
    ]
    values = [[f".{name} = {number}" for number, name in enumerate(own, 1)] for own in names]
    values[0][:1] = [".mark = REPORT_MARK", ".pairs = 1"]
    source, program = tmp_path / "write.c", tmp_path / "write"
    source.write_text(PROGRAM % tuple(map(", ".join, values)))
    folder = Path(protocol.__file__).parent / "native"
    subprocess.run(["cc", f"-I{folder}", "-o", str(program), str(source)], check=True, timeout=60)
    data = subprocess.run([program], check=True, capture_output=True, timeout=10).stdout
    (found,) = protocol.reports(bytearray(data[: protocol.REPORT.size + protocol.PAIR.size]))
    assert [getattr(found, name) for name in reported] == [*range(2, len(reported) + 2)]
    assert found.pairs == {(1, 2): (3, 4, 5, 6)}
    command = protocol.COMMAND.unpack(data[protocol.REPORT.size + protocol.PAIR.size :])
    assert command == tuple(range(1, len(names[2]) + 1))
