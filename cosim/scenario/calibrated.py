"""The block `calibrated`: where the values of an overlay file come from, and how good they are.

`cosim calibrate` writes it into `NAME.calibration.yaml`; a scenario that includes that file keeps it.
Values and ranges are texts, as the fields themselves are written.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from cosim.contract.block import Block
from cosim.contract.trust import Values, Words

Two = Annotated[list[Values], Field(min_length=2, max_length=2)]


class GapBlock(Block):
    """How far one signal is from what was measured."""

    w1: float = Field(description="Wasserstein-1 over the measured range")
    g1: float = Field(description="mean difference over the range, as the rows stand; .nan: not comparable")
    rmse: float = Field(description="in the unit of the signal")
    nrmse: float = Field(description="rmse over the range")
    r2: float = Field(description="share of the variance that is met")
    energy_distance: float = Field(float("nan"), description="of the values over the range")
    floor: float = Field(description="w1 of one measured half against the other")
    count: int = Field(0, description="measured values")
    unit: Words = Field("", description="of the signal")


class JudgementBlock(Block):
    """The gaps of one part of the data, before and after calibration."""

    part: Words = Field(description="which part it is")
    before: dict[Words, GapBlock] = Field(description="signal -> its gap with the values that were there before")
    after: dict[Words, GapBlock] = Field(description="signal -> its gap with the calibrated values")


class ValueBlock(Block):
    """One calibrated value."""

    value: Values = Field(description="as the fields have it")
    interval: Two | None = Field(None, description="90 % interval")
    bounds: Two | None = Field(None, description="what the search was allowed")
    start: Values = Field(None, description="the value before calibration")
    verdict: Literal["fitted", "correlated", "no effect", "fixed"] = Field(
        "fitted", description="whether the data determine this value; no effect: they do not, it was left as it was"
    )
    reason: Words = Field("", description="of the verdict")
    sensitivity: float | None = Field(None, description="share of the effects on the misfit, 0 to 1")
    members: list[Words] = Field([], description="dotted paths of the fields that take the value")


class CalibratedBlock(Block):
    """One calibration: when, from which data, under which conditions, how well."""

    model_config = ConfigDict(populate_by_name=True)
    date: Words = Field(description="UTC, ISO 8601")
    versions: dict[Words, Words] = Field({}, description="of the programs that took part")
    method: Words = Field(description="of the search")
    seed: int = Field(description="of the search")
    runs: int = Field(description="simulations")
    cpu: Words = Field("", description="processor time that it took")
    stopped: Words = Field("", description="why the search ended")
    values: dict[Words, ValueBlock] = Field(description="name of the parameter -> what was found")
    fields: dict[Words, Values] = Field({}, description="dotted path -> what follows there from the values of a job")
    conditions: dict[Words, Two] = Field(
        {},
        description="dotted path, or SIGNAL.COLUMN -> between which values it lay while the data were measured; "
        "outside of it the values are extrapolated, and a run says so",
    )
    data: list[Words] = Field([], description="files with rows and hashes")
    fit: JudgementBlock = Field(description="on the data that were fitted")
    held_back: JudgementBlock | None = Field(
        None, alias="held-back", description="on data that the search has not seen"
    )
    assumptions: list[Words] = Field([], description="what the model takes for granted")
    warnings: list[Words] = Field([], description="what was wrong with the data or the search")
    figures: dict[Words, float] = Field({}, description="further ones")
