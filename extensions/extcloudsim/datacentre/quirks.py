"""Rules of the peer that the corrected model does not have, one switch each, so that its figures can be reproduced.

`physics: compatible` turns on `COMPATIBLE`; without any, the model is the corrected one. With one of `DECISIONS` the
peer's own procedure decides (`compatible`), and what is off in it is corrected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

SMALL: Final = 8e-5  # utilisation below which the peer does not account a machine
IDLE: Final = 8e-6  # and below which it does not select it, nor count its migration

_ACCOUNTS: Final = {
    "instant-off": "An empty host draws 0 W at once and wakes in no time; there is no sleep, boot or its energy.",
    "request-only": "A slow-down only raises the share asked for; nothing takes longer, what is not given is lost.",
    "vanishing-migrants": "A machine on its way runs nowhere for whole 10 s slots; its load takes no power.",
    "fixed-allocation": "What a machine gets is fixed for the period as if those on their way were there already.",
    "wan-like-lan": "A migration between datacentres takes as long and costs as much as one within.",
    "repriced-energy": "The energy of the whole run so far is billed anew each period, at the present price.",
    "undervolting-ignored": "On X-Gene 2 the voltage classes change nothing.",
}
DECISIONS: Final[Mapping[str, str]] = MappingProxyType({
    "two-loads": "Loads with slow-downs are those of the last period; order, free capacity and emptying go by what the "
    "coming period will have. Corrected: all by the last period.",
    "billed-point": "A host that is over the threshold at its highest point may take any point. Corrected: one below "
    "the threshold first, and otherwise the least expected penalty.",
    "room-with-slow-downs": "Room on another host is judged at its point of least power per frequency. Corrected: at "
    "its highest point, which its governor may choose.",
    "targets-emptied": "A host that has just taken machines of over-loaded ones may be emptied, so that a machine "
    "moves twice. Corrected: it stays.",
    "whole-units": "Where more is asked for than a host has, machines count with whole units of capacity when hosts "
    "are emptied; a host may so count as off. Corrected: by what is asked for.",
    "own-detectors": "lr and lrr are one line without weights that ignores the newest load and counts migrations "
    "twice as long; the load of a short past is divided by the slow-down (sno, foh, fop). Corrected: as published.",
    "listed-twice": "An over-loaded host is listed twice and so gives up at least two machines. Corrected: once.",
    "one-choice": "When a machine that should leave an over-loaded host fits nowhere, the host offers no other. "
    "Corrected: it does.",
    "clock-fit": "dvfs places by load less the rise of the clock in GHz, whatever the threshold. Corrected: by the "
    "rise as a part of the highest clock, below the threshold.",
    "brown-place": "With several places, all machines leave the first at every decision, and no host is watched or "
    "emptied. Corrected: all hosts alike.",
    "placed-once": "first-fit (sn, dvfs) places by the capacity asked for, and nothing moves. Corrected: as others.",
    "small-loads": "Machines below a utilisation of 8e-5 take no memory and are owed nothing; below 8e-6 they are not "
    "selected by mct, and their moves are free. Corrected: they count.",
})  # fmt: skip
QUIRKS: Final[Mapping[str, str]] = MappingProxyType({**_ACCOUNTS, **DECISIONS})

COMPATIBLE: Final = frozenset(QUIRKS)  # what reproduces the reference rows


def check(names: Iterable[str]) -> frozenset[str]:
    """`names` as a set. Raises `ValueError` that names an unknown one and lists the known."""
    chosen = frozenset(names)
    for name in sorted(chosen - frozenset(QUIRKS)):
        raise ValueError(f"there is no quirk '{name}'; known: {', '.join(QUIRKS)}")
    return chosen
