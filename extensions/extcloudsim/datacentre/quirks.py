"""Known defects of the peer, one switch each, so that its figures can be reproduced on purpose.

`physics: compatible` turns on `COMPATIBLE`; without any, the model is the corrected one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

QUIRKS: Final[Mapping[str, str]] = MappingProxyType({
    "instant-off": "An empty host draws 0 W at once and wakes in no time; there is no sleep, boot or its energy.",
    "request-only": "A slow-down only raises the share asked for; nothing takes longer, what is not given is lost.",
    "vanishing-migrants": "A machine on its way runs nowhere for whole 10 s slots; its load takes no power.",
    "knows-coming-load": "Decisions for a period look at the load that the period will have.",
    "point-before-moves": "Operating points are set before the moves that change the loads.",
    "fallback-divides": "Detectors divide the present load by the slow-down instead of multiplying it.",
    "efficient-point": "Past load is judged with the slow-downs of the point of least power per frequency, not of the "
    "one in force; whether there is room on another host, without any.",
    "listed-twice": "An over-loaded host is listed twice and so gives up at least two machines.",
    "one-choice": "When a machine that should leave an over-loaded host fits nowhere, the host offers no other.",
    "fixed-placement-point": "Power-aware placement reckons with the highest operating point, whatever is in force.",
    "unweighted-regression": "Local regression has no weights, so that lr and lrr are the same line.",
    "wan-like-lan": "A migration between datacentres takes as long and costs as much as one within.",
    "repriced-energy": "The energy of the whole run so far is billed anew each period, at the present price.",
    "undervolting-ignored": "On X-Gene 2 the voltage classes change nothing.",
})  # fmt: skip

COMPATIBLE: Final = frozenset(QUIRKS)  # what reproduces the reference rows


def check(names: Iterable[str]) -> frozenset[str]:
    """`names` as a set. Raises `ValueError` that names an unknown one and lists the known."""
    chosen = frozenset(names)
    for name in sorted(chosen - frozenset(QUIRKS)):
        raise ValueError(f"there is no quirk '{name}'; known: {', '.join(QUIRKS)}")
    return chosen
