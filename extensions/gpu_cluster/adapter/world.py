"""A scene and a configuration as the model wants them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cosim.contract.adapter import Context
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.functions import function
from cosim.extensions.gpu_cluster.adapter.check import fabric_of, leaves_of, misfits
from cosim.extensions.gpu_cluster.adapter.config import ClusterConfig, JobsBlock, TrainingBlock
from cosim.extensions.gpu_cluster.cluster import generate, order
from cosim.extensions.gpu_cluster.cluster.fabric import Fabric, fabric
from cosim.extensions.gpu_cluster.cluster.fitted import fitted, philly_like
from cosim.extensions.gpu_cluster.cluster.jobs import Jobs, described
from cosim.extensions.gpu_cluster.cluster.rank import ranked
from cosim.extensions.gpu_cluster.cluster.resources import read_resources
from cosim.extensions.gpu_cluster.cluster.simulate import ORDERS, ClusterSettings, ClusterSimulation, Fault
from cosim.extensions.gpu_cluster.cluster.table import read_jobs
from cosim.extensions.gpu_cluster.cluster.traffic import Training


def cluster_of(config: ClusterConfig, context: Context) -> tuple[Fabric, list[int]]:
    """The cluster, and the slots of its nodes. Raises `ScenarioError`."""
    made = fabric(read_resources(context.path(config.file))) if config.file is not None else fabric_of(config)
    slots = leaves_of(config, context.scene)
    found = misfits(context.name, config, made, len(slots))
    if found:
        raise ScenarioError(found)
    return made, slots


def jobs_of(block: JobsBlock, made: Fabric, context: Context, checkpoint: float) -> Jobs:
    """The workload. Raises `ScenarioError` for a bad file."""
    seed = int(np.random.SeedSequence([*context.seed, 1]).generate_state(1)[0])
    mix = {str(name): weight for name, weight in block.mix.items()}
    if block.trace is not None:
        jobs = read_jobs(
            context.path(block.trace), mix, seed, block.count if "count" in block.model_fields_set else None
        )
    elif block.described:
        keys = [key for key in TrainingBlock.model_fields if key != "at"]
        trainings = [Training(**{key: getattr(one, key) for key in keys}) for one in block.described]
        jobs = described(trainings, [one.at for one in block.described], made.rate, made.per_server)
    elif block.generate == "philly":
        jobs = philly_like(seed, block.count, context.duration, mix)
    elif block.law is not None:
        jobs = fitted(seed, block.count, block.gap, block.law, mix)
    elif block.phases:
        parts = [generate.Phase(one.count, {str(k): v for k, v in one.mix.items()}) for one in block.phases]
        jobs = generate.phases(seed, parts, block.gap)
    else:
        sizes, durations = (block.gpus[0], block.gpus[1]), (block.duration[0], block.duration[1])
        jobs = generate.uniform(seed, block.count, mix, sizes, durations, block.gap, block.rails)
    return replace(jobs, checkpoint=np.full(len(jobs), checkpoint)) if checkpoint else jobs


def _faults(config: ClusterConfig, made: Fabric, context: Context) -> tuple[Fault, ...]:
    found = []
    for one in config.faults:
        repair = one.repair or np.inf
        if one.what == "ocs":
            ports = np.flatnonzero(made.port_ocs == one.number)
            found += [Fault(one.at, "port", int(port), repair) for port in ports]
        else:
            found.append(Fault(one.at, one.what, one.number, repair))
    if config.mtbf is not None:
        rng = context.rng(2)
        time = 0.0
        while True:
            time += rng.exponential(config.mtbf / made.gpus)
            if time >= context.duration:
                break
            found.append(Fault(time, "gpu", int(rng.integers(made.gpus)), config.repair))
    return tuple(found)


def simulation_of(config: ClusterConfig, made: Fabric, context: Context) -> ClusterSimulation:
    """The cluster with its jobs at time 0."""
    jobs = jobs_of(config.jobs, made, context, config.checkpoint)
    placement = "best-fit" if ":" in config.placement else config.placement
    settings = ClusterSettings(
        config.network, placement, config.order if config.order in ORDERS else "arrival", config.strict,
        config.backfill, config.beta, tuple(config.topologies), config.valiant, faults=_faults(config, made, context),
        seed=int(context.seed[0]),
    )  # fmt: skip
    try:
        return ClusterSimulation(made, jobs, settings)
    except ValueError as error:
        raise ScenarioError(Problem(str(error), path=f"adapters.{context.name}")) from error


def order_of(config: ClusterConfig, context: Context) -> order.Order | None:
    """The policy that is asked for each window; None: jobs stand in line by what they are."""
    if config.order in ORDERS:
        return None
    if config.order in ("best", "beam", "ranked"):
        return {"best": order.best, "beam": order.beam(8), "ranked": ranked}[config.order]
    found: order.Order = _own(config.order, "order", context)
    return found


def placing_of(config: ClusterConfig, context: Context) -> tuple[order.Place | None, order.Wire | None]:
    """Functions of the user's own that place a job and wire it; None: what is built in."""
    place = _own(config.placement, "placement", context) if ":" in config.placement else None
    wire = _own(config.wiring, "wiring", context) if config.wiring is not None else None
    return place, wire


def _own(text: str, key: str, context: Context) -> Any:  # noqa: ANN401 - a function of another author
    try:
        return function(text)
    except ValueError as error:
        raise ScenarioError(Problem(str(error), path=f"adapters.{context.name}.{key}")) from error
