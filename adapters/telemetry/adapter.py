"""Nodes shown to the monitoring of others."""

from __future__ import annotations

import time as wall
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cosim.adapters.telemetry import SIGNALS
from cosim.adapters.telemetry.check import first_port, host_of, problems
from cosim.adapters.telemetry.config import TelemetryConfig
from cosim.contract.adapter import Context, Inputs, Summary
from cosim.contract.errors import SetupError, refuse
from cosim.contract.frame import Frame
from cosim.contract.signals import CATALOGUE
from cosim.talk.telemetry.export import NODE_LOAD, Sample, load_average, otlp, prometheus, resource, samples
from cosim.talk.telemetry.ports import chosen, ports

if TYPE_CHECKING:
    from cosim.talk.telemetry.serve import Collector, Endpoints


class TelemetryAdapter:
    """Keeps the latest values of every chosen node; threads of their own serve them on request, or export them."""

    def __init__(self, config: TelemetryConfig) -> None:
        self._config = config
        self._endpoints: Endpoints | None = None
        self._collector: Collector | None = None

    def start(self, context: Context) -> None:
        """Open the endpoints. Raises `SetupError` when a port is taken, `ScenarioError` for what `check` finds."""
        config = self._config
        refuse(problems(config, context))
        names = [node.id for node in context.scene.nodes]
        wanted = set(chosen(names, config.nodes))
        self._nodes = {slot: name for slot, name in enumerate(names) if name in wanted}
        self._values: Mapping[str, Sequence[Sample]] = {name: [] for name in self._nodes.values()}
        self._load = dict.fromkeys(self._nodes, 0.0)
        self._time = 0.0
        self._started, self._begun = wall.time_ns(), wall.monotonic()
        first = first_port(config, context)
        if first is not None:
            self._open(host_of(config, context), first)
        if config.otlp is not None:
            from cosim.talk.telemetry.serve import Collector

            self._collector = Collector(config.otlp, config.interval, self._export)

    def _open(self, host: str, first: int) -> None:
        from cosim.talk.telemetry.serve import Endpoints

        try:
            self._endpoints = Endpoints(host, ports(list(self._nodes.values()), first), self._page)
        except OSError as error:
            raise SetupError(f"the metrics cannot be shown at {host}, ports from {first}: {error}") from error

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        """Store the values at `time`, if there is an endpoint or a collector."""
        if self._endpoints is None and self._collector is None:
            return ()
        found: dict[int, list[Sample]] = {slot: [] for slot in self._nodes}
        passed, self._time = time - self._time, time
        for signal in SIGNALS:
            for frame in inputs.all(signal):
                for row, slot in enumerate(frame.slot.tolist()):
                    if slot in found:
                        values = {name: column[row] for name, column in frame.columns.items()}
                        found[slot] += samples(CATALOGUE[signal], values)
                        if signal == "host":
                            found[slot].append(self._load_average(slot, float(values["running"]), passed))
        pace = time / max(1e-9, wall.monotonic() - self._begun)
        clock = [
            Sample("cosim_simulated_time_seconds", time, meaning="time in the run", unit="s"),
            Sample("cosim_real_time_factor", pace, meaning="simulated seconds per second so far"),
        ]
        self._values = {self._nodes[slot]: [*rows, *clock] for slot, rows in found.items()}
        return ()

    def finish(self) -> Summary:
        """Where the endpoints were, and how many exports there were."""
        addresses = self._endpoints.addresses if self._endpoints else {}
        return {
            "nodes": len(self._nodes),
            "endpoints": {node: f"http://{host}:{port}/metrics" for node, (host, port) in addresses.items()},
            "exports": self._collector.sent if self._collector else 0,
            "failed_exports": self._collector.failed if self._collector else 0,
        }

    def close(self) -> None:
        """Stop serving and exporting."""
        endpoints, self._endpoints = self._endpoints, None
        collector, self._collector = self._collector, None
        if endpoints is not None:
            endpoints.close()
        if collector is not None:
            collector.close()

    def _load_average(self, slot: int, running: float, passed: float) -> Sample:
        self._load[slot] = load_average(self._load[slot], running, passed)
        return Sample(NODE_LOAD, self._load[slot], meaning="running tasks, mean over the last minute")

    def _page(self, node: str) -> bytes:
        labels = {key.replace(".", "_"): text for key, text in resource(self._config.service, node).items()}
        return prometheus(self._values[node], labels)

    def _export(self) -> Mapping[str, Any]:
        return otlp(self._values, self._config.service, wall.time_ns(), self._started)
