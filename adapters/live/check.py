"""For what the live adapter refuses a scene, and what live nodes can be sent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from cosim.adapters.live.config import LiveConfig, OffloadBlock
from cosim.contract.adapter import Context
from cosim.contract.entities import Scene, Workload
from cosim.contract.errors import Problem
from cosim.contract.laws import Law
from cosim.schedulers import SchedulerError, scheduler
from cosim.testbed.inference.limits import MAX_PAYLOAD

REAL_TIME = 1.0  # simulated s per wall s
MOST = 1000.0  # tasks/s of one workload
_LEASES = (0.1, 1e6)  # s
_INTERVALS = (0.01, 1e6)  # s


def problems(config: LiveConfig, context: Context) -> list[Problem]:
    """What in the scene cannot be live, or be sent to live nodes."""
    scene = context.scene
    return [
        *_unkept(scene), *_unattended(context), *unsendable(scene, config.offload, context.name),
        *_unseen(config, context), *_unchosen(config, context),
    ]  # fmt: skip


def listens(config: LiveConfig, context: Context) -> dict[str, set[tuple[str, int]]]:
    """The address and port that agents come to, by key."""
    host, _, port = (context.service("outside") or config.listen).removeprefix("tcp://").rpartition(":")
    return {"listen": {(host, int(port))}} if port.isdecimal() and int(port) else {}


def _unchosen(config: LiveConfig, context: Context) -> Iterator[Problem]:
    """Schedulers and hosts that real tasks cannot have."""
    given, scene = context.offered.get(config.model), context.scene
    if "model" in config.model_fields_set and given is None:
        known = ", ".join(name for name, keys in context.offered.items() if "leave" in keys) or "none"
        text = f"there is no adapter '{config.model}' whose tasks these could be"
        yield Problem(text, f"adapters.{context.name}.model", hint=f"there is {known}")
    left = [name for name in given["leave"] if name not in config.offload] if given else []
    if left:
        text = f"leaves '{left[0]}' to real nodes, and adapters.{context.name}.offload does not have it run there"
        hint = "add it there, or take it out here: the model makes its tasks with real nodes too"
        yield Problem(text, f"adapters.{config.model}.leave", hint=hint, fatal=False)
    loads = [load for load in scene.workloads if load.name in config.offload and given and load.name in given["leave"]]
    if not given or not scene.real or not loads:
        return
    at = f"adapters.{config.model}.scheduler"
    try:
        chosen = scheduler(given["scheduler"])
    except SchedulerError:
        return  # the model reports it
    if "task" not in chosen.decisions and not chosen.of_waiting:
        text = f"'{given['scheduler']}' decides per interval, by loads, powers and moves of tasks that are not measured"
        yield Problem(text, at, hint="real tasks need a scheduler that decides per task, see `cosim schedulers`")
    computers = dict(scene.computers())
    sources = {slot for load in loads for part in load.sources for slot in range(part.first, part.first + part.count)}
    made = [computers[slot] for slot in sorted(sources) if slot in computers]
    unable = [node.id for node in made if node.runs is None or node.runs.image != "vedgenode"]
    if given["scheduler"] == "local" and unable:
        hint = "let them run vedgenode, or name another scheduler"
        yield Problem(f"'local' has {', '.join(unable[:5])} compute, which runs no inference service", at, hint=hint)
    absent = [
        node.id for node in scene.nodes
        if node.cores > 0 and node.tier != "device" and (node.runs is None or node.live is None)
    ]  # fmt: skip
    if absent:
        text = f"no real task goes to {', '.join(absent[:5])}: nothing runs there that attaches to the run"
        yield Problem(text, at, hint="give it 'runs: vedgenode' and 'live: {}'", fatal=False)


def _unattended(context: Context) -> list[Problem]:
    """Machines that must be there in a run that they cannot attach to."""
    every = [node for _, node in context.scene.computers() if node.live is not None]
    ours = [node for node in every if node.runs is not None]  # started with the run, where real
    found = list[Problem]()
    own = bool(context.scene.real and ours)
    needed = [node.id for node in every if (own or node not in ours) and node.missing != "model"]
    if needed and context.pacing != REAL_TIME:
        hint = "write  run: {pacing: real-time}, or  missing: model  to simulate them"
        found.append(Problem(f"live nodes ({', '.join(needed)}) need a run in real time", "run.pacing", hint=hint))
    return found


def _unseen(config: LiveConfig, context: Context) -> Iterator[Problem]:
    """Pictures that no camera takes, or that are larger than the input of their tasks."""
    scene = context.scene
    loads = {load.name: load for load in scene.workloads}
    for key, block in config.offload.items():
        at, load = f"adapters.{context.name}.offload.{key}", loads.get(key)
        if not block.pictures or load is None:
            continue
        given = context.offered.get(block.pictures)
        if not given or "pictures" not in given or not given.get("weeds"):
            hint = "name the adapter whose block has 'weeds' and 'cameras', as vehicle"
            yield Problem(f"'{block.pictures}' takes no pictures of a field", f"{at}.pictures", hint=hint)
            continue
        nodes = [scene.nodes[part.first + k] if part.first + k < len(scene.nodes) else None
                 for part in load.sources for k in range(part.count)]  # fmt: skip
        blind = [node.id for node in nodes if node is not None and node.id not in given["pictures"]]
        if blind or None in nodes:
            names = ", ".join(blind[:5]) or "members of fleets"
            yield Problem(f"{names}: no camera of '{block.pictures}'", f"{at}.pictures", hint="see its 'cameras'")
        law, tile = sent(load), 3 * block.size**2 + 32
        if (0.0 if law.law == "exponential" else law.a) < tile:
            text = f"a tile of {block.size} x {block.size} pixels has {tile} B, and the input may be smaller"
            yield Problem(text, f"{at}.size", hint=f"write input: {math.ceil(tile / 1e3)} kB, or smaller tiles")


def attended(scene: Scene) -> bool:
    """Whether machines can attach: those that the run starts where nodes are real, and those from elsewhere."""
    return any(node.live is not None and (node.runs is None or bool(scene.real)) for _, node in scene.computers())


def rate_of(load: Workload, block: OffloadBlock) -> float:
    """Tasks/s: of all sources that take part, times the share of live nodes."""
    return load.rate * sum(part.count for part in load.sources) * load.share * block.share


def sent(load: Workload) -> Law:
    """What goes from the device to the host."""
    return next((stage.output for stage in reversed(load.graph) if stage.pinned), load.input)


def output(load: Workload) -> Law:
    """What comes back."""
    return load.graph[-1].output if load.graph else load.output


def unsendable(scene: Scene, offload: Mapping[str, OffloadBlock], name: str) -> list[Problem]:
    """What live nodes cannot be sent."""
    known = {load.name: load for load in scene.workloads}
    found = []
    for key, block in offload.items():
        at = f"adapters.{name}.offload.{key}"
        load = known.get(key)
        if load is None:
            names = ", ".join(known) or "none"
            found.append(Problem(f"there is no workload '{key}'", at, hint=f"the scenario has {names}"))
            continue
        odd = load.specialities()
        if block.path == "network" and _in_line(load):
            odd.pop("graph", None)
        if not attended(scene):
            odd.pop("arrivals", None)  # the model makes all tasks, as those of a real run again
        if odd:
            hint = "with path: network stages that follow one another can be run, those on board first"
            words = f"live nodes do not run {', '.join(odd.values())}"
            found.append(Problem(words, at, hint=hint if "graph" in odd else ""))
        if block.path == "network":
            found += _unable(scene, load, at)
        rate = rate_of(load, block)
        if rate > MOST:
            message = f"{rate:g} tasks/s are more than the {MOST:g} that are sent"
            found.append(Problem(message, at, hint="lower 'share'"))
        for what, law in (("input", sent(load)), ("output", output(load))):
            most = max(law.a, law.b) if law.law == "uniform" else law.a
            if most > MAX_PAYLOAD:
                found.append(Problem(f"its {what} of {most:g} B is more than the {MAX_PAYLOAD} B that are sent", at))
    return found


def _unable(scene: Scene, load: Workload, at: str) -> list[Problem]:
    """Sources whose tasks cannot cross the emulated network, since they would not be real."""
    computers = dict(scene.computers())
    wrong = dict[str, None]()
    for slot in (part.first + k for part in load.sources for k in range(part.count)):
        node = computers.get(slot)
        if node is None or node.runs is None or node.live is None:
            wrong[node.id if node else scene.template(slot).id] = None
        elif node.tier != "device":
            message = f"'{node.id}' is of tier {node.tier}, and only devices send tasks across the emulated network"
            return [Problem(message, f"{at}.path", hint="use path: management, or another source")]
    if not wrong:
        return []
    names = ", ".join(list(wrong)[:5])
    message = f"tasks of {names} cannot cross the emulated network: no software of theirs sends them"
    hint = "give them 'runs: vuav', 'vrover' or 'vedgenode', and 'live: {}', or use path: management"
    return [Problem(message, f"{at}.path", hint=hint)]


def _in_line(load: Workload) -> bool:
    """Whether stages follow one another, the first of them on board, the others wherever there is room."""
    places = [stage.pinned for stage in load.graph]
    return (
        places == sorted(places, reverse=True)
        and not all(places)
        and all(stage.after == ((k - 1,) if k else ()) for k, stage in enumerate(load.graph))
        and not any(stage.accelerator for stage in load.graph)
    )


def _unkept(scene: Scene) -> list[Problem]:
    """Live blocks that cannot be kept."""
    found = [
        Problem(
            "members of a fleet come and go, so no machine from elsewhere can take their places",
            f"nodes.{fleet.name}.live",
            hint="give them 'runs', which is started with the run, or write nodes of their own",
        )
        for fleet in scene.fleets
        if fleet.template.live is not None and fleet.template.runs is None
    ]
    templates = (*scene.nodes, *(fleet.template for fleet in scene.fleets))
    for node in templates:
        if node.live is None:
            continue
        for name, value, (low, high) in (
            ("lease", node.live.lease, _LEASES),
            ("interval", node.live.interval, _INTERVALS),
        ):
            if not low <= value <= high:
                message = f"{value:g} s is not between {low:g} s and {high:g} s"
                found.append(Problem(message, f"nodes.{node.id}.live.{name}"))
    return found
