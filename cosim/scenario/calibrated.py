"""The block `calibrated`: where the values of an overlay file come from, and how good they are.

`cosim calibrate` writes it into `NAME.calibration.yaml`; a scenario that includes that file keeps it.
Values and ranges are texts, as the fields themselves are written.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from cosim.contract.block import Block

Two = Annotated[list[Any], Field(min_length=2, max_length=2)]


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
    unit: str = Field("", description="of the signal")


class JudgementBlock(Block):
    """The gaps of one part of the data, before and after calibration."""

    part: str = Field(description="which part it is")
    before: dict[str, GapBlock] = Field(description="signal -> its gap with the values that were there before")
    after: dict[str, GapBlock] = Field(description="signal -> its gap with the calibrated values")


class ValueBlock(Block):
    """One calibrated value."""

    value: Any = Field(description="as the fields have it")
    interval: Two | None = Field(None, description="90 % interval")
    bounds: Two | None = Field(None, description="what the search was allowed")
    start: Any = Field(None, description="the value before calibration")
    verdict: Literal["fitted", "correlated", "no effect", "fixed"] = Field(
        "fitted", description="whether the data tell this value; no effect: they do not, it was left as it was"
    )
    reason: str = Field("", description="of the verdict")
    sensitivity: float | None = Field(None, description="total effect on the misfit, 0 to 1")
    members: list[str] = Field([], description="dotted paths of the fields that take the value")


class CalibratedBlock(Block):
    """One calibration: when, from which data, under which conditions, how well."""

    model_config = ConfigDict(populate_by_name=True)
    date: str = Field(description="UTC, ISO 8601")
    versions: dict[str, str] = Field({}, description="of the programs that took part")
    method: str = Field(description="of the search")
    seed: int = Field(description="of the search")
    runs: int = Field(description="simulations")
    cpu: str = Field("", description="processor time that it took")
    stopped: str = Field("", description="why the search ended")
    values: dict[str, ValueBlock] = Field(description="name of the parameter -> what was found")
    fields: dict[str, Any] = Field({}, description="dotted path -> what follows there from the values of a job")
    conditions: dict[str, Two] = Field(
        {},
        description="dotted path, or SIGNAL.COLUMN -> between which values it lay while the data were measured; "
        "outside of it the values are extrapolated, and a run says so",
    )
    data: list[str] = Field([], description="files with rows and hashes")
    fit: JudgementBlock = Field(description="on the data that were fitted")
    held_back: JudgementBlock | None = Field(
        None, alias="held-back", description="on data that the search has not seen"
    )
    assumptions: list[str] = Field([], description="what the model takes for granted")
    warnings: list[str] = Field([], description="what was wrong with the data or the search")
    figures: dict[str, float] = Field({}, description="further ones")
