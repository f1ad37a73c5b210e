"""The `live` block of a scenario."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from cosim.bus.adapter import AdapterConfig
from cosim.units import Fraction, Period


class OffloadBlock(BaseModel):
    """How tasks of a workload are run on live nodes."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    share: Fraction = Field(1.0, description="of the workload's arrivals")
    run: Literal["busy", "matrix", "image", "forward"] = Field(
        "busy",
        description="busy: processor time for its cycles; matrix, image: a kernel; forward: the agent's own service",
    )
    size: Annotated[int, Field(ge=1, le=4096, strict=True)] = Field(256, description="of a matrix, in rows")
    limit: Period = Field(30.0, description="a task that computes longer is ended and has failed")


class LiveConfig(AdapterConfig):
    """Where machines attach, who may, and which workloads they run."""

    listen: Annotated[str, Field(pattern=r"^tcp://.+:(\d{1,5}|\*)$")] = Field(
        "tcp://127.0.0.1:*", description="address for the agents; port * lets the system choose"
    )
    keys: str = Field("keys", min_length=1, description="folder with server.key and a NAME.pub per agent")
    offload: dict[str, OffloadBlock] = Field({}, description="workloads whose tasks are sent to live nodes, by name")
    queue: Annotated[int, Field(ge=1, le=10_000, strict=True)] = Field(
        256, description="tasks that may wait for one node; more are refused"
    )
