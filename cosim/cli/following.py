"""`cosim calibrate --follow`: a line per window, and the overlay kept up to date."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from cosim.cli.console import count, emit

if TYPE_CHECKING:
    from cosim.twin.online.windows import WindowReport


def follow_run(
    scenario: Path,
    overrides: list[str],
    run: Path,
    folder: Path,
    seed: int,
    workers: int | None,
    say: Callable[[str], None],
    as_json: bool,
) -> None:
    """Follow `run` to its end; Ctrl-C ends it earlier, with all that was written."""
    from cosim.twin.online.following import Following

    following = Following(scenario, overrides, run, folder, seed=seed, workers=workers)
    reports: list[WindowReport] = []
    try:
        for report in following.follow():
            reports.append(report)
            say(line(report))
    except KeyboardInterrupt:
        say("stopped; what was found so far is written")
    adopted = [report for report in reports if report.act == "adopted"]
    files = {"overlay": str(following.overlay) if adopted else None, "history": str(following.history)}

    def text() -> str:
        changes = f"{len(adopted)} taken into use, {sum(r.drift for r in reports)} with drift"
        shown = [f"{name:<8} {path}" for name, path in files.items() if path]
        return "\n".join([f"{count(len(reports), 'window')}, {changes}", *shown])

    emit({**files, "windows": [asdict(report) for report in reports]}, as_json, text)


def line(report: WindowReport) -> str:
    """One window as text."""
    values = ", ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in report.values.items())
    drift = " drift" if report.drift else ""
    act = f" {report.act}" if report.act else ""
    return f"{report.since:g} to {report.until:g} s: misfit {report.misfit:.4g}{drift}{act}; {values}"
