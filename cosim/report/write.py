"""The three pages: a run, a comparison of runs, a sweep."""

from __future__ import annotations

from pathlib import Path

from cosim.report import sections
from cosim.report.folder import Folder
from cosim.report.page import render, save
from cosim.report.world import world


def write_report(run_folder: Path, out: Path | None = None) -> Path:
    """One offline HTML page about a run; `report.html` in its folder unless `out` says otherwise.

    Works for partial runs and for runs without tasks, moving devices, radio or energy. Raises
    `RunError` when `run_folder` is no run folder of a known format.
    """
    with Folder(run_folder) as run:
        known = sections.figures(run)
        checks = sections.checks(run.ledgers)
        cost_chart, adapter_table = sections.adapters(run)
        text = render(
            "run.html.j2",
            manifest=run.manifest,
            title=run.manifest.get("title") or run.manifest.get("scenario") or run.name,
            folder=run.name,
            facts=sections.facts(run),
            tiles=sections.tiles(run),
            map=world(run),
            response=sections.response_charts(run),
            tasks=sections.task_charts(run),
            world=sections.world_charts(run),
            hosts=sections.host_chart(run),
            checks=checks,
            ledger=sections.ledger_nodes(run.ledgers),
            cost=cost_chart,
            adapters=adapter_table,
            tables=[
                sections.named_table("workloads", "Workload", run.metrics.get("workloads"), known, "no workloads in this run"),
                sections.named_table("hosts", "Host", run.metrics.get("hosts"), known, "no host ran tasks in this run"),
                sections.named_table("cells", "Cell", run.metrics.get("cells"), known, "no base stations in this run"),
                sections.node_table(run),
                sections.event_table(run),
            ],
            origins=sections.origins(run),
            figures=sections.figure_table(run),
            validity=sections.validity(run, checks),
            resolved=run.resolved,
        )
        return save(text, out or run.path / "report.html")
