"""Service levels: what a period owes to the users, by rules that can be exchanged, and the usual figures.

A rule is a function of `DeliveredService`, arrays over machines, that gives the penalty of each machine for a
period in currency. Own rules are plain functions; `RULES` names those built in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from cosim.contract.records import Floats


@dataclass(frozen=True, slots=True, eq=False)
class DeliveredService:
    """What each machine got in a period; (machines,) arrays."""

    rate: Floats  # weight q of the service level
    price: Floats  # currency/s
    seconds: Floats  # s that the machine was to run
    overload: Floats  # s in which its host gave less than it asked for
    shortfall: Floats  # s, integral of (asked - given) / asked meanwhile
    headroom: Floats  # s, integral of (most - given) / most meanwhile, most: the share of its full size
    wanted: Floats  # capacity x s to be worked off
    done: Floats  # capacity x s worked off

    @property
    def stake(self) -> Floats:
        """Currency/s that a full violation costs: q p."""
        return self.rate * self.price


Rule = Callable[[DeliveredService], Floats]


def proportional(service: DeliveredService) -> Floats:
    """q p dt (r_max - given) / r_max while the host is over-loaded, r_max the share of the machine's full size."""
    return service.stake * service.headroom


def flat(service: DeliveredService) -> Floats:
    """q p dt while the host is over-loaded, however little is missing."""
    return service.stake * service.overload


def shortfall(service: DeliveredService) -> Floats:
    """q p dt (asked - given) / asked while the host is over-loaded."""
    return service.stake * service.shortfall


def undone(service: DeliveredService) -> Floats:
    """q p dt times the part of the period's work that was not done in it, for whatever reason."""
    part = 1.0 - service.done / np.where(service.wanted > 0.0, service.wanted, 1.0)
    return service.stake * service.seconds * np.where(service.wanted > 0.0, np.maximum(part, 0.0), 0.0)


RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {"proportional": proportional, "flat": flat, "shortfall": shortfall, "undone": undone}
)


@dataclass(frozen=True, slots=True)
class SlaLevels:
    """Figures of Beloglazov and Buyya 2012, section 6.2; shares in 0..1."""

    slatah: float  # time over-loaded / time active, of all hosts together
    pdm: float  # capacity lost by migrations / capacity asked for
    slav: float  # slatah x pdm
    overall: float  # (asked - given) / asked
    average: float  # mean of (asked - given) / asked over the machines and periods that got too little
