"""What the benchmarks share: tables for people, one JSON object for machines."""

from __future__ import annotations

import json
from collections.abc import Sequence


class Table:
    """A titled table of text cells."""

    def __init__(self, title: str, columns: Sequence[str]) -> None:
        self.title, self.columns = title, list(columns)
        self.rows: list[list[str]] = []

    def add(self, row: Sequence[object]) -> None:
        self.rows.append([str(cell) for cell in row])

    def __str__(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        text = [
            "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
            for line in lines
        ]
        return "\n".join([self.title, text[0], "-" * len(text[0]), *text[1:]])


def print_result(data: object, tables: Sequence[Table], as_json: bool) -> None:
    """One JSON object, or the tables."""
    print(json.dumps(data) if as_json else "\n\n".join(map(str, tables)))
