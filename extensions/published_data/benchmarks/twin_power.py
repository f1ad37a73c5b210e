"""Power at loads that were not measured for the fit: every server, a node's counters.

Two plans of six measurements are compared: loads spread evenly, and loads that lie closer where curves
bend. Every server is predicted with the other servers as the prior; beside it stand the straight line
from idle to full load (before) and a monotone interpolation of the server's own points.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cosim.contract.errors import SetupError
from cosim.extensions.published_data import power
from cosim.extensions.published_data.models.power import LEVELS, MeasuredMachines

PLANS = {"even": (0, 20, 40, 60, 80, 100), "where it bends": (0, 10, 30, 50, 80, 100)}
TARGET = 0.03
Z90 = 1.6449


def run(data: Path | None, held_back: Path | None, quick: bool) -> dict[str, object]:
    """The figures of all servers; those below `held_back` are judged with those below `data` as the prior."""
    if data is None:
        raise SetupError("this job reads measured servers: name their folder with --data")
    began = time.process_time()
    servers = power.read_servers(data)
    judged = power.read_servers(held_back) if held_back else servers
    chosen = range(0, len(judged.names), 10 if quick else 1)
    found: list[dict[str, object]] = []
    worst: list[dict[str, object]] = []
    for plan, loads in PLANS.items():
        errors, covered = _predict(servers, judged, chosen, loads, leave_out=held_back is None)
        for name, part in errors.items():
            each = part.mean(axis=1)
            found.append({
                "plan": plan,
                "loads measured (%)": " ".join(map(str, loads)),
                "curve": name,
                "mean error": float(each.mean()),
                "worst machine": float(each.max()),
                "machines": len(each),
                f"within {TARGET:.0%}": int((each <= TARGET).sum()),
            })  # fmt: skip
        each = errors["fleet prior"].mean(axis=1)
        at = np.setdiff1d(np.arange(len(LEVELS)), np.asarray(loads) // 10)
        for place in np.argsort(-each)[:3]:
            k = chosen[place]
            level = int(at[errors["fleet prior"][place].argmax()])
            worst.append({
                "plan": plan,
                "machine": judged.names[k],
                "mean error": float(each[place]),
                "worst load (%)": 10 * level,
                "measured there (W)": float(judged.watts[k, level]),
                "and beside it (W)": " ".join(f"{w:.0f}" for w in judged.watts[k, [level - 1, min(level + 1, 10)]]),
            })  # fmt: skip
        found[-1]["coverage of 90 % interval"] = covered
    seconds = time.process_time() - began
    return {
        "servers": found,
        "largest errors": worst,
        "counters": _counters(data),
        "floor": 0.5 / float(np.median(judged.watts)),
        "cpu_seconds": seconds,
        "runs": 0,
        "note": "servers are predicted in closed form; the floor is half a watt, the resolution, over the median power",
        "split": "held-back levels of every server, its curve left out of the prior"
        if held_back is None
        else "servers that the prior does not have",
    }


def _predict(
    servers: power.Servers, judged: power.Servers, chosen: Sequence[int], loads: tuple[int, ...], *, leave_out: bool
) -> tuple[dict[str, np.ndarray], float]:
    """Relative errors (machines, held-back levels) by curve, and how often the 90 % interval holds the truth."""
    from scipy.interpolate import PchipInterpolator

    at = np.asarray(loads) // 10
    rest = np.setdiff1d(np.arange(len(LEVELS)), at)
    fleet = MeasuredMachines(servers.watts)
    made: dict[str, list[np.ndarray]] = {"straight line (before)": [], "own points": [], "fleet prior": []}
    inside: list[np.ndarray] = []
    for k in chosen:
        watts = judged.watts[k]
        curve = (fleet.without(k) if leave_out else fleet).curve(at, watts[at])
        made["straight line (before)"].append(watts[0] + (watts[-1] - watts[0]) * LEVELS)
        made["own points"].append(PchipInterpolator(LEVELS[at], watts[at])(LEVELS))
        made["fleet prior"].append(curve.watts)
        inside.append((np.abs(curve.watts - watts) <= Z90 * curve.sd)[rest])
    truth = judged.watts[chosen][:, rest]
    errors = {name: np.abs(np.array(curves)[:, rest] - truth) / truth for name, curves in made.items()}
    return errors, float(np.mean(inside))


def _counters(data: Path) -> list[dict[str, object]]:
    """The node's power by its counters, on the blocks of time that the fit had not."""
    from scipy.optimize import least_squares

    problem = power.counters(data)
    space = problem.space
    observed = problem.fit.observed["power"].values

    def misses(unit: np.ndarray) -> np.ndarray:
        return np.asarray(problem.fit.simulate(space.values(unit), 0)["power"][0] - observed)

    began = time.process_time()
    best = least_squares(misses, space.units(space.start)[0], bounds=(0.0, 1.0), diff_step=1e-4)
    seconds = time.process_time() - began
    assert problem.held_back is not None
    truth = problem.held_back.observed["power"].values
    rows: list[dict[str, object]] = []
    cases = {"before": space.start, "after": space.values(best.x)[0]}
    for name, values in cases.items():
        predicted = problem.held_back.simulate(values[None], 0)["power"][0]
        rows.append(_errors(name, predicted, truth))
    rows.append(_errors("mean of the fit blocks", np.full(len(truth), observed.mean()), truth))
    rows[1]["cpu_seconds"], rows[1]["runs"] = seconds, int(best.nfev)
    return rows


def _errors(name: str, predicted: np.ndarray, truth: np.ndarray) -> dict[str, object]:
    away = predicted - truth
    return {
        "platform power": name,
        "mean relative error": float(np.abs(away / truth).mean()),
        "rmse (W)": float(np.sqrt((away**2).mean())),
        "r2": float(1.0 - (away**2).sum() / ((truth - truth.mean()) ** 2).sum()),
    }
