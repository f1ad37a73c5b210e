"""The `live` block of a scenario."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from cosim.contract.adapter import AdapterConfig
from cosim.contract.block import Block, OnlyWith
from cosim.contract.trust import Trusted, Words
from cosim.contract.units import Fraction, Period


class OffloadBlock(Block):
    """How tasks of a workload are run on live nodes."""

    share: Fraction = Field(1.0, description="of the workload's arrivals")
    run: Literal["busy", "matrix", "image", "forward"] = Field(
        "busy",
        description="busy: processor time for its cycles; matrix, image: a kernel; forward: the agent's own service",
    )
    kernel: Annotated[Words, Field(pattern=r"^[A-Za-z0-9_.-]{0,40}$")] = Field(
        "", description="forward: the service's kernel, as resnet18; of nodes that run `vedgenode` it must be named"
    )
    path: Literal["management", "network"] = Field(
        "management",
        description="how the input comes to the host: from the run, or from the real device that makes the task, over "
        "the emulated network",
    )
    size: Annotated[int, Field(ge=1, le=4096, strict=True), OnlyWith("run", "matrix", "image", "forward")] = Field(
        256, description="of a matrix in rows, of a picture in pixels; of `hold` in Mcycles, by default the task's work"
    )
    pictures: Words = Field(
        "",
        description="adapter whose cameras' pictures are sent, a tile of `size` pixels each time; needs kernel: weeds",
    )
    pace: Literal["machine", "node"] = Field(
        "machine",
        description="forward: node: the service keeps a worker at least as long as a core of the node takes for the "
        "task's cycles, so that hosts are as busy as in the model; machine: as long as the computation takes",
    )
    limit: Period = Field(30.0, description="a task that computes longer is ended and has failed")

    @property
    def holds(self) -> bool:
        """Whether a worker is kept for the work of the task, without a computation."""
        return self.kernel == "hold" and "size" not in self.model_fields_set

    @property
    def paced(self) -> bool:
        """Whether the service keeps a worker at least as long as a core of the node takes."""
        return self.pace == "node" or self.holds

    @model_validator(mode="after")
    def _sound(self) -> OffloadBlock:
        if self.run != "forward" and (self.kernel or self.path == "network"):
            raise ValueError("'kernel' and 'path: network' are for 'run: forward'")
        if self.path == "network" and not self.kernel:
            raise ValueError("'path: network' needs a 'kernel'")
        if self.pace == "node" and not self.kernel:
            raise ValueError("'pace: node' is for 'run: forward' with a 'kernel'")
        if self.pictures and not (self.path == "network" and self.kernel == "weeds"):
            raise ValueError("'pictures' are sent with 'path: network' to 'kernel: weeds'")
        return self


class LiveConfig(AdapterConfig):
    """Where machines attach, who may, and which workloads they run."""

    listen: Annotated[str, Field(pattern=r"^tcp://.+:(\d{1,5}|\*)$"), Trusted("listens on a network")] = Field(
        "tcp://127.0.0.1:*", description="address for the agents; port * lets the system choose"
    )
    keys: Annotated[str, Trusted("proves keys")] = Field(
        "keys", min_length=1, description="folder with server.key and a NAME.pub per agent"
    )
    offload: dict[Words, OffloadBlock] = Field({}, description="workloads whose tasks are sent to live nodes, by name")
    model: Words = Field(
        "continuum", min_length=1, description="adapter whose tasks these are in a run without real nodes"
    )
    queue: Annotated[int, Field(ge=1, le=10_000, strict=True)] = Field(
        256, description="tasks that may wait for one node; more are refused"
    )
