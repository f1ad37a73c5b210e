"""Candidates for the next minutes of a run: what the page offers, and who answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LONGEST = 3600.0  # s ahead

# (names of candidates, s ahead, s of the run from which on; None: from its newest state) -> a row per candidate, the
# run as it is first: name, bands and differences by figure, each with low, middle, high
Answer = Callable[[Sequence[str], float, float | None], Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Changes by name, which are fixed when the dashboard starts: the page chooses, it writes none of its own."""

    names: tuple[str, ...]
    answer: Answer

    def asked(self, body: object) -> tuple[list[str], float, float | None]:
        """Names, s ahead and s of the run from a page's request. Raises `ValueError` that names the mistake."""
        if not isinstance(body, dict):
            raise ValueError("a question is an object")
        names, horizon, now = body.get("names"), body.get("horizon"), body.get("now")
        if not isinstance(names, list) or not names or not set(map(str, names)) <= set(self.names):
            raise ValueError(f"choose of the candidates {', '.join(self.names)}")
        if not isinstance(horizon, int | float) or not 1.0 <= horizon <= LONGEST:
            raise ValueError(f"the horizon is a number of seconds, 1 to {LONGEST:g}")
        if now is not None and (not isinstance(now, int | float) or not 0.0 < now < math.inf):
            raise ValueError("nothing has happened at the beginning: choose a later time")
        return [str(name) for name in names], float(horizon), None if now is None else float(now)
