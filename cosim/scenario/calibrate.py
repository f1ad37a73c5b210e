"""The block `calibrate`: which values are free, what was measured, and how long to search.

calibrate:
  free: {kinds.edge.power.idle: {bounds: [1 W, 6 W]}}
  observed: {power: {run: runs/field, signal: host.power}}
  fit: {until: 60 s}
  held-back: {from: 60 s}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from cosim.scenario.block import Block, Name
from cosim.units import Duration, Fraction, Period

Shared = Literal["all", "kind", "node", "each"]

# What `task.NAME` of a calibration is besides the columns of the signal: the time between two of them, in s.
TASK_DURATIONS: Mapping[str, tuple[str, str]] = {
    "response": ("created", "ended"),
    "upload": ("created", "uploaded"),
    "wait": ("uploaded", "started"),
    "service": ("started", "computed"),
    "download": ("computed", "ended"),
}


class FreeBlock(Block):
    """A value that calibration may choose, written as the field itself is written."""

    bounds: Annotated[list[Any], Field(min_length=2, max_length=2)] | None = Field(
        None, description="lowest and highest value, as the field is written: [1 W, 6 W]; they differ in one number"
    )
    choices: Annotated[list[Any], Field(min_length=2)] | None = Field(
        None, description="the values to choose from, instead of bounds: [nearest, least-loaded], [false, true]"
    )
    scale: Literal["linear", "log"] = Field("linear", description="log: relative steps are of equal size")
    prior: str | None = Field(
        None, description="uniform, or normal 2.7 W +- 0.5 W (mean and standard deviation; also in %)"
    )
    share: Shared = Field(
        "all", description="a path with a selector: one value for all, one per kind, one per node or other entry"
    )
    start: str | int | float | bool | None = Field(
        None, description="the value before calibration; default: what the scenario says"
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> FreeBlock:
        if (self.bounds is None) == (self.choices is None):
            raise ValueError("give 'bounds' or 'choices'" + ("" if self.bounds is None else ", not both"))
        if self.choices is not None and (self.scale != "linear" or self.prior is not None):
            raise ValueError("'scale' and 'prior' are for bounds")
        return self


class ObservedBlock(Block):
    """Measured values of one signal, in a recorded run or in a table (CSV, .gz too; Parquet)."""

    run: str | None = Field(None, description="folder of a recorded run; of several below it the youngest is taken")
    file: str | None = Field(None, description="table with a header, instead of a run")
    signal: Annotated[str, Field(pattern=r"^[a-z_]+\.[A-Za-z_][A-Za-z0-9_]*$")] = Field(
        description="what it is compared with: host.power, link.snr, or of tasks "
        "task.response, task.upload, task.wait, task.service, task.download (s)"
    )
    column: str | None = Field(None, description="of the file; default: the signal's own column")
    unit: str | None = Field(None, description="of the file's column; default: the signal's own")
    time: str = Field("time", description="column of the file with s since the start, where it has one")
    node: str = Field("node", description="column of the file with the name of the node, where it has one")
    nodes: str | list[str] | None = Field(None, description="only of these nodes; of tasks: their devices")
    workloads: list[Name] | None = Field(None, description="only tasks of these workloads")
    paired: bool | None = Field(
        None, description="the same task, or time and node, is compared; default: as replay and signal allow"
    )
    weight: Annotated[float, Field(gt=0.0)] = Field(1.0, description="in the misfit")

    @model_validator(mode="after")
    def _one_source(self) -> ObservedBlock:
        if (self.run is None) == (self.file is None):
            raise ValueError("give 'run' or 'file'" + ("" if self.run is None else ", not both"))
        if self.run is not None and (self.column is not None or self.unit is not None):
            raise ValueError("'column' and 'unit' are for files: a run knows its own")
        return self


class PartBlock(Block):
    """A part of the measured values: between two times, or a share of the whole time."""

    model_config = ConfigDict(populate_by_name=True)
    since: Duration | None = Field(None, alias="from", description="first time; of tasks: creation")
    until: Period | None = Field(None, description="end of the part, not part of it")
    share: Fraction | None = Field(
        None, description="of the whole time, instead of times: fit the first, judge the rest"
    )

    @model_validator(mode="after")
    def _times_or_share(self) -> PartBlock:
        if self.share is not None and (self.since is not None or self.until is not None):
            raise ValueError("give 'share' or times, not both")
        if self.share == 0.0:
            raise ValueError("a share of 0 % holds nothing")
        if self.until is not None and self.until <= (self.since or 0.0):
            raise ValueError("'until' is not after 'from'")
        return self


class ReplayBlock(Block):
    """What of a recorded run happens again in the simulation, so that its tasks can be compared one by one."""

    run: str = Field(description="folder of the recorded run; of several below it the youngest is taken")
    placement: bool = Field(True, description="every task runs on the node that it ran on")
    sizes: list[Literal["input", "output", "work"]] = Field(
        ["input", "output"], description="of each task, as recorded; the others are drawn by the workload's laws"
    )


class BudgetBlock(Block):
    """When the search ends at the latest."""

    runs: Annotated[int, Field(ge=1, strict=True)] | None = Field(None, description="simulated runs")
    time: Period | None = Field(None, description="wall-clock time")


class FollowBlock(Block):
    """How `cosim calibrate --follow` goes along with a run."""

    window: Period = Field(30.0, description="time after which the simulation is compared again")
    last: Annotated[int, Field(ge=1, le=1000, strict=True)] = Field(4, description="windows that are fitted at most")
    warm: Duration = Field(0.0, description="simulated before a window, so that it begins under load")
    settle: Duration = Field(0.0, description="waited for the tasks of a window to end")
    runs: Annotated[int, Field(ge=1, strict=True)] = Field(400, description="simulated runs of each calibration")
    threshold: Annotated[float, Field(gt=0.0)] = Field(
        6.0, description="of the cumulative sum of the misfit, in standard deviations: higher is slower and surer"
    )


class CalibrateBlock(Block):
    """What `cosim calibrate` moves, compares and holds back."""

    model_config = ConfigDict(populate_by_name=True)
    free: dict[str, FreeBlock] = Field({}, description="dotted path, selectors allowed -> bounds or choices")
    observed: dict[Name, ObservedBlock] = Field({}, description="name of a measured signal -> where it is")
    replay: ReplayBlock | None = Field(None, description="the recorded tasks are made again")
    fit: PartBlock = Field(PartBlock(), description="what is fitted; default: all")
    held_back: PartBlock | None = Field(None, alias="held-back", description="what the result is judged on")
    budget: BudgetBlock = Field(BudgetBlock(), description="when the search ends at the latest")
    follow: FollowBlock = Field(FollowBlock(), description="for a run that goes on")
    method: Name = Field("auto", description="of the search; auto: by the problem")
    seed: Annotated[int, Field(ge=0, lt=2**63, strict=True)] = Field(1, description="of the search")
    distance: Literal["w1", "energy"] = Field("w1", description="between distributions: Wasserstein-1, energy distance")
    job: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")] | None = Field(
        None, description="a job that brings its own model and data, instead of this scenario's"
    )
    data: str | None = Field(None, description="folder with the job's data")
    settings: dict[str, Any] = Field({}, description="of the job")
    fields: dict[str, str] = Field(
        {}, description="dotted path of this scenario -> result of the job that the overlay file sets there"
    )

    @model_validator(mode="after")
    def _something_to_do(self) -> CalibrateBlock:
        if self.job is None:
            missing = [key for key in ("free", "observed") if not getattr(self, key)]
            if missing:
                raise ValueError(
                    f"'{missing[0]}' is missing: say what may be moved and what was measured, or name a job"
                )
            if self.data is not None or self.settings or self.fields:
                raise ValueError("'data', 'settings' and 'fields' are for jobs")
        return self
