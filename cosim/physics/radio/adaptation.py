"""Link adaptation in a loop: an offset on what is reported that holds the block errors at their target, and HARQ."""

from __future__ import annotations

import numpy as np

from cosim.compiled.compiling import entry, part
from cosim.contract.records import Floats, Ints
from cosim.physics.radio import nr
from cosim.physics.radio.fast import exp

Codes = Ints

STEP = 1.0  # dB down for a block that is not received
RATIO = nr.BLER_TARGET / (1.0 - nr.BLER_TARGET)  # of the step up to the step down: no drift at the target
LOWEST, HIGHEST = -10.0, 5.0  # dB, of the offset
_ODDS = (1.0 - nr.BLER_TARGET) / nr.BLER_TARGET
_GAIN = 10.0 * np.log10(np.arange(1, nr.HARQ_TRANSMISSIONS + 1))  # dB of combining m copies (Chase)


def ladder(alpha: float) -> Floats:
    """SINR (29,) in dB from which each MCS may be used, not falling: MCS 17 is a hair slower than 16."""
    return np.asarray(np.maximum.accumulate(nr.thresholds(nr.MCS_EFFICIENCY, alpha)))


@part
def _errors(margin: float, slope: float) -> float:
    return 1.0 / (1.0 + _ODDS * exp(min(max(slope * margin, -50.0), 50.0)))


@entry()
def adapt(
    estimate: Floats, sinr: Floats, offset: Floats, steps: Floats, need: Floats, slope: float, rounds: int, mcs: Codes
) -> tuple[Floats, Floats, Floats]:
    """Choose the MCS of n links and compute the error rates of their blocks.

    `estimate` (n,) dB is the scheduler's estimate, `sinr` (n,) dB the true value. `offset` (n,) dB is
    state and moves by `rounds` blocks: +RATIO STEP for each that is received, -STEP otherwise, both
    weighted with their probability. rounds = 0 leaves it unchanged. `steps` (29,) dB as of `ladder`,
    `need` (29,) dB where each MCS has BLER_TARGET errors. Out, all (n,): `mcs`; BLER of first
    transmissions, mean over the rounds; part of the blocks lost after all transmissions
    with Chase combining (attempt m at sinr + 10 log10 m); mean transmissions per block.
    """
    bler, residual, sent = np.empty(len(sinr)), np.empty(len(sinr)), np.empty(len(sinr))
    for i in range(len(sinr)):
        m, total = mcs[i], 0.0
        for k in range(max(rounds, 1)):
            aim = estimate[i] + offset[i]
            while m < len(steps) - 1 and steps[m + 1] <= aim:
                m += 1
            while m > 0 and steps[m] > aim:
                m -= 1
            errors = _errors(sinr[i] - need[m], slope)
            total += errors
            if k < rounds:
                moved = offset[i] + STEP * (RATIO * (1.0 - errors) - errors)
                offset[i] = min(max(moved, LOWEST), HIGHEST)
        mcs[i], bler[i] = m, total / max(rounds, 1)
        lost, tries = 1.0, 1.0
        for a in range(len(_GAIN)):
            lost *= _errors(sinr[i] + _GAIN[a] - need[m], slope)
            if a < len(_GAIN) - 1:
                tries += lost
        residual[i], sent[i] = lost, tries
    return bler, residual, sent
