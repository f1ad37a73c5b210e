"""Rules of the peer that the corrected model does not have, one switch each, so that its figures can be reproduced.

`physics: compatible` turns on `COMPATIBLE`; without any, the model is the corrected one. With one of `DECISIONS` the
peer's own procedure decides (`compatible`), and what is off in it is corrected.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

SMALL: Final = 8e-5  # utilisation below which the peer does not account a machine
IDLE: Final = 8e-6  # and below which it does not select it, nor count its migration

_RULES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
DECISIONS: Final[Mapping[str, str]] = {name: " ".join(text.split()) for name, text in _RULES["decisions"].items()}
QUIRKS: Final = (*_RULES["accounts"], *DECISIONS)
COMPATIBLE: Final = frozenset(QUIRKS)  # what reproduces the reference rows


def check(names: Iterable[str]) -> frozenset[str]:
    """`names` as a set. Raises `ValueError` that names an unknown one and lists the known."""
    chosen = frozenset(names)
    for name in sorted(chosen - frozenset(QUIRKS)):
        raise ValueError(f"there is no quirk '{name}'; known: {', '.join(QUIRKS)}")
    return chosen
