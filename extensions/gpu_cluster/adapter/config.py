"""The `cluster` block of a scenario."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from cosim.contract.adapter import AdapterConfig, InputFile
from cosim.contract.block import Block, OnlyWith
from cosim.contract.trust import NoCode, Trusted, Words
from cosim.contract.units import BitRate, Bytes, Duration, Fraction, Period, Power
from cosim.extensions.gpu_cluster.cluster.law import LawBlock
from cosim.extensions.gpu_cluster.cluster.resources import Count, Inventory, PowerBlock

Topology = Literal["fat-tree", "dragonfly", "rail", "torus", "rings", "cabled"]
Mix = dict[Literal["llm", "dlrm", "tree", "pipeline", "experts", "local"], Annotated[float, Field(ge=0.0)]]
PLACES = r"^(first-fit|best-fit|pack|uplinks|balanced|pcie|power|exhaustive|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$"
FUNCTION = r"^(arrival|shortest|largest|random|best|beam|ranked|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$"


class RegularBlock(Block):
    """A cluster of equal leaves, without a file."""

    leaves: Count = Field(description="packet switches with GPUs below")
    down: Count = Field(32, description="GPUs of a leaf")
    up: Count = Field(32, description="uplinks of a leaf")
    ocs: Annotated[int, Field(ge=0, le=60, strict=True)] = Field(
        8, description="optical switches; 0, or with 'network: packet': a spine instead"
    )
    spines: Annotated[int, Field(ge=0, le=1_000_000, strict=True)] = Field(
        0, description="spines behind the optical switches, so that these can form a fat tree"
    )
    per_server: Annotated[int, Field(ge=1, le=60, strict=True)] = Field(8, description="GPUs of a server")
    delay: Duration = Field(0.025, description="for which a circuit is down while it is set up")
    rate: BitRate = Field(400e9, description="of a NIC and of an uplink")
    gpu_power: PowerBlock = Field(PowerBlock(idle="60 W", max="400 W"), description="of one GPU")


class TrainingBlock(Block):
    """A job as its owner describes it."""

    at: Duration = Field(0.0, description="arrival")
    model: Bytes = Field(description="gradients of the whole model")
    compute: Period = Field(description="of a step without communication")
    steps: Count = Field(description="training steps")
    dp: Count = Field(1, description="data-parallel replicas")
    tp: Count = Field(1, description="ranks that share each layer")
    pp: Count = Field(1, description="stages of the pipeline")
    ep: Count = Field(1, description="ranks that share the experts of a layer")
    batch: Count = Field(1, description="micro-batches of a step")
    activations: Bytes = Field(0.0, description="between stages per micro-batch; embeddings of a rank in all-to-all")
    layers: Count = Field(1, description="with experts")
    overlap: Fraction = Field(0.0, description="part of the communication that can hide behind computing")
    collective: Literal["ring", "tree", "hierarchical", "reduce-scatter", "all-to-all"] = "ring"
    rails: Count = Field(8, description="parallel rings")


class PhaseBlock(Block):
    """A mix that holds for some jobs."""

    count: Count
    mix: Mix


class JobsBlock(Block):
    """Where the jobs come from: made at random, a file, or a list."""

    generate: Literal["uniform", "philly", "fitted"] | None = Field(None, description="made at random")
    count: Count = Field(200, description="of generated jobs; of a file at most so many")
    gpus: Annotated[list[Count], Field(min_length=2, max_length=2), OnlyWith("generate", "uniform")] = Field(
        [16, 128], description="uniform, of a job"
    )
    duration: Annotated[list[Period], Field(min_length=2, max_length=2), OnlyWith("generate", "uniform")] = Field(
        [600.0, 14_400.0], description="uniform, at the network's full rate"
    )
    gap: Annotated[Duration, OnlyWith("generate", "uniform", "fitted")] = Field(
        0.0, description="uniform, fitted: mean time between arrivals; 0: all are there at the start"
    )
    law: Annotated[LawBlock | None, OnlyWith("generate", "fitted")] = Field(None, description="fitted: to a trace")
    mix: Mix = Field({"llm": 1.0, "dlrm": 1.0}, description="weights of the patterns of jobs with several GPUs")
    phases: list[PhaseBlock] = Field([], description="uniform: mixes one after the other, in place of count and mix")
    rails: Annotated[Count, OnlyWith("generate", "uniform")] = Field(8, description="parallel rings of a job")
    trace: Annotated[str, InputFile()] | None = Field(
        None, description="table (.csv, .csv.gz or .parquet) with arrival, duration, gpus, and gpu_milli, pattern"
    )
    described: list[TrainingBlock] = Field([], description="jobs one by one, as their owners describe them")

    @model_validator(mode="after")
    def _one_source(self) -> JobsBlock:
        if (self.generate is not None) + (self.trace is not None) + bool(self.described) != 1:
            raise ValueError("give one of 'generate', 'trace' and 'described'")
        if self.gpus[1] < self.gpus[0] or self.duration[1] < self.duration[0]:
            raise ValueError("ranges go from the least to the most")
        if any(not sum(mix.values()) > 0.0 for mix in (self.mix, *(phase.mix for phase in self.phases))):
            raise ValueError("a 'mix' needs a weight above 0")
        if self.generate == "fitted" and self.law is None:
            raise ValueError("'generate: fitted' needs a 'law'")
        if self.phases and self.generate != "uniform":
            raise ValueError("'phases' need 'generate: uniform'")
        return self


class FaultBlock(Block):
    """Something that breaks."""

    at: Duration
    what: Literal["gpu", "leaf", "port", "ocs"]
    number: Annotated[int, Field(ge=0, strict=True)] = Field(description="which one, counted from 0")
    repair: Period | None = Field(None, description="time until it works again; default: never")


class ClusterConfig(AdapterConfig):
    """GPUs, NICs, packet and optical switches, and the jobs that train on them."""

    resources: Inventory | None = Field(None, description="the cluster, as in a resource file")
    file: Annotated[str, InputFile()] | None = Field(None, description="resource file, .json or .yaml")
    regular: RegularBlock | None = Field(None, description="a cluster of equal leaves")
    nodes: list[Words] | Words = Field("*", description="nodes that are leaves with their servers, in order")
    jobs: JobsBlock = Field(description="the training jobs, and where they come from")
    network: Literal["packet", "circuits", "routed"] = Field(
        "circuits",
        description="packet: into a spine; circuits: each job has its own; routed: jobs share a topology's links",
    )
    topologies: Annotated[list[Topology], Field(min_length=1, max_length=6), OnlyWith("network", "routed")] = Field(
        ["fat-tree"], description="routed: the first one holds at the start"
    )
    switch: Period | None = Field(
        None, description="routed: how often the topology is chosen anew by the jobs that are there; default: never"
    )
    valiant: Annotated[bool, OnlyWith("network", "routed")] = Field(
        False, description="routed: flows go over a leaf in between"
    )
    placement: Annotated[str, Field(pattern=PLACES), NoCode()] = Field(
        "exhaustive",
        description="where the ranks of a job go: first-fit, best-fit, pack, uplinks, balanced, pcie, power, "
        "exhaustive, or a function of your own, module:name",
    )
    wiring: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"), Trusted("runs code")] | None = Field(
        None,
        description="circuits: a function of your own, module:name, that joins uplinks for a job; default: built in",
    )
    order: Annotated[str, Field(pattern=FUNCTION), NoCode()] = Field(
        "arrival",
        description="which job comes next: arrival, shortest, largest, random; of each window best, beam, ranked, "
        "or a function of your own, module:name",
    )
    window: Annotated[int, Field(ge=2, le=6, strict=True), OnlyWith("order", "best", "beam", "ranked")] = Field(
        5, description="jobs of a window"
    )
    strict: bool = Field(True, description="a job waits until the network gives it all; otherwise it runs slower")
    backfill: Annotated[int, Field(ge=0, le=1000, strict=True)] = Field(
        0, description="jobs that may overtake the first"
    )
    beta: Annotated[float, Field(gt=0.0, le=1.0), OnlyWith("network", "circuits", "packet")] = Field(
        1.0, description="circuits of an all-to-all, of its full rate"
    )
    checkpoint: Duration = Field(0.0, description="work between two checkpoints; 0: a restart begins anew")
    faults: list[FaultBlock] = Field([], description="what breaks when")
    mtbf: Period | None = Field(None, description="mean time between failures of each GPU; default: none fails")
    repair: Annotated[Period, OnlyWith("mtbf")] = Field(3600.0, description="of a GPU that failed by 'mtbf'")
    power_limit: Power | None = Field(
        None, description="of the cluster and all other hosts together: no job starts that would exceed it"
    )

    @model_validator(mode="after")
    def _together(self) -> ClusterConfig:
        if (self.resources is not None) + (self.file is not None) + (self.regular is not None) != 1:
            raise ValueError("give one of 'resources', 'file' and 'regular'")
        if self.switch is not None and (self.network != "routed" or len(self.topologies) < 2):
            raise ValueError("'switch' needs 'network: routed' and several 'topologies'")
        if self.wiring is not None and self.network != "circuits":
            raise ValueError("'wiring' needs 'network: circuits'")
        if (self.wiring is not None or ":" in self.placement) and self.backfill:
            raise ValueError("'backfill' does not go with functions of your own for 'placement' or 'wiring'")
        if len(set(self.topologies)) < len(self.topologies):
            raise ValueError("'topologies' names one twice")
        return self
