"""What drives a simulation (loads, rates, positions) is examined too, but nothing of it can be blanked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cosim.contract.errors import Problem, ScenarioError
from cosim.sources.tables.findings import Finding
from cosim.twin.problem import Floats, MeasuredSignal
from cosim.twin.telemetry.hygiene import HygieneRules, bounds, examine
from cosim.twin.telemetry.lag import lag

_BURST = 1000.0  # robust standard deviations
_BROKEN = {"missing values", "impossible values", "lying node", "no values", "frozen time"}


def examine_inputs(
    name: str,
    values: Floats,
    unit: str = "",
    *,
    nodes: Sequence[str] | None = None,
    effect: tuple[str, Floats] | None = None,
    limits: tuple[float, float] | None = None,
) -> tuple[Finding, ...]:
    """Findings about an input with a row per time, (rows,) or (rows, nodes).

    `effect` is a measured series (rows,) with its name, which should follow the sum over nodes: when it follows another
    row's, the two were not on one clock. Loads are bursty, so only outliers far beyond are reported, and none of a
    quantity with two bounds. `limits` replaces the bounds of `unit`. Raises `ScenarioError` for values that are missing
    or impossible.
    """
    table = values[:, None] if values.ndim == 1 else values
    nodes = nodes or [f"{name} {k + 1}" for k in range(table.shape[1])]
    groups = tuple(np.repeat(np.array(nodes), len(table)).tolist()) if table.shape[1] > 1 else None
    signal = MeasuredSignal(table.T.ravel(), unit, groups=groups)
    bounded = np.isfinite(limits or bounds(unit)).all()
    _, findings = examine(
        {name: signal},
        limits={name: limits} if limits else None,
        rules=HygieneRules(outlier=np.inf if bounded else _BURST, least=0),
    )
    broken = [finding for finding in findings if finding.kind in _BROKEN]
    if broken:
        raise ScenarioError([
            Problem(str(finding), "calibrate", hint="mend the data, or leave those rows out") for finding in broken
        ])  # fmt: skip
    if effect is not None:
        reported, series = effect
        found = lag(table.sum(axis=1), series)
        if found is not None:
            message = f"follows {name} {found}: they were not on one clock"
            findings = (*findings, Finding("clock", reported, message, len(series)))
    return findings
