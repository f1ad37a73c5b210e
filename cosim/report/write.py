"""The three pages: a run, a comparison of runs, a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from cosim.contract.errors import RunError
from cosim.report import answer, measure, own, reality, sections, tables, trust
from cosim.report.engagements import engagement_table, vehicle_charts
from cosim.report.folder import Folder
from cosim.report.groups import group, text_diff
from cosim.report.jamming import detection_table, jamming_charts
from cosim.report.page import render, save
from cosim.report.statistics import statistics_table
from cosim.report.svg import Chart
from cosim.report.text import duration, finite
from cosim.report.world import world
from cosim.results.figures import warnings


def write_report(run_folder: Path, out: Path | None = None) -> Path:
    """Write one offline HTML page about a run to `out`, by default `report.html` in its folder.

    Works for partial runs and for runs without tasks, moving devices, radio or energy. Raises
    `RunError` when `run_folder` is no run folder of a known format.
    """
    with Folder(run_folder) as run:
        known = tables.figures(run)
        checks = trust.checks(run.ledgers)
        cost_chart, adapter_table = sections.adapters(run)
        brought = own.sections(run)
        about_tasks = not run.has("host") or any(run.has(name) for name in ("tasks", "link", "mobility", "traffic"))
        text = render(
            "run.html.j2",
            manifest=run.manifest,
            title=run.manifest.get("title") or run.manifest.get("scenario") or run.name,
            folder=run.name,
            facts=trust.facts(run),
            sentences=answer.sentences(run),
            warnings=warnings(known),
            tiles=answer.main_tiles(run),
            map=world(run),
            # models without tasks, devices and radio have nothing to show there
            response=_drawn(sections.response_charts(run)) if about_tasks else [],
            course=_drawn(
                [
                    *(sections.course_charts(run, measure.presence(run)) if about_tasks else []),
                    *sections.battery_charts(run),
                ]
            ),
            trouble=_drawn([*(sections.trouble_charts(run) if about_tasks else []), *sections.neighbour_charts(run)]),
            jamming=jamming_charts(run),
            detection=detection_table(run),
            hosts=_drawn(sections.host_charts(run)),
            migrations=sections.migration_charts(run),
            sections=[(kind, one.title, charts) for kind, one in brought.items() if (charts := one.charts(run))],
            vehicles=vehicle_charts(run),
            own=own.own_charts(run),
            engagements=engagement_table(run),
            checks=checks,
            ledger=trust.ledger_nodes(run.ledgers),
            cost=cost_chart,
            adapters=adapter_table,
            tables=[
                tables.named_table(
                    "workloads", "Workload", run.metrics.get("workloads"), known, "no workloads in this run"
                ),
                tables.named_table("hosts", "Host", run.metrics.get("hosts"), known, "no host ran tasks in this run"),
                tables.named_table("cells", "Cell", run.metrics.get("cells"), known, "no base stations in this run"),
                *(found for found in (statistics_table(run),) if found is not None),
                tables.node_table(run),
                tables.event_table(run),
                *(
                    found
                    for table in (reality.probe_table, *(one.table for one in brought.values()))
                    if table and (found := table(run)) is not None
                ),
            ],
            origins=trust.origins(run),
            figures=tables.figure_table(run),
            validity=[*trust.validity(run, checks), *reality.validity(run)],
            resolved=run.resolved,
        )
        return save(text, out or run.path / "report.html")


def _drawn(charts: Sequence[Chart]) -> list[Chart]:
    """Those that show something."""
    return [chart for chart in charts if chart.svg]


def write_comparison(run_folders: Sequence[Path], out: Path, chosen: Sequence[str] = ()) -> Path:
    """One page that sets runs side by side, replications of a configuration taken together.

    The first configuration is the one that others are compared with, and `chosen` are the figures of the ranking.
    Raises `RunError` when fewer than two folders are given or one of them is no run folder.
    """
    from cosim.report import compare, ranking  # not needed for the report of a run

    if len(run_folders) < 2:
        raise RunError("a comparison needs at least two run folders")
    with ExitStack() as stack:
        runs = [stack.enter_context(Folder(path)) for path in run_folders]
        groups = group(runs)
        samples = compare.pooled(groups)
        found = ranking.ranking(groups)
        names = dict.fromkeys(str(r.manifest.get("title") or r.manifest.get("scenario")) for r in runs)
        text = render(
            "compare.html.j2",
            title=" and ".join(list(names)[:3]),
            count=len(runs),
            groups=groups,
            found=found,
            warnings=[f"{g.key}: {text}" for g in groups for text in g.warnings],
            ranking=ranking.table(groups, found, chosen),
            note=ranking.note(found),
            table=compare.group_table(groups),
            charts=[*ranking.charts(groups, found, chosen), *_drawn(own.compared(groups))],
            figures=compare.figure_comparison(groups),
            response=_drawn(compare.response_charts(samples)),
            quantiles=compare.response_table(groups, samples),
            trouble=_drawn([compare.split_chart(groups), compare.failure_chart(groups)]),
            scenario=compare.scenario_table(groups),
            diffs=[(g.key, text) for g in groups[1:] if (text := text_diff(groups[0], g))],
            reality=[reality.comparison(groups), reality.apart(groups)] if reality.involved(groups) else [],
            environment=compare.environment_table(groups),
        )
        return save(text, out)


def write_sweep_report(sweep_folder: Path, out: Path | None = None, chosen: Sequence[str] = ()) -> Path:
    """Write one page about all runs of a sweep to `out`, by default `report.html` in its folder.

    Raises `RunError` when the folder holds no run.
    """
    from cosim.report import ranking, sweep  # not needed for the report of a run

    folder = Path(sweep_folder)
    members = sweep.collect(folder)
    with ExitStack() as stack:
        for member in members:
            if member.run:
                stack.enter_context(member.run)
        whole = [m for m in members if m.status == "complete"]
        known = sweep.parameters(members)
        first = next((m.run for m in members if m.run), None)
        groups = sweep.configurations(whole)
        found = ranking.ranking(groups)
        wall = sum(finite(m.run.manifest.get("wall_seconds")) or 0.0 for m in members if m.run)
        text = render(
            "sweep.html.j2",
            title=(first and (first.manifest.get("title") or first.manifest.get("scenario"))) or folder.name,
            good=len(whole),
            bad=len(members) - len(whole),
            parameters=known,
            seeds=len({m.seed for m in members if m.seed}),
            wall=duration(wall),
            tiles=sweep.tiles(groups[0]) if len(groups) == 1 else [],
            found=found,
            warnings=[f"{g.key}: {text}" for g in groups for text in g.warnings],
            ranking=ranking.table(groups, found, chosen),
            note=ranking.note(found),
            drawn=ranking.charts(groups, found, chosen) if len(groups) > 1 else [],
            charts=sweep.charts(whole),
            failed=sweep.failed(members),
            runs=sweep.run_table(members),
        )
        return save(text, out or folder / "report.html")
