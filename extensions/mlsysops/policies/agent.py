"""The agent of a simulated cluster: asks policies when they are due, and carries out their plans."""

from __future__ import annotations

import copy
import datetime
import json
import logging
import math
import re
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cosim.contract.entities import Scene
from cosim.extensions.mlsysops.policies.descriptors import Document, component_name, node_descriptor, workload_of
from cosim.extensions.mlsysops.policies.plugin import Plugin
from cosim.extensions.mlsysops.policies.stand_ins import PolicyClock
from cosim.schedulers.state import KEEP, LOCAL, State

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("cosim.mlsysops")

Metrics = Mapping[str, Mapping[str, float]]  # node, or "" for the application -> metric -> value
SetPoint = Callable[[str, int], None]  # node, number of its operating point

MECHANISMS = ("fluidity", "fluidity_proxy", "CPUFrequencyConfigurator")
_ACTIONS = ("deploy", "move", "remove")
_KEPT = 30.0  # s of telemetry, as the framework's agents keep them
_MOST_PLANS = 10_000  # that are kept
_FREQUENCY = re.compile(r"(\d+(?:\.\d+)?)\s*(|[kMG]?Hz)")
_HERTZ = {"": 1e3, "Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9}  # bare numbers are kHz, as for cpufreq
_CLOSE = 0.01  # of a frequency that is asked for, to that of an operating point


@dataclass(frozen=True, slots=True)
class Update:
    """A change of the applications while the run goes on."""

    at: float  # s
    deploy: tuple[Document, ...] = ()  # applications that come, or take the place of those of their names
    remove: str = ""  # name of one that goes


@dataclass(slots=True)
class _Running:
    """A policy at work: for one application, as the framework starts one for each, or for all."""

    plugin: Plugin
    last: float  # s, when it was asked last; inf: it wants to be asked no more
    rows: deque[dict[str, Any]] = field(default_factory=deque)  # telemetry that it has seen


@dataclass(slots=True)
class _Placed:
    """Where the components of an application are."""

    document: Document
    nodes: dict[str, list[str]] = field(default_factory=dict)  # component -> nodes, in order of deployment


class ClusterAgent:
    """A policy for models that ask per task: a task goes to a node where its component is.

    `plugins` are policy files; `applications` are documents {name, spec}. `points` are the clocks (Hz) of nodes whose
    operating point may be set. `observe` lets time pass; `plans` are what the policies wanted first, in order.
    """

    decisions = frozenset(("task",))

    def __init__(
        self,
        plugins: Sequence[Path],
        scene: Scene,
        cluster: str,
        applications: Sequence[Document],
        *,
        updates: Sequence[Update] = (),
        aliases: Mapping[str, str] | None = None,
        points: Mapping[str, Sequence[float]] | None = None,
        seed: int = 0,
    ) -> None:
        self._scene, self._cluster = scene, cluster
        self._names = [load.name for load in scene.workloads]
        self._workload: dict[str, int] = {}  # component -> number of its workload, -1
        self._slots = {node.id: slot for slot, node in enumerate(scene.nodes)}
        computing = [node.id for node in scene.nodes if node.tier != "device" and node.cores > 0]
        self._hosts = {name: number for number, name in enumerate(computing)}
        self._descriptors = {node.id: node_descriptor(node, scene, cluster) for node in scene.nodes}
        self._updates = deque(sorted(updates, key=lambda update: update.at))
        self._aliases, self._points = dict(aliases or {}), dict(points or {})
        self._clock = PolicyClock()
        self._metrics: Metrics = {}
        self._up = dict.fromkeys(self._slots, True)
        self._frequency = {name: clocks[-1] for name, clocks in self._points.items()}
        self._paths, self._seed = list(plugins), seed
        self._applications: dict[str, _Placed] = {}
        self._global = [number for number in range(len(self._paths)) if self._load(number, "").scope == "global"]
        self._running: dict[tuple[int, str], _Running] = {}
        self.plans: list[dict[str, Any]] = []
        self._planned = 0
        self.refused: Counter[str] = Counter()
        self.applied: Counter[str] = Counter()
        self._deploy(applications)

    # the data plane: where tasks go

    def __call__(self, state: State, /) -> np.ndarray:
        """(T,) a node of the task's component that works and can be reached; of several, one by the task's chance."""
        found = np.full(len(state.tasks), KEEP, np.int64)
        for row, task in enumerate(state.tasks):
            able = []
            for node in self._nodes_of(int(task["workload"])):
                number = self._hosts.get(node, KEEP)
                if number >= 0 and state.hosts["up"][number] and math.isfinite(state.reach[row, number]):
                    able.append(number)
                elif number < 0 and self._slots[node] == task["device"] and task["own_speed"] > 0.0:
                    able.append(LOCAL)
            if able:
                found[row] = able[int(task["chance"] * len(able))]
        return found

    def _nodes_of(self, workload: int) -> list[str]:
        return [
            node
            for placed in self._applications.values()
            for component, nodes in placed.nodes.items()
            if self._workload[component] == workload
            for node in nodes
        ]

    # the control plane: what the policies see and request

    def observe(self, time: float, metrics: Metrics, up: Mapping[str, bool], set_point: SetPoint) -> None:
        """Advance to `time` (s): take over measurements, ask the policies that are due, and carry out their plans."""
        self._clock.now, self._metrics = time, metrics
        self._up.update(up)
        while self._updates and self._updates[0].at <= time + 1e-9:
            update = self._updates.popleft()
            if update.remove and self._applications.pop(update.remove, None) is None:
                self._refuse(f"removal of application '{update.remove}', which is not there")
            self._deploy(update.deploy)
        self._start()
        for (_, scope), running in list(self._running.items()):
            self._scrape(running)
            if self._applications:
                self._ask(running, scope, set_point)

    def _start(self) -> None:
        """Let every policy work for every application that is there, global ones once; those of others end."""
        wanted = [
            (number, scope)
            for number in range(len(self._paths))
            for scope in ([""] if number in self._global else self._applications)
        ]
        former, self._running = self._running, {}
        for key in wanted:
            self._running[key] = former.get(key) or _Running(self._load(*key), self._clock.now)

    def _load(self, number: int, scope: str) -> Plugin:
        return Plugin(self._paths[number], self._clock, self._samples, seed=f"{self._seed} {number} {scope}")

    def _deploy(self, applications: Sequence[Document]) -> None:
        """Take over applications; components that name their node are placed at once, as in the framework."""
        for document in applications:
            former = self._applications.get(document["name"])
            names = [component_name(one) for one in document["spec"]["components"]]
            self._workload.update((name, workload_of(name, self._names)) for name in names)
            kept = {name: nodes for name, nodes in former.nodes.items() if name in names} if former else {}
            placed = self._applications[document["name"]] = _Placed(copy.deepcopy(document), kept)
            for component in document["spec"]["components"]:
                node = (component.get("node_placement") or {}).get("node")
                if isinstance(node, str) and node != "*" and self._can_hold(node):
                    placed.nodes[component_name(component)] = [node]

    def _scrape(self, running: _Running) -> None:
        """Add a row to what a policy sees of its metrics, when one is due."""
        plugin, rows, now = running.plugin, running.rows, self._clock.time()
        if rows and now - rows[-1]["timestamp"] < plugin.scrape - 1e-9:
            return
        wanted = dict.fromkeys((*plugin.metrics, *self._quality()))
        row: dict[str, Any] = {name: self._value(name, plugin.node) for name in wanted}
        moment = datetime.datetime.fromtimestamp(int(now), datetime.UTC)
        rows.append({**row, "timestamp": now, "human_timestamp": f"{moment:%Y-%m-%d %H:%M:%S}"})
        while now - rows[0]["timestamp"] > _KEPT:
            rows.popleft()

    def _quality(self) -> list[str]:
        """The metrics that the components' quality is judged by."""
        return [
            metric["application_metric_id"]
            for placed in self._applications.values()
            for component in placed.document["spec"]["components"]
            for metric in component.get("qos_metrics") or ()
            if isinstance(metric, dict) and "application_metric_id" in metric
        ]

    def _value(self, metric: str, node: str) -> float | None:
        """The first sample, as the framework takes it; None: not known."""
        found = self._samples(metric, node)
        return found[0]["value"] if found else None

    def _samples(self, metric: str, node: str) -> list[dict[str, Any]]:
        """What is known of a metric, of the application or of nodes in the order of the file."""
        name = self._aliases.get(metric, metric)
        return [
            {"value": values[name], "node_name": where}
            for where, values in self._metrics.items()
            if name in values and (node in ("", where) or not where)
        ]

    def _ask(self, running: _Running, scope: str, set_point: SetPoint) -> None:
        plugin = running.plugin
        interval = plugin.interval
        if self._clock.now - running.last < interval - 1e-9:
            return
        running.last = self._clock.now if interval else math.inf
        if plugin.analyze(*self._arguments(running, scope)):
            self._carry_out(plugin, plugin.plan(*self._arguments(running, scope)), set_point)

    def _arguments(self, running: _Running, scope: str) -> tuple[object, ...]:
        """What `analyze` and `plan` get beside their context, each time anew."""
        import pandas as pd

        rows = list(running.rows)
        frame = pd.DataFrame(rows)

        async def query(latest: bool = False, **_: object) -> pd.DataFrame:
            return pd.DataFrame(rows[-1:]) if latest else frame.copy()  # None stays None in a row of its own

        telemetry = {"dataframe": frame, "query": query, "prometheus_endpoint": "", "grafana_endpoint": ""}
        chosen = [self._applications[scope]] if scope else list(self._applications.values())
        applications = [copy.deepcopy(placed.document) for placed in chosen]
        system = {"MLSysOpsCluster": {"cluster_id": self._cluster, "name": self._cluster, "nodes": list(self._hosts)}}
        return applications, system, self._mechanisms(), telemetry, None

    def _mechanisms(self) -> dict[str, dict[str, Any]]:
        nodes = {
            name: {
                "metadata": {"name": name}, "name": name, "spec": copy.deepcopy(body), "ready": self._up[name],
            }
            for name, body in self._descriptors.items()
        }  # fmt: skip
        applications = {
            name: {
                "name": name,
                "spec": copy.deepcopy(placed.document["spec"]),
                "components": {
                    component: {"node_placed": next(iter(placed.nodes.get(component, ())), None),
                                "nodes": list(placed.nodes.get(component, ()))}
                    for component in map(component_name, placed.document["spec"]["components"])
                },
            }
            for name, placed in self._applications.items()
        }  # fmt: skip
        fluidity = {"state": {"applications": applications, "nodes": nodes}, "options": list(_ACTIONS)}
        clocks = {name: list(values) for name, values in self._points.items()}
        frequency = {"state": dict(self._frequency), "options": clocks}
        return {"fluidity": fluidity, "fluidity_proxy": fluidity, "CPUFrequencyConfigurator": frequency}

    # what a plan asks for

    def _carry_out(self, plugin: Plugin, plan: dict[str, Any], set_point: SetPoint) -> None:
        if not plan:
            return
        self._planned += 1
        if len(self.plans) < _MOST_PLANS:
            written = json.loads(json.dumps(plan, default=str))
            self.plans.append({"time": self._clock.now, "policy": plugin.name, "plan": written})
        for mechanism, command in plan.items():
            if not isinstance(command, dict):
                self._refuse(f"a plan for '{mechanism}' that is a {type(command).__name__} instead of a dict")
            elif mechanism in ("fluidity", "fluidity_proxy"):
                self._fluidity(mechanism, command)
            elif mechanism == "CPUFrequencyConfigurator":
                self._cpu(plugin.node, command, set_point)
            else:
                self._refuse(f"mechanism '{mechanism}', which is not simulated; there are {', '.join(MECHANISMS)}")

    def _fluidity(self, mechanism: str, command: dict[str, Any]) -> None:
        if not command:
            return
        name = command.get("name", next(iter(self._applications)) if len(self._applications) == 1 else None)
        placed = self._applications.get(str(name))
        listed = command.get("deployment_plan")
        if placed is None or not isinstance(listed, dict):
            what = f"application {name!r}" if placed is None else "no 'deployment_plan'"
            self._refuse(f"a plan of {mechanism} for {what}; applications: {', '.join(self._applications) or 'none'}")
            return
        known = [component_name(one) for one in placed.document["spec"]["components"]]
        for component, actions in listed.items():
            if component == "initial_plan":
                continue
            if component not in known:
                self._refuse(f"component '{component}', which '{name}' has not; it has {', '.join(known)}")
                continue
            for action in actions if isinstance(actions, list) else [actions]:
                self._place(placed.nodes.setdefault(component, []), component, action)

    def _place(self, nodes: list[str], component: str, action: object) -> None:
        """Carry out one action on a component that is on `nodes`."""
        said = action if isinstance(action, dict) else {}
        word = said.get("action")
        if word not in _ACTIONS:
            self._refuse(f"fluidity action {word!r}, which is not simulated; there are {', '.join(_ACTIONS)}")
            return
        target = said.get("target_host") if word == "move" else said.get("host")
        source = said.get("src_host", nodes[0] if len(nodes) == 1 else None)
        if word == "move" and source not in nodes:
            self._refuse(f"move of '{component}' from {source!r}, where it is not")
        elif word == "remove" and target not in nodes:
            self._refuse(f"remove of '{component}' from {target!r}, where it is not")
        elif word != "remove" and not self._can_hold(str(target)):
            able = ", ".join(name for name in self._slots if self._can_hold(name))
            self._refuse(f"{word} of '{component}' to {target!r}, which is no node with a cpu; there are {able}")
        else:
            if word != "deploy":
                nodes.remove(str(source if word == "move" else target))
            if word != "remove" and target not in nodes:
                nodes.append(str(target))
            self.applied[f"fluidity {word}"] += 1

    def order(self, word: str, component: str, hosts: Sequence[str], count: int = 0) -> None:
        """`deploy` a component at `hosts`, `remove` it from them, or `scale` it to `count` of them.

        What cannot be done is refused as in a plan. A policy that plans later may undo it.
        """
        found = (
            placed
            for placed in self._applications.values()
            if component in map(component_name, placed.document["spec"]["components"])
        )
        if (placed := next(found, None)) is None:
            self._refuse(f"component '{component}', which no application has")
            return
        nodes = placed.nodes.setdefault(component, [])
        if word == "scale":
            wanted = sorted(hosts, key=lambda host: host not in nodes)[:count]
            for host in [host for host in hosts if host in nodes and host not in wanted]:
                self._place(nodes, component, {"action": "remove", "host": host})
            hosts, word = [host for host in wanted if host not in nodes], "deploy"
        for host in hosts:
            self._place(nodes, component, {"action": word, "host": host})

    def _can_hold(self, node: str) -> bool:
        return node in self._slots and self._scene.nodes[self._slots[node]].cores > 0

    def _cpu(self, node: str, command: dict[str, Any], set_point: SetPoint) -> None:
        """Set the operating point of a policy's own node, or of all nodes that have any."""
        if node and node not in self._points:
            self._refuse(f"a frequency of '{node}', which has no operating points; give it 'scaling' with userspace")
            return
        if not self._points:
            self._refuse("a frequency, but no node has 'scaling' with the governor userspace")
            return
        if command.get("cpu", "all") != "all":
            self._refuse(f"a frequency of core {command['cpu']!r}: all cores of a node have one clock")
            return
        for name, clocks in self._points.items():
            if node in ("", name):
                asked = "max" if command.get("command") == "reset" else command.get("frequency")
                number = _point(asked, clocks)
                if number is None:
                    reported = ", ".join(f"{clock / 1e6:g} MHz" for clock in clocks)
                    self._refuse(f"frequency {asked!r} of '{name}', which has {reported}, min and max")
                    continue
                set_point(name, number)
                self._frequency[name] = clocks[number]
                self.applied["CPUFrequencyConfigurator"] += 1

    def _refuse(self, what: str) -> None:
        if not self.refused[what]:
            log.warning("a plan asks for %s: refused", what)
        self.refused[what] += 1

    def placement(self) -> tuple[np.ndarray, np.ndarray]:
        """(nodes,) components at each static node, int32, and the workloads that may run there, a bit each, int64."""
        components, workloads = np.zeros(len(self._slots), np.int32), np.zeros(len(self._slots), np.int64)
        for placed in self._applications.values():
            for component, nodes in placed.nodes.items():
                slots = [self._slots[node] for node in nodes]
                components[slots] += 1
                if self._workload[component] >= 0:
                    workloads[slots] |= 1 << self._workload[component]
        return components, workloads

    def summary(self) -> dict[str, Any]:
        """What policies wanted and what became of it."""
        return {
            "plans": self._planned,
            "applied": dict(self.applied),
            "refused": dict(self.refused),
            "slept": self._clock.slept,
            "placed": {
                name: {component: list(nodes) for component, nodes in placed.nodes.items()}
                for name, placed in self._applications.items()
            },
        }


def _point(asked: object, clocks: Sequence[float]) -> int | None:
    """The number of the operating point that is asked for."""
    if asked in ("min", "max"):
        return 0 if asked == "min" else len(clocks) - 1
    match = _FREQUENCY.fullmatch(str(asked).strip())
    hertz = float(match[1]) * _HERTZ[match[2]] if match else 0.0
    near = min(range(len(clocks)), key=lambda k: abs(clocks[k] - hertz))
    return near if abs(clocks[near] - hertz) <= _CLOSE * clocks[near] else None
