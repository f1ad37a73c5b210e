"""Who is who: one system id and one set of ports for every vehicle, on record and as a table for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cosim.contract.errors import Problem, ScenarioError

PHYSICS_PORT = 9002  # UDP, where ArduPilot's instance 0 looks for the physics of `--model JSON`; N: 10 N more
TCP_STEP = 10  # between the TCP ports of two vehicles, as ArduPilot's instances have it
MOST = 254  # system ids in one MAVLink network: 0 is broadcast, 255 the usual ground station


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class VehicleSlot:
    """One vehicle's place in the MAVLink network."""

    name: str
    sysid: int
    persona: str
    frame: str
    udp: tuple[Address, ...]  # peers that it sends to first
    tcp: Address | None  # where it listens


def address(text: str, path: str = "udp") -> Address:
    """`host:port`, or a port on 127.0.0.1."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ScenarioError(
            Problem(f"'{text}' is not an address", path, hint="write host:port, such as 127.0.0.1:14550")
        )
    return Address(host or "127.0.0.1", int(port))


def plan(
    vehicles: Sequence[tuple[str, str, str]],
    udp: Sequence[Address] = (),
    tcp: Address | None = None,
    first: int = 1,
    taken: Sequence[int] = (),
    named: Mapping[str, int] | None = None,
) -> list[VehicleSlot]:
    """Give vehicles (name, persona, frame) system ids and TCP ports.

    Vehicles in `named` have the ids given there, the others the next from `first` on that are neither
    theirs nor in `taken`.

    All send to the same UDP peers, as ground stations distinguish vehicles by system id. TCP ports
    are `tcp`, then 10 more each.
    """
    named = named or {}
    used = {*taken, *named.values()}
    free = [sysid for sysid in range(max(first, 1), MOST + 1) if sysid not in used]
    others = [name for name, _, _ in vehicles if name not in named]
    if len(others) > len(free):
        message = f"{len(others)} vehicles need as many system ids; {len(free)} are free from {first} to {MOST}"
        raise ScenarioError(Problem(message, "sysid", hint="use several MAVLink networks, with ports of their own"))
    if tcp is not None and tcp.port + TCP_STEP * (len(vehicles) - 1) > 65535:
        message = f"{len(vehicles)} TCP ports from {tcp.port} in steps of {TCP_STEP} end beyond 65535"
        raise ScenarioError(Problem(message, "tcp", hint="begin with a lower port"))
    numbers = iter(free)
    return [
        VehicleSlot(
            name,
            named[name] if name in named else next(numbers),
            persona,
            frame,
            tuple(udp),
            None if tcp is None else Address(tcp.host, tcp.port + TCP_STEP * k),
        )
        for k, (name, persona, frame) in enumerate(vehicles)
    ]


def render(slots: Sequence[VehicleSlot]) -> str:
    """The plan as a table of text."""
    head = ("vehicle", "system id", "persona", "frame", "UDP to", "TCP at")
    rows = [
        (s.name, str(s.sysid), s.persona, s.frame, " ".join(map(str, s.udp)) or "-", str(s.tcp) if s.tcp else "-")
        for s in slots
    ]
    widths = [max(len(row[k]) for row in (head, *rows)) for k in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    )
