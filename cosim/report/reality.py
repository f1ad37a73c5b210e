"""Real nodes on the pages: what carried their packets and how well, and how much runs differ as a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cosim.report.folder import Folder
from cosim.report.groups import ReportGroup, configuration
from cosim.report.tables import ROWS, ReportTable, amount, cut, word
from cosim.report.text import NOTHING, digits, finite, quantity

_LONGEST = 160  # characters of a message from a machine
_NAMED = 20  # late seconds in a line
LATE = 0.02  # s that packets may be late before the emulation is in doubt
_WHERE = {"netns": "in network namespaces", "containers": "in containers"}
_GRANTED = "places and links are simulated; programs of vehicles get their time from the run"


def _summaries(run: Folder, use: str) -> list[Mapping[str, Any]]:
    listed = [a for a in run.manifest.get("adapters") or [] if isinstance(a, dict) and a.get("use") == use]
    return [summary for a in listed if isinstance(summary := a.get("summary"), dict)]


def carried(run: Folder) -> Mapping[str, Any]:
    """The network service's report on a run with real nodes; empty for any other."""
    return next((found for found in _summaries(run, "network") if finite(found.get("nodes"))), {})


def _away(run: Folder) -> dict[str, int]:
    """How often the programs of vehicles were away, without those that never were."""
    found = [summary.get("absences") for summary in _summaries(run, "vehicle")]
    return {name: int(count) for each in found if isinstance(each, dict) for name, count in each.items() if count}


def _when(network: Mapping[str, Any]) -> str:
    """In which seconds packets were late."""
    count, times = int(finite(network.get("late_seconds")) or 0), network.get("late_at") or []
    if not count:
        return ""
    return f"; late in {count} s of the run, until {_shown(count, times)} s"


_DROPS = {"unread": "before the links had them", "overflowed": "by a service that held as many as it can"}


def _dropped(network: Mapping[str, Any]) -> str:
    """In which seconds packets were dropped by the emulation, and not by the links that it emulates."""
    text = ""
    for name, how in _DROPS.items():
        frames, count = (int(finite(network.get(key)) or 0) for key in (name, f"{name}_seconds"))
        if frames:
            shown = _shown(count, network.get(f"{name}_at") or [])
            text += f"; {frames} packets dropped {how}, in {count} s of the run, until {shown} s"
    return text


def _shown(count: int, times: Sequence[float]) -> str:
    return ", ".join(f"{time:g}" for time in times[:_NAMED]) + (", ..." if count > min(len(times), _NAMED) else "")


def _probed(run: Folder) -> Mapping[str, Any]:
    found = carried(run).get("probe")
    return found if isinstance(found, dict) else {}


def validity(run: Folder) -> list[tuple[str, str, str]]:
    """(question, answer, mark) about the real nodes and shaped machines of a run; [] when it had none."""
    network = carried(run)
    if not network:
        return [*_starved(run), *_shaped(run)]
    where = _WHERE.get(str(configuration(run.resolved).get("run.nodes")), "")
    late, restarts = finite(network.get("lag_max")) or 0.0, int(finite(network.get("restarts")) or 0)
    out = [
        (
            "Real nodes",
            f"{network['nodes']} {where}, their packets emulated by {network.get('backend') or NOTHING}; {_GRANTED}",
            "",
        ),
        (
            "Emulation",
            f"packets at most {quantity(late, 's')} late, service silent for "
            f"{quantity(network.get('longest_silence'), 's')} at most, restarted {restarts} times"
            + (f"; above {quantity(LATE, 's')} delays are longer than the links say" if late > LATE else "")
            + _when(network)
            + _dropped(network),
            "warn" if late > LATE or restarts or any(network.get(name) for name in _DROPS) else "good",
        ),
    ]
    uplinks = network.get("uplinks")
    if isinstance(uplinks, dict) and uplinks:
        reported = "; ".join(f"{name} {_uplinked(found)}" for name, found in sorted(uplinks.items())[:_NAMED])
        out.append(("Uplinks", f"programs reached the host's network, outside the run: {reported}", "warn"))
    if away := _away(run):
        reported = ", ".join(f"{name} {count} times" for name, count in sorted(away.items()))
        out.append(("Programs", f"away and replaced by the run meanwhile: {reported}", "warn"))
    probe = _probed(run)
    if probe:
        worst, off = finite(probe.get("worst_deviation")), int(probe.get("deviating") or 0)
        failed = len(probe.get("failed") or ()) + int(finite(probe.get("left")) or 0)
        text = f"{probe.get('measured')} links measured from inside the nodes, {off} off by more than the threshold"
        text += f", {failed} not measured" if failed else ""
        text += f"; largest deviation {digits(worst)} of it ({probe.get('worst_link')})" if worst is not None else ""
        out.append(("Probe", text, "warn" if off or failed or not probe.get("measured") else "good"))
    return [*out, *_starved(run), *_shaped(run)]


