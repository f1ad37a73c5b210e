"""What came out of a run, and what limits it, in two sentences made of its figures."""

from __future__ import annotations

from cosim.report.folder import Folder
from cosim.report.measure import PHASES
from cosim.report.tables import Tile, figures, tile
from cosim.report.text import entry as shown
from cosim.report.text import finite, quantity

_PLACES = {
    "upload": "sending what the tasks need", "queue": "waiting at the hosts", "compute": "computing at the hosts",
    "download": "returning the results",
}  # fmt: skip
# the six figures that matter are the first of these that a run has
_FIRST = (
    "completion_ratio", "response_median", "response_p95", "late_share", "engagements", "migrations",
    "agreement_violations", "alarm_recall", "alarm_precision", "makespan", "waiting_mean", "utilisation_mean",
    "energy_total", "cost_total", "handovers", "coverage", "vehicles_max", "distance",
)  # fmt: skip


def main_tiles(run: Folder, most: int = 6) -> list[Tile]:
    """The figures that readers look for first, then others that are not 0."""
    known = figures(run)
    rest = [key for key, entry in known.items() if key not in _FIRST and entry.get("value")]
    return [tile(k, known[k]) for k in (*_FIRST, *rest) if finite(known.get(k, {}).get("value")) is not None][:most]


def sentences(run: Folder) -> list[str]:
    """What came out, and what took the time or went wrong."""
    known = figures(run)
    value = {key: finite(entry.get("value")) for key, entry in known.items()}
    words = {key: shown(key, entry) for key, entry in known.items()}
    created, done = value.get("tasks_created"), value.get("tasks_completed")
    used = []
    if value.get("utilisation_mean") is not None:
        used.append(f"{words['utilisation_mean']} of the cores were busy")
    if value.get("energy_total") is not None:
        used.append(f"{words['energy_total']} of energy were used")
    if created == 0:
        return ["No task was made."]
    if not created or done is None:
        return [f"{_joined(used)}."] if used else []
    came = f"{done:,.0f} of {created:,.0f} tasks ({quantity(done / created, '%')}) were completed"
    times = []
    if done and value.get("response_median") is not None and value.get("response_p95") is not None:
        times = [f"half within {words['response_median']}", f"95 % within {words['response_p95']}"]
    if value.get("late_share") is not None:
        times.append(f"{words['late_share']} late" if value["late_share"] else "none late")
    parts = {phase: value.get(f"{phase}_mean") or 0.0 for phase in PHASES}
    limits = []
    whole = 0.0 if known.get("response_mean", {}).get("at_least") else value.get("response_mean") or 0.0
    if (total := sum(parts.values())) > 0.9 * whole:  # else the phases of many tasks are not known
        longest = max(parts, key=lambda phase: parts[phase])
        limits.append(f"{quantity(parts[longest] / total, '%')} of the time is {_PLACES[longest]}")
    if lost := value.get("tasks_failed"):
        cause, most = max(
            ((key.removeprefix("failed_"), n or 0.0) for key, n in value.items() if key.startswith("failed_")),
            key=lambda pair: pair[1], default=("", 0.0),
        )  # fmt: skip
        of = f" ({cause}: {most:,.0f})" if cause else ""
        limits.append(f"{lost:,.0f} {'task' if lost == 1 else 'tasks'} failed{of}")
    limits += used[:1]
    return [f"{came}: {', '.join(times)}." if times else f"{came}.", *(f"{_joined(limits)}." for _ in limits[:1])]


def _joined(parts: list[str]) -> str:
    """`A, b and c`."""
    text = " and ".join([*([", ".join(parts[:-1])] if parts[1:] else []), parts[-1]])
    return text[:1].upper() + text[1:]
