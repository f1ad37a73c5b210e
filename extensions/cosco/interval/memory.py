"""Rows of the arrays by address, for compiled code; see `cosim.engine.continuum.memory` for the reason."""

from __future__ import annotations

from cosim.compiled.compiling import address_of
from cosim.engine.continuum.memory import real, rows_of
from cosim.extensions.cosco.interval import layout

host = rows_of(layout.HOST)
slot = rows_of(layout.SLOT)
profile = rows_of(layout.PROFILE)
pair = rows_of(layout.PAIR)
waiting = rows_of(layout.WAITING)
ended = rows_of(layout.ENDED)
rules = rows_of(layout.RULES)

__all__ = ["address_of", "ended", "host", "pair", "profile", "real", "rules", "slot", "waiting"]
