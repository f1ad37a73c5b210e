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

from cosim.contract.block import Block, Name
from cosim.contract.trust import FileName, NoCode, Values, Words
from cosim.contract.units import Duration, Fraction, Period

Shared = Literal["all", "kind", "node", "each"]

SPACING = "spacing"  # of ends that follow one another, see `cosim.twin.telemetry.quantities.spacings`

# What `task.NAME` of a calibration is besides the columns of the signal: the time between two of them, in s.
TASK_DURATIONS: Mapping[str, tuple[str, str]] = {
    "response": ("created", "ended"),
    "upload": ("created", "uploaded"),
    "wait": ("uploaded", "started"),
    "service": ("started", "computed"),
    "download": ("computed", "ended"),
    SPACING: ("created", "ended"),
}


class FreeBlock(Block):
    """A value that calibration may choose, written as the field itself is written."""

    bounds: Annotated[list[Values], Field(min_length=2, max_length=2)] | None = Field(
        None, description="lowest and highest value, as the field is written: [1 W, 6 W]; they differ in one number"
    )
    choices: Annotated[list[Values], Field(min_length=2)] | None = Field(
        None, description="the values to choose from, instead of bounds: [nearest, least-loaded], [false, true]"
    )
    scale: Literal["linear", "log"] = Field("linear", description="log: relative steps are of equal size")
    prior: Words | None = Field(
        None, description="uniform, or normal 2.7 W +- 0.5 W (mean and standard deviation; also in %)"
    )
    share: Shared = Field(
        "all", description="a path with a selector: one value for all, one per kind, one per node or other entry"
    )
    start: Words | int | float | bool | None = Field(
        None, description="the value before calibration; default: what the scenario says"
    )

    varies: Annotated[Fraction, Field(lt=1.0)] = Field(
        0.0, description="by how much the value differs from one time to another: predictions draw it anew"
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> FreeBlock:
        if (self.bounds is None) == (self.choices is None):
            raise ValueError("give 'bounds' or 'choices'" + ("" if self.bounds is None else ", not both"))
        if self.choices is not None and (self.scale != "linear" or self.prior is not None or self.varies):
            raise ValueError("'scale', 'prior' and 'varies' are for bounds")
        return self


class ObservedBlock(Block):
    """Measured values of one signal: in a recorded run, in a table or in an export of a monitoring system.

    Tables are CSV (.gz too) or Parquet; exports are JSON of Prometheus or OTLP, or Prometheus' text. Without
    `run` and `file` the values are in the file of every recording.
    """

    model_config = ConfigDict(populate_by_name=True)
    run: FileName | None = Field(
        None, description="folder of a recorded run; of several below it the youngest is taken"
    )
    file: FileName | None = Field(None, description="table with a header, or an export, instead of a run")
    signal: Annotated[Words, Field(pattern=r"^[a-z_]+\.[A-Za-z_][A-Za-z0-9_]*$")] = Field(
        description="what it is compared with: host.power, link.snr, or of tasks "
        "task.response, task.upload, task.wait, task.service, task.download, task.spacing (s)"
    )
    column: Words | None = Field(None, description="of the file, or a metric's name; default: the signal's own column")
    between: Annotated[list[Words], Field(min_length=2, max_length=2)] | None = Field(
        None, description="two columns of times whose difference is the value, instead of a column: [sent, answered]"
    )
    unit: Words | None = Field(None, description="of the file's column; default: the signal's own")
    time: Words | None = Field(
        None, description="column of the file with the times; default: one called time, t, ts, timestamp, created, ..."
    )
    time_unit: Words | None = Field(
        None, alias="time-unit", description="of times that are numbers from a start of their own; default: s"
    )
    node: Words | None = Field(None, description="column of the file with the name of the node; default: node")
    names: dict[Words, Words | None] = Field(
        {}, description="name in the file -> node of the scenario, or null for one that is left out"
    )
    load: Words | None = Field(None, description="column of the file with the load that the values should follow")
    nodes: Words | list[Words] | None = Field(None, description="only of these nodes; of tasks: their devices")
    workloads: list[Name] | None = Field(None, description="only tasks of these workloads")
    by: Literal["all", "node"] | None = Field(
        None, description="distributions of all nodes together, or of each; default: each if a value is free by node"
    )
    paired: bool | None = Field(
        None, description="the same task, or time and node, is compared; default: as replay and signal allow"
    )
    weight: Annotated[float, Field(gt=0.0)] = Field(1.0, description="in the misfit")

    @model_validator(mode="after")
    def _one_source(self) -> ObservedBlock:
        if self.run is not None and self.file is not None:
            raise ValueError("give 'run' or 'file', not both")
        if self.run is not None and (self.column is not None or self.unit is not None or self.between is not None):
            raise ValueError("'column', 'between' and 'unit' are for files: a run knows its own")
        if self.column is not None and self.between is not None:
            raise ValueError("give 'column' or 'between', not both")
        return self


class RecordingBlock(Block):
    """One of several recordings, such as one per load: where it is, and what of the scenario was different."""

    run: FileName | None = Field(None, description="folder of a recorded run")
    file: FileName | None = Field(None, description="table or export")
    settings: dict[Words, Values] = Field(
        {}, description="dotted path -> value in this recording: workloads.detect.arrivals: poisson 7 Hz"
    )

    @model_validator(mode="after")
    def _one_source(self) -> RecordingBlock:
        if (self.run is None) == (self.file is None):
            raise ValueError("give 'run' or 'file'" + ("" if self.run is None else ", not both"))
        return self


class PartBlock(Block):
    """A part of the measured values: between two times, a share of the whole time, some nodes or recordings."""

    model_config = ConfigDict(populate_by_name=True)
    since: Duration | None = Field(None, alias="from", description="first time; of tasks: creation")
    until: Period | None = Field(None, description="end of the part, not part of it")
    share: Fraction | None = Field(
        None, description="of the whole time, instead of times: fit the first, judge the rest"
    )
    nodes: Words | list[Words] | None = Field(None, description="what these nodes measured")
    recordings: Annotated[list[Name], Field(min_length=1)] | None = Field(None, description="all of these recordings")

    @property
    def timed(self) -> bool:
        """Whether it is a part of the time."""
        return self.since is not None or self.until is not None or self.share is not None

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
    """What of a recording happens again in the simulation, so that its tasks can be compared one by one.

    Without `run` and `file` it is the file of every recording.
    """

    model_config = ConfigDict(populate_by_name=True)
    run: FileName | None = Field(
        None, description="folder of a recorded run; of several below it the youngest is taken"
    )
    file: FileName | None = Field(
        None, description="table of tasks, one a row, with the time at which each was created"
    )
    placement: bool = Field(True, description="every task of a run goes to the node that it ran on")
    sizes: list[Literal["input", "output", "work"]] = Field(
        ["input", "output"], description="of each task, as recorded; the others are drawn by the workload's laws"
    )
    workload: Name | None = Field(
        None, description="of the tasks of a file; default: the only one, or a column workload"
    )
    time: Words | None = Field(None, description="column with the times of creation; default: as in 'observed'")
    time_unit: Words | None = Field(None, alias="time-unit", description="of times that are numbers; default: s")
    node: Words | None = Field(None, description="column with the device that made the task; default: node")
    names: dict[Words, Words | None] = Field({}, description="name in the file -> node of the scenario")
    columns: dict[Literal["input", "output", "work"], Words] = Field(
        {}, description="of the sizes; default: their names"
    )
    units: dict[Literal["input", "output", "work"], Words] = Field(
        {}, description="of the sizes; default: B and cycles"
    )

    @model_validator(mode="after")
    def _one_source(self) -> ReplayBlock:
        if self.run is not None and self.file is not None:
            raise ValueError("give 'run' or 'file', not both")
        return self


class BudgetBlock(Block):
    """When the search ends at the latest."""

    runs: Annotated[int, Field(ge=1, strict=True)] | None = Field(None, description="simulated runs")
    time: Period | None = Field(None, description="wall-clock time")

    def limits(self, runs: int | None = None, seconds: float | None = None) -> dict[str, Any]:
        """`runs` and `seconds` (s) that a search may take: those given, else these; without what neither sets."""
        found = {"runs": runs or self.runs, "seconds": self.time if seconds is None else seconds}
        return {key: limit for key, limit in found.items() if limit is not None}


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
    free: dict[Words, FreeBlock] = Field({}, description="dotted path, selectors allowed -> bounds or choices")
    observed: dict[Name, ObservedBlock] = Field({}, description="name of a measured signal -> where it is")
    recordings: dict[Name, RecordingBlock] = Field(
        {}, description="several recordings of the same system, such as one per load; none: 'observed' names the files"
    )
    replay: ReplayBlock | None = Field(None, description="the recorded tasks are made again")
    fit: PartBlock = Field(PartBlock.si(), description="what is fitted; default: all")
    held_back: PartBlock | None = Field(None, alias="held-back", description="what the result is judged on")
    budget: BudgetBlock = Field(BudgetBlock.si(), description="when the search ends at the latest")
    follow: FollowBlock = Field(FollowBlock.si(), description="for a run that goes on")
    method: Name = Field("auto", description="of the search; auto: by the problem")
    seed: Annotated[int, Field(ge=0, lt=2**63, strict=True)] = Field(1, description="of the search")
    distance: Literal["w1", "energy"] = Field("w1", description="between distributions: Wasserstein-1, energy distance")
    job: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$"), NoCode()] | None = Field(
        None, description="a job that brings its own model and data, instead of this scenario's"
    )
    data: FileName | None = Field(None, description="folder with the job's data")
    settings: dict[Words, Values] = Field({}, description="of the job")
    fields: dict[Words, Words] = Field(
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
            sources = {name: (one.run, one.file) for name, one in self.observed.items()}
            if self.replay is not None:
                sources["replay"] = self.replay.run, self.replay.file
            for name, (run, file) in sources.items():
                if self.recordings and (run is not None or file is not None):
                    raise ValueError(f"'{name}' is read from the recordings: leave its 'run' and 'file' out")
            known = {*self.recordings}
            for part in (self.fit, self.held_back):
                wrong = next((one for one in (part.recordings or () if part else ()) if one not in known), None)
                if wrong is not None:
                    raise ValueError(f"there is no recording '{wrong}'; there are {', '.join(sorted(known)) or 'none'}")
        return self