_WAITS = {"cpu": "a core", "memory": "memory", "io": "storage"}


def _starved(run: Folder) -> list[tuple[str, str, str]]:
    """Whether the programs of nodes had what they need of the machines that they ran on."""
    nodes = {name: node for summary in _summaries(run, "live") for name, node in (summary.get("nodes") or {}).items()}
    known = {name: node["starved"] for name, node in nodes.items() if node.get("reports") and "starved" in node}
    if not known:
        return []
    parts = [
        f"{name} waited for {_WAITS.get(kind, kind)} in {found['reports']} of {nodes[name]['reports']} reports, until "
        f"{_shown(found['reports'], found['at'])} s"
        for name, kinds in sorted(known.items())
        for kind, found in kinds.items()
    ]
    if not parts:
        return [
            ("Machines", f"programs of {len(known)} nodes had cores, memory and storage when they needed them", "good")
        ]
    more = f"; and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
    return [("Machines", f"too busy, so tasks took longer: {'; '.join(parts[:_NAMED])}{more}", "warn")]


def _uplinked(found: Mapping[str, Any]) -> str:
    there, back = (quantity(finite(found.get(key)), "bit/s") for key in ("rate", "rate_back"))
    sent, received = (quantity(finite(found.get(key)), "B") for key in ("sent", "received"))
    delay = quantity(finite(found.get("delay")), "s")
    return f"by {there} out and {back} in, {delay} each way, {sent} sent and {received} received"


def _shaped(run: Folder) -> list[tuple[str, str, str]]:
    """Whether the machines that attached had the links of the models."""
    nodes = {name: node for summary in _summaries(run, "live") for name, node in (summary.get("nodes") or {}).items()}
    asked = {
        name: reported for name, node in nodes.items() if (reported := node.get("shaping")) and reported.get("links")
    }
    if not asked:
        return []
    parts, sound = [], True
    for name, reported in sorted(asked.items()):
        held, links = finite(reported.get("held")), reported["links"]
        text = f"{name}: {links} {'link' if links == 1 else 'links'} as the models say "
        text += f"in {quantity(held, '%')} of {reported.get('reports')} reports" if held is not None else "is not known"
        why = str(reported.get("unshaped") or "")
        parts.append(text + (f" ({why[:_LONGEST]})" if why else ""))
        sound = sound and held == 1.0
    return [("Shaping", "; ".join(parts), "good" if sound else "warn")]


def probe_table(run: Folder) -> ReportTable | None:
    """Links as asked for and as measured; None when no link was probed."""
    if not run.has("link_probe"):
        return None
    found = run.rows(
        "SELECT node::VARCHAR, peer::VARCHAR, interface::VARCHAR, rate_asked, rate, delay_asked, delay, mdev, "
        "loss_asked, loss, loss_low, loss_high, deviation FROM link_probe ORDER BY time, 1, 2 LIMIT ?",
        ROWS,
    )
    rows = []
    for node, peer, interface, rate_asked, rate, delay_asked, delay, mdev, loss_asked, loss, low, high, off in found:
        span = f"{quantity(low, '%')} to {quantity(high, '%')}"
        rows.append(
            (
                *(word(text) for text in (node, peer, interface)),
                *(amount("rate", value, "bit/s") for value in (rate_asked, rate)),
                *(amount("delay", value, "s") for value in (delay_asked, delay, mdev)),
                *(amount("loss", value, "1") for value in (loss_asked, loss)),
                word(span if finite(low) is not None else ""),
                amount("", off, "1", "" if finite(off) is None else "warn" if off > 1 else "good"),
            )
        )
    heads = (
        "From", "To", "Interface", "Rate asked", "Rate measured", "Delay asked", "Delay measured", "Deviation of it",
        "Loss asked", "Loss measured", "99.9 % interval", "Off, in thresholds",
    )  # fmt: skip
    note = "Asked: when the measurement began. The measured delay has the time that the probe's frame takes to be sent."
    return ReportTable("probed links", heads, tuple(rows), note + cut(len(rows)))


