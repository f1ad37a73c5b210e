"""The report: one offline HTML file per run, per comparison and per sweep.

`write_report(run)` draws a run folder, `write_comparison([a, b], out)` sets runs side by side, and
`write_sweep_report(folder)` shows figures over the parameters that a sweep varies. Each gives the
path of a file that holds everything it shows: it opens without a network and without other files.

The drawing code is imported on first use, so that naming these functions costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cosim.contract.on_demand import on_demand

if TYPE_CHECKING:
    from cosim.report.write import write_comparison, write_report, write_sweep_report

__all__ = ["write_comparison", "write_report", "write_sweep_report"]

__getattr__ = on_demand(__name__, write="write_comparison write_report write_sweep_report")
