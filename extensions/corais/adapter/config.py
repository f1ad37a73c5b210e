"""The `corais` block of a scenario."""

from __future__ import annotations

from pydantic import Field

from cosim.contract.adapter import AdapterConfig
from cosim.contract.trust import Words
from cosim.contract.units import Duration, Period


class CoraisConfig(AdapterConfig):
    """Regions of edges, and their territorial schedulers."""

    regions: dict[Words, Words | list[Words]] = Field(
        {}, description="name of a region -> its edges, a selector or several; default: one region of all edges"
    )
    central: dict[Words, Words] = Field(
        {}, description="name of a region -> host whose scheduler it has; default: its edges elect one of them"
    )
    every: Period = Field(0.25, description="time between two reports of an edge, and two rounds (default 250 ms)")
    missed: int = Field(3, ge=1, description="reports after which an edge is dropped and has to register again")
    takes: Duration = Field(
        0.0159, description="time of a decision (default 15.9 ms: CoRaiS(1k) at (10,5,50), Table III)"
    )