def involved(groups: Sequence[ReportGroup]) -> bool:
    """Whether any of the runs had real nodes."""
    return any(carried(run) for group in groups for run in group.runs)


def comparison(groups: Sequence[ReportGroup]) -> ReportTable:
    """What may explain that runs with real nodes differ from others: who did what, and how late."""
    rows = []
    for group in groups:
        run = group.runs[0]
        network, probe, away = carried(run), _probed(run), _away(run)
        where = _WHERE.get(str(group.settings.get("run.nodes")), "simulated in the run")
        worst, late = finite(probe.get("worst_deviation")), finite(network.get("lag_max"))
        rows.append(
            (
                word(group.key),
                word(where),
                word(f"emulated by {network['backend']}" if network else "simulated", 60),
                amount("", (run.manifest.get("lag") or {}).get("max"), "s"),
                amount("", late, "s", "warn" if (late or 0.0) > LATE else ""),
                amount("", network.get("restarts"), "1"),
                word(", ".join(f"{name} {count}" for name, count in sorted(away.items()))),
                amount("", worst, "1", "warn" if (worst or 0.0) > 1 else ""),
            )
        )
    heads = (
        "", "Nodes", "Packets", "Late for the wall clock", "Packets late", "Restarts", "Programs away",
        "Probe, in thresholds",
    )  # fmt: skip
    note = "Of the first run of each configuration; times are the longest."
    return ReportTable("real nodes", heads, tuple(rows), note)


def apart(groups: Sequence[ReportGroup]) -> ReportTable:
    """How far nodes were from where the first configuration had them at equal times, first run against first run."""
    base = _places(groups[0].runs[0])
    rows = []
    for group in groups[1:]:
        other = _places(group.runs[0])
        for node in sorted(base.keys() & other.keys()):
            times, ours, theirs = np.intersect1d(base[node][0], other[node][0], return_indices=True)
            if not len(times):
                continue
            way = np.linalg.norm(base[node][1][ours] - other[node][1][theirs], axis=1)
            worst = int(np.argmax(way))
            largest, at = float(way[worst]), float(times[worst])
            rows.append((group.key, node, largest, at, float(way.mean()), len(times)))
    rows.sort(key=lambda row: (row[0], -row[2], row[1]))
    note = (
        f"Against {groups[0].key}. Real programs learn of each other by packets, which come a little earlier or later "
        "than the model has them, so that who follows another flies a little differently."
    )
    return ReportTable(
        "places apart",
        ("", "Node", "Largest", "At", "Mean", "Times"),
        tuple(
            (
                word(key),
                word(node),
                amount("", most, "m"),
                amount("", at, "s"),
                amount("", mean, "m"),
                amount("", count, "1"),
            )
            for key, node, most, at, mean, count in rows[:ROWS]
        ),
        note + cut(len(rows)),
        "no node has places in both",
    )


def _places(run: Folder) -> dict[str, tuple[Any, Any]]:
    """Per node its times (s, to the microsecond) and its places (n, 3), m."""
    if not run.has("mobility"):
        return {}
    found: dict[str, list[tuple[float, ...]]] = {}
    for node, *row in run.rows("SELECT node::VARCHAR, time, x, y, z FROM mobility ORDER BY 1, 2"):
        found.setdefault(node, []).append(tuple(row))
    arrays = {node: np.array(rows, float) for node, rows in found.items()}
    return {node: (np.round(array[:, 0], 6), array[:, 1:]) for node, array in arrays.items()}
