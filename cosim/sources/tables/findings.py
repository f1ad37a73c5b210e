"""What is wrong with a table, found while it was read or examined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "few rows", "missing values", "impossible values", "outliers", "constant", "stuck", "lying node", "no values",
    "gap", "frozen time", "time order", "period", "clock", "unit", "names", "duplicates", "steps", "limit",
    "failed", "load", "drift",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault, reported as a warning."""

    kind: Kind
    subject: str  # the signal, and the node if it is one node's
    message: str
    count: int = 0  # rows that it is about
    signal: str = ""  # without the node; "" for what is no signal's

    def __str__(self) -> str:
        return f"{self.subject}: {self.message}"


def as_warnings(findings: Sequence[Finding], most: int = 3) -> tuple[str, ...]:
    """Findings as warnings; of one kind about one signal the first `most`, and how many more nodes there are."""
    alike: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.kind, finding.signal), []).append(finding)
    lines: list[str] = []
    for same in alike.values():
        lines += [str(finding) for finding in same[:most]]
        if len(same) > most:
            rest = ", ".join(finding.subject for finding in same[most : most + 5])
            lines.append(f"{len(same) - most} more like the last one: {rest}{', ...' if len(same) > most + 5 else ''}")
    return tuple(lines)
