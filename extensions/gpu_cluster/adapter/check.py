"""For what a cluster refuses a scene."""

from __future__ import annotations

from collections.abc import Iterator

from cosim.contract.adapter import Context
from cosim.contract.entities import Scene
from cosim.contract.errors import Problem, ScenarioError, refusals
from cosim.contract.selector import selects, void
from cosim.extensions.gpu_cluster.adapter.config import ClusterConfig
from cosim.extensions.gpu_cluster.cluster.fabric import Fabric, fabric, plain
from cosim.extensions.gpu_cluster.cluster.jobs import Jobs
from cosim.extensions.gpu_cluster.cluster.resources import port_problems

BYTES_PER_JOB = 1_100  # of memory at the peak: as it is read, and in the simulation


def leaves_of(config: ClusterConfig, scene: Scene) -> list[int]:
    """Slots of the nodes that stand for leaves, in their order."""
    mine = selects(config.nodes)
    return [slot for slot, node in enumerate(scene.nodes) if mine(node.id, node)]


def fabric_of(config: ClusterConfig) -> Fabric:
    """The cluster of a configuration without a file."""
    if config.resources is not None:
        return fabric(config.resources)
    block = config.regular
    if block is None:
        raise ValueError("the cluster stands in a file")
    ocs = 0 if config.network == "packet" else block.ocs
    return plain(
        block.leaves, block.down // block.per_server, block.up, ocs, block.per_server, block.delay,
        rate=block.rate, gpu_power=(block.gpu_power.idle, block.gpu_power.max),
        spines=block.spines,
    )  # fmt: skip


def misfits(name: str, config: ClusterConfig, made: Fabric, nodes: int) -> list[Problem]:
    """What does not fit between a cluster, its nodes and how it is run."""
    path = f"adapters.{name}"
    found = []
    if nodes == 0:
        found.append(Problem("no node is a leaf of the cluster", path=f"{path}.nodes", hint="name static nodes"))
    elif made.leaves % nodes:
        found.append(
            Problem(
                f"{made.leaves} leaves do not divide among {nodes} nodes", path=f"{path}.nodes",
                hint="as many nodes as leaves, or one for several leaves each",
            )
        )  # fmt: skip
    if config.network == "circuits" and (len(made.delay) == 0 or (made.port_ocs < 0).any()):
        found.append(
            Problem(
                "'network: circuits' needs every uplink on an optical switch", path=f"{path}.network",
                hint="give the cluster 'ocs', or choose packet or routed",
            )
        )  # fmt: skip
    if config.network == "routed":
        for i, one in enumerate(config.faults):
            if one.what in ("port", "ocs"):
                text = f"a {one.what} cannot fail under 'network: routed', whose links are shared"
                hint = "let a leaf or a GPU fail, or choose circuits or packet"
                found.append(Problem(text, path=f"{path}.faults.{i}.what", hint=hint))
    sizes = {"gpu": made.gpus, "leaf": made.leaves, "port": len(made.port_leaf), "ocs": len(made.delay)}
    for i, one in enumerate(config.faults):
        if one.number >= sizes[one.what]:
            last = f"the last one is {sizes[one.what] - 1}" if sizes[one.what] else "there are none"
            text = f"there is no {one.what} {one.number}; {last}"
            found.append(Problem(text, path=f"{path}.faults.{i}.number"))
    return found


def _jobs(jobs: Jobs, made: Fabric, at: str) -> Iterator[Problem]:
    """How many jobs there are, and a warning of those that are larger than the cluster."""
    if len(jobs):
        text = f"there are {len(jobs)} jobs, which come from {jobs.arrival[0]:g} to {jobs.arrival[-1]:g} s"
        yield Problem(text, at, fatal=False, note=True, memory=BYTES_PER_JOB * len(jobs))
    large = int((jobs.gpus > made.gpus).sum())
    if large:
        many = f"{large} of {len(jobs)} jobs ask" if len(jobs) > 1 else "the job asks"
        text = (
            f"{many} for more GPUs than the cluster has, {jobs.gpus.max()} at most of {made.gpus}, and will be refused"
        )
        yield Problem(text, at, hint="make the cluster larger, or the jobs smaller", fatal=False)


def _begins(config: ClusterConfig, at: str) -> Iterator[tuple[str, float]]:
    """When jobs come and something breaks (s), by path."""
    yield from ((f"{at}.jobs.described.{number}.at", one.at) for number, one in enumerate(config.jobs.described))
    yield from ((f"{at}.faults.{number}.at", one.at) for number, one in enumerate(config.faults))


def problems(config: ClusterConfig, context: Context) -> list[Problem]:
    """Nodes, the resource file, the table of jobs and the policy that cannot be."""
    from cosim.extensions.gpu_cluster.adapter import world  # needs the engine

    block = config.regular
    if block is not None and block.down % block.per_server:
        text = f"{block.down} GPUs of a leaf are no whole servers of {block.per_server}"
        return [Problem(text, path=f"adapters.{context.name}.regular.down")]
    if config.resources is not None:
        path = f"adapters.{context.name}.resources"
        ports = [Problem(said, path=".".join(map(str, (path, *at)))) for at, said in port_problems(config.resources)]
        if ports:
            return ports
    try:
        made, _ = world.cluster_of(config, context)
    except ScenarioError as error:
        return list(error.problems)
    found: list[Problem] = []
    try:
        found += _jobs(world.simulation_of(config, made, context).jobs, made, f"adapters.{context.name}.jobs")
    except ScenarioError as error:
        found += error.problems
    patterns = [config.nodes] if isinstance(config.nodes, str) else config.nodes
    for one in void(patterns, [(node.id, node) for node in context.scene.nodes]):
        text, hint = f"'{one}' names no node", "correct it, or leave it out"
        found.append(Problem(text, f"adapters.{context.name}.nodes", hint=hint, fatal=False))
    found += context.unreached(_begins(config, f"adapters.{context.name}"))
    found += refusals(lambda: world.order_of(config, context))
    return found + refusals(lambda: world.placing_of(config, context))
