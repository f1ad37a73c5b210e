"""What an author may have meant by a name that is not known."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from pathlib import Path


def did_you_mean(word: str, known: Iterable[str], *, otherwise: str = "known") -> str:
    """A hint that proposes the nearest of `known`, or lists them."""
    names = list(dict.fromkeys(known))
    near = nearest(word, names)
    if near:
        return f"did you mean '{near}'?"
    if not names:
        return f"{otherwise}: none"
    more = f" and {len(names) - 30} more" if len(names) > 30 else ""
    return f"{otherwise}: {', '.join(names[:30])}{more}"


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.65) -> str:
    """The one of `known` that looks most like `word`, whatever its case; "" when none does.

    `cutoff` is the least similarity, from 0 to 1, as `difflib` measures it.
    """
    small = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word[:100].lower(), small, n=1, cutoff=cutoff) if word else []
    return small[near[0]] if near else ""


def no_file(path: Path) -> str | None:
    """A hint that names files near `path` when there is no such file, else None. A name that is too long names none."""
    if os.path.isfile(path):  # noqa: PTH113 - `Path.is_file` raises where a name is too long
        return None
    there = sorted(p.name for p in path.parent.iterdir()) if os.path.isdir(path.parent) else []  # noqa: PTH112
    return did_you_mean(path.name, there, otherwise=f"files in {path.parent}")


def known_or_own(name: str, known: Iterable[str], what: str) -> str:
    """`name`, one of `known` or `module:function`. Raises `ValueError` with the nearest when it is neither.

    Functions of the user's own are imported when the run starts, not when the scenario is read.
    """
    names = tuple(known)
    if ":" not in name and name not in names:
        near = nearest(name, names)
        hint = f"did you mean '{near}'? " if near else ""
        raise ValueError(f"there is no {what} '{name}'; {hint}known: {', '.join(names)}, or module:function")
    return name
