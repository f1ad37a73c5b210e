"""The `detector` block of a scenario."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cosim.contract.adapter import AdapterConfig, InputFile
from cosim.contract.trust import Words


class DetectorConfig(AdapterConfig):
    """Which detector looks at what."""

    model: Annotated[str, InputFile()] = Field(description="file that 'cosim detect train' wrote")
    signals: tuple[Words, ...] = Field(
        ("ue", "gnb"),
        min_length=1,
        description="that it reads; those of the data set that it was trained with, in order",
    )
    limit: float | None = Field(None, description="score above which an alarm is on; default: as calibrated")
