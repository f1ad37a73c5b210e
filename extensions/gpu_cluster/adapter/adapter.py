"""Steps the cluster along the bus and turns its state into frames."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.adapter import Context, InMemory, Inputs, Summary
from cosim.contract.frame import Frame
from cosim.contract.signals import MACHINE_STATE
from cosim.engine.continuum.billing import cuts
from cosim.engine.continuum.tariff import rates
from cosim.extensions.gpu_cluster.adapter.books import Books
from cosim.extensions.gpu_cluster.adapter.config import ClusterConfig
from cosim.extensions.gpu_cluster.adapter.world import cluster_of, order_of, placing_of, simulation_of
from cosim.extensions.gpu_cluster.cluster import order, topology
from cosim.extensions.gpu_cluster.cluster.engine import layout as l
from cosim.extensions.gpu_cluster.cluster.names import TOPOLOGIES

_NAMES = (*TOPOLOGIES, "cabled")


class ClusterAdapter(InMemory[ClusterConfig]):
    """Training jobs on the leaves of the scene."""

    def start(self, context: Context) -> None:
        """Build the cluster. Raises `ScenarioError` for a bad file and for what does not fit together."""
        config = self._config
        self._fabric, slots = cluster_of(config, context)
        self._simulation = simulation_of(config, self._fabric, context)
        self._order = order_of(config, context)
        self._place, self._wire = placing_of(config, context)
        self._node = np.arange(self._fabric.leaves) * len(slots) // self._fabric.leaves  # (leaves,) which node
        self._slot = np.array(slots, np.int64)
        self._index = {slot: i for i, slot in enumerate(slots)}
        tariffs = rates(context.scene, Path(context.root), context.duration)
        names = {one.name: k for k, one in enumerate(context.scene.tariffs)}
        tariff = [names.get(context.scene.nodes[slot].tariff, -1) for slot in slots]
        self._books = Books(self._simulation, self._node, [context.scene.nodes[s] for s in slots], tariffs, tariff)
        self._cuts = cuts([one for k, one in enumerate(tariffs) if k in tariff])
        self._review = config.switch if config.switch is not None else math.inf
        self._seen, self._out, self._held = 0.0, np.zeros(len(slots), np.int64), set[tuple[int, int, int, int]]()
        self._reported = np.zeros(len(self._simulation.jobs), bool)

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        """Advance to `time`; scenario events take leaves down and up at their own time."""
        if self._config.power_limit is not None:
            self._limit(inputs)
        for event in sorted(inputs.events, key=lambda one: one.at):
            if event.do in ("fail", "recover"):
                self._advance(min(event.at, time))
                slots = [slot for part in event.nodes for slot in range(part.first, part.first + part.count)]
                for node in sorted({self._index[slot] for slot in slots if slot in self._index}):
                    for leaf in np.flatnonzero(self._node == node):
                        self._simulation.happen("leaf", int(leaf), repair=event.do == "recover")
                    self._out[node] = max(0, self._out[node] + (1 if event.do == "fail" else -1))
        self._advance(time)
        return [self._host(time), self._machine(time), *self._links(time), self._cluster(time), self._job(time)]

    def finish(self) -> Summary:
        return self._books.summary()

    def _advance(self, until: float) -> None:
        """Run on, stopping where a price changes and where the topology is chosen anew."""
        simulation = self._simulation
        while simulation.now < until:
            later = self._cuts[self._cuts > simulation.now]
            stop = min(until, self._review, float(later[0]) if len(later) else math.inf)
            self._run(stop)
            self._books.bill()
            if stop == self._review:
                topology.choose(simulation)
                self._review += self._config.switch or math.inf
        self._run(until)

    def _run(self, until: float) -> None:
        if self._place is not None or self._wire is not None:
            chosen = self._order or (lambda jobs, _: jobs)
            order.placed(self._simulation, chosen, self._place, self._wire, self._config.window, until=until)
        elif self._order is None:
            self._simulation.advance(until)
        else:
            order.in_windows(self._simulation, self._order, self._config.window, until=until)

    def _limit(self, inputs: Inputs) -> None:
        """Let only as many GPUs be busy as the power that other hosts leave allows."""
        mine = set(self._slot.tolist())
        others = 0.0
        for frame in inputs.all("host"):
            theirs = np.array([slot not in mine for slot in frame.slot.tolist()], bool)
            others += float(frame["power"][theirs].sum())
        self._simulation.limit(self._books.gpus_within((self._config.power_limit or 0.0) - others))

    def _host(self, time: float) -> Frame:
        leaf = self._simulation.state.leaf
        count = len(self._slot)
        columns: dict[str, NDArray[Any]] = {
            **self._books.means(time),
            "running": self._books.jobs_by_node().astype(np.int32),
            "completed": self._books.completed.copy(),
            "up": (self._out == 0) & (np.bincount(self._node, leaf["size"], count) > 0.0),
        }
        names = ("running", "utilisation", "power", "energy", "cost", "completed", "up")
        return Frame("host", time, self._slot.astype(np.int32), {name: columns[name] for name in names})

    def _machine(self, time: float) -> Frame:
        count = len(self._slot)
        waiting = np.zeros(count, np.int32)
        waiting[0] = self._simulation["waiting"]
        state = np.where(self._out > 0, MACHINE_STATE.index("off"), MACHINE_STATE.index("on")).astype(np.int8)
        columns: dict[str, NDArray[Any]] = {
            "state": state, "waiting": waiting, "memory": np.full(count, np.inf), "storage": np.full(count, np.inf),
            "frequency": np.zeros(count),
        }  # fmt: skip
        return Frame("machine", time, self._slot.astype(np.int32), columns)

    def _links(self, time: float) -> tuple[Frame, Frame]:
        """What circuits join which nodes now, and which came and went since the last step."""
        simulation, fabric = self._simulation, self._fabric
        port_leaf = fabric.port_leaf
        if self._config.network == "routed":
            now = set[tuple[int, int, int, int]]()
            size = fabric.leaves + 1
            cap = simulation.state.cap[simulation["topology"]].reshape(size, size)[:-1, :-1]
            a, b = np.nonzero(np.triu(cap))
            ports = cap[a, b]
        else:
            held = simulation.circuits()
            now = {(int(port_leaf[p]), int(port_leaf[q]), int(x), int(j)) for p, q, x, j in held}
            pairs, ports = np.unique(port_leaf[held[:, :2]].reshape(-1, 2), axis=0, return_counts=True)
            a, b = pairs[:, 0], pairs[:, 1]
        ends = np.stack([self._node[a], self._node[b]]).astype(np.int64)
        apart = ends[0] != ends[1]
        slots = np.ascontiguousarray(self._slot[ends[:, apart]], np.int32)
        rate = ports[apart] * fabric.rate
        zeros = np.zeros(len(rate))
        peer = Frame("peer_link", time, slots[0], {
            "peer": slots[1], "rate": rate.astype(np.float64), "delay": zeros, "jitter": zeros.copy(),
            "loss": zeros.copy(), "rssi": np.full(len(rate), np.nan),
        })  # fmt: skip
        rows = [(*one, True) for one in sorted(now - self._held)] + [(*one, False) for one in sorted(self._held - now)]
        self._held = now
        table = np.array(rows, np.int64).reshape(-1, 5)
        circuit = Frame("circuit", time, self._slot[self._node[table[:, 0]]].astype(np.int32), {
            "at": np.full(len(rows), time), "peer": self._slot[self._node[table[:, 1]]].astype(np.int32),
            "leaf": table[:, 0].astype(np.int32), "other": table[:, 1].astype(np.int32),
            "ocs": table[:, 2].astype(np.int32), "job": table[:, 3].copy(), "up": table[:, 4] > 0,
        })  # fmt: skip
        return peer, circuit

    def _cluster(self, time: float) -> Frame:
        """The event times since the last step."""
        rows = self._simulation.rows()
        fresh = rows[rows["time"] >= self._seen] if self._seen else rows
        self._seen = float(np.nextafter(rows["time"][-1], np.inf)) if len(rows) else self._seen
        chosen = [_NAMES.index(name) for name in self._simulation.settings.topologies]
        busy = fresh["busy"] / l.WHOLE
        columns: dict[str, NDArray[Any]] = {
            "at": fresh["time"].copy(), "busy": busy,
            **{name: fresh[name].astype(np.int32) for name in ("down", "waiting", "running", "circuits")},
            "reconfigured": fresh["reconfigured"].copy(), "useful": fresh["useful"].copy(),
            "power": self._fabric.watts(busy, fresh["active"]),
            "topology": np.array(chosen, np.int8)[fresh["topology"]],
        }  # fmt: skip
        return Frame("cluster", time, np.full(len(fresh), self._slot[0], np.int32), columns)

    def _job(self, time: float) -> Frame:
        simulation = self._simulation
        job = simulation.state.job
        ended = np.flatnonzero((job["state"] == l.DONE) & ~self._reported)
        self._reported[ended] = True
        ended = ended[np.argsort(job["end"][ended], kind="stable")]
        rows = job[ended]
        slot = self._slot[self._node[self._books.first_leaf(ended)]]
        columns: dict[str, NDArray[Any]] = {
            "job": ended.astype(np.int64), "gpus": rows["n"] * rows["milli"] / float(l.WHOLE),
            "pattern": rows["pattern"].astype(np.int8), "arrival": rows["arrival"].copy(),
            "started": rows["start"].copy(), "ended": rows["end"].copy(),
            **{name: rows[name].astype(np.int32) for name in ("leaves", "circuits", "restarts")},
            "lost": rows["lost"].copy(), "stalled": rows["stalled"].copy(), "domains": rows["domains"].astype(np.int32),
        }  # fmt: skip
        return Frame("job", time, slot.astype(np.int32), columns)
