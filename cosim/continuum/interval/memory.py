"""Rows of the arrays by address, for compiled code; see `cosim.continuum.memory` for the reason."""

from __future__ import annotations

from cosim.continuum.interval import layout
from cosim.continuum.memory import _rows_of, real

host = _rows_of(layout.HOST)
slot = _rows_of(layout.SLOT)
profile = _rows_of(layout.PROFILE)
pair = _rows_of(layout.PAIR)
waiting = _rows_of(layout.WAITING)
ended = _rows_of(layout.ENDED)

__all__ = ["ended", "host", "pair", "profile", "real", "slot", "waiting"]
