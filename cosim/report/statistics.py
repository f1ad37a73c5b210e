"""The table of signals that were recorded as statistics."""

from __future__ import annotations

import numpy as np

from cosim.report.folder import Folder
from cosim.report.tables import ReportTable, TableCell, amount, word
from cosim.results.summary import BINS, ERROR, QUANTILES, ROWS, quantile

_HEADS = ("Signal", "Kind", "Quantity", "Values", "Mean", "Least", *QUANTILES, "Most")


def statistics_table(run: Folder) -> ReportTable | None:
    """Figures per signal, kind of node and column over the whole run; None when there are no statistics."""
    signals = [name.removesuffix(ROWS) for name in run.manifest.get("signals") or {} if name.endswith(ROWS)]
    body = [row for signal in signals if run.has(signal + ROWS, signal + BINS) for row in _rows(run, signal)]
    note = f"Quantiles are within {100 * ERROR:g} % of the value of their rank."
    return ReportTable("statistics", _HEADS, tuple(body), note) if body else None


def _rows(run: Folder, signal: str) -> list[tuple[TableCell, ...]]:
    found = []
    figures = run.rows(
        "SELECT kind::VARCHAR k, quantity::VARCHAR q, sum(count), sum(sum) / sum(count), min(least), max(most) "
        f'FROM "{signal}{ROWS}" GROUP BY k, q ORDER BY k, q'
    )
    counted = f'SELECT bin, sum(tally)::BIGINT FROM "{signal}{BINS}" WHERE kind = $1 AND quantity = $2 GROUP BY bin'
    for kind, quantity, count, mean, least, most in figures:
        numbers, tally = (np.array(part, np.int64) for part in zip(*run.rows(counted, kind, quantity), strict=True))
        ranks = [min(max(quantile(numbers, tally, q), least), most) for q in QUANTILES.values()]
        values = [amount("", value, "1") for value in (mean, least, *ranks, most)]
        found.append((word(signal), word(kind), word(quantity), amount("", count, "1"), *values))
    return found
