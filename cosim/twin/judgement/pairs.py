"""Tasks that are made again and compared one by one: which of them took another time."""

from __future__ import annotations

import numpy as np

from cosim.results.outliers import OUTLIER, robust
from cosim.twin.judgement.course import EXACT, LEAST, correlation, ranks
from cosim.twin.judgement.subject import BEYOND, FALSE
from cosim.twin.judgement.table import ORDERLY, SHAPE
from cosim.twin.problem import Case, Floats


def pairs(case: Case, values: Floats, seed: int, part: str = "") -> list[str]:
    """Of tasks that are made again and compared one by one, at `values` (d,): which of them took another time."""
    answered = []
    made = case.simulate(values[None], seed)
    for name in case.tasks:
        signal = case.observed[name]
        real, row = signal.values, np.asarray(made[name], np.float64)[0]
        kept = np.isfinite(real) & np.isfinite(row)
        if signal.times is not None and kept.any():
            # What was in flight at the end is not recorded. It came within the longest time, what it held up in twice.
            kept &= signal.times < np.nanmax(signal.times) - 2.0 * real[kept].max()
        real, row = real[kept], row[kept]
        if len(real) < LEAST:
            continue
        subject = f"'{name}'{f' ({part})' if part else ''}"
        off = real - row
        middle, scale = robust(off)
        usual = max(scale, EXACT * float(np.median(real)))
        far = np.abs(off - middle) > OUTLIER * usual
        if (real > 0.0).all() and (row > 0.0).all():  # long ones differ by more
            ratio = np.log(real / row)
            center, spread = robust(ratio)
            far &= np.abs(ratio - center) > OUTLIER * max(spread, EXACT)
        along = correlation(ranks(real), ranks(row))
        if np.ptp(row) > 2 * SHAPE * np.median(row) and along < BEYOND / np.sqrt(len(real)):
            answered.append(
                f"tasks of {subject} do not take longer where those made again do (rank correlation {along:.2f}): "
                f"{ORDERLY}"
            )
        elif far.sum() > 1 + FALSE * len(far):
            answered.append(
                f"{int(far.sum())} of {len(real)} tasks of {subject} took another time than when they are made again, "
                f"such as {real[far][0]:.4g} instead of {row[far][0]:.4g}, while the others agree within {usual:.2g}: "
                "values that were changed, or a cause that only some tasks have"
            )
    return answered
