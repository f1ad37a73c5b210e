"""A law of jobs, as scenarios have it; without the machine code, so that it costs nothing to import."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from cosim.contract.block import Block
from cosim.contract.units import Duration, Period
from cosim.extensions.gpu_cluster.cluster.resources import Count

LEVELS: Final = (0.0, 0.01, *(k / 20 for k in range(1, 20)), 0.98, 0.99, 0.995, 0.998, 0.999, 1.0)  # of quantiles
_Quantiles = Field(min_length=len(LEVELS), max_length=len(LEVELS))


class SizeBlock(Block):
    """Jobs that ask for the same."""

    gpus: Count = 1
    milli: Annotated[int, Field(ge=1, le=1000, strict=True)] = Field(1000, description="thousandths of its one GPU")
    weight: Annotated[float, Field(gt=0.0)] = 1.0
    durations: Annotated[list[Period], _Quantiles] = Field(description="quantiles")


class LawBlock(Block):
    """A law of jobs, as 'cosim import philly --fit' writes it; quantiles are those at 0, 1, 5, 10 .. 95, 98, ... %."""

    gaps: Annotated[list[Duration], _Quantiles] = Field(
        description="quantiles of times between arrivals, which 'gap' scales"
    )
    day: Annotated[list[Annotated[float, Field(gt=0.0)]], Field(min_length=24, max_length=24)] = Field(
        [1.0] * 24, description="weights of the hours of the day, from midnight on, when the run begins"
    )
    sizes: Annotated[list[SizeBlock], Field(min_length=1)]
    alike: Annotated[list[Annotated[float, Field(ge=0.0, lt=1.0)]], Field(min_length=5, max_length=5)] = Field(
        [0.0] * 5, description="of jobs in a row: share and lasting of gaps' correlation, of durations'; sizes kept"
    )
