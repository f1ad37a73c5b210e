"""Adapter kinds for tests of the loader and the plan: descriptions without any simulator behind them."""

from __future__ import annotations

from typing import Literal

import pytest

from cosim.contract import registry, units
from cosim.contract.adapter import AdapterConfig, AdapterKind, Ports, Read
from cosim.contract.errors import SetupError
from cosim.contract.signals import Column, Signal


class TrafficConfig(AdapterConfig):
    config: str = "city.sumocfg"
    scale: float = 1.0
    writes: list[str] = ["mobility"]


class RadioConfig(AdapterConfig):
    carrier: units.Frequency = 3.5e9
    model: Literal["close-in", "free-space"] = "close-in"
    delayed: bool = True


class EngineConfig(AdapterConfig):
    scheduler: Literal["least-loaded", "random", "nearest"] = "least-loaded"
    interval: units.Period = 5.0


class WeatherConfig(AdapterConfig):
    city: str


def _kind(name: str, config: str, ports: object, **more: object) -> AdapterKind:
    return AdapterKind(
        name=name,
        summary=f"a {name} for tests",
        config=f"{__name__}:{config}",
        factory=f"{__name__}:none",
        ports=ports,  # type: ignore[arg-type]
        **more,  # type: ignore[arg-type]
    )


RAIN = Signal("rain", "how much it rains", (Column("rate", "float64", "m/s", "rain"),))

KINDS = {
    kind.name: kind
    for kind in (
        _kind("traffic", "TrafficConfig", lambda c: Ports((), tuple(c.writes)), fleet=True, isolated=True),
        _kind(
            "air",
            "RadioConfig",
            lambda c: Ports((Read("mobility", required=False), Read("traffic", c.delayed, False)), ("link", "cell")),
        ),
        _kind("engine", "EngineConfig", Ports((Read("link"),), ("host", "task", "traffic"))),
        _kind("weather", "WeatherConfig", Ports((), ("rain",)), signals=(RAIN,), origin="measured"),
    )
}


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the registry know `KINDS` and nothing else."""

    def kind(name: str) -> AdapterKind:
        if name not in KINDS:
            raise SetupError(f"there is no adapter '{name}'")
        return KINDS[name]

    monkeypatch.setattr(registry, "adapter_names", lambda: tuple(sorted(KINDS)))
    monkeypatch.setattr(registry, "adapter_kind", kind)


FARM = """\
# yaml-language-server: $schema=../../docs/schema/scenario.v1.json
apiVersion: cosim/v1
kind: Scenario
name: smart-farm
title: A farm
run: {duration: 10 min, step: 500 ms, seed: 7, lag: {warn: 100 ms}}
geo: {origin: [39.36, 22.95, 60 m]}
adapters:
  engine: {scheduler: least-loaded, interval: 5 s}
  air:
    carrier: 3.5 GHz
    step: 1 s
  traffic:
kinds:
  edge: {cpu: 4 x 1.8 GHz, memory: 8 GiB, power: {idle: 2.7 W, max: 6.4 W}}
groups:
  far: {members: "uav-*", color: "#112233"}
nodes:
  cars: {kind: vehicle, fleet: traffic, capacity: 50}
  uav-[1..3]: {kind: uav, at: [0 m, 20 m]}
  edge-1:
    kind: edge
    at: [120 m, 40 m, 5 m]
    power: {max: 8 W}
  mast: {kind: base-station, at: [0 m, 0 m], cpu: 2 x 2 GHz}
  cloud: {kind: cloud, cpu: 16 x 3 GHz}
links:
  - {between: [mast, edge-1], rate: 1 Gbit/s, delay: 1 ms}
  - between: [edge-1, cloud]
    rate: 100 Mbit/s
    delay: 20 ms
workloads:
  weed-detection: {from: [uav-*, cars], arrivals: poisson 2 Hz, input: 180 kB, work: 90 Mcycles, deadline: 400 ms}
  report: {from: "kind:vehicle", arrivals: every 10 s, work: exponential 5 Mcycles, share: 50 %}
events:
  - {at: 6 min, do: fail, node: edge-1, for: 30 s}
  - {at: 4 min, do: degrade, link: edge-1/cloud, delay: +120 ms, loss: 5 %}
record:
  "*": {every: 2 s}
  mobility: {columns: [x, y], nodes: cars}
sweep: {run.seed: 1..20, adapters.engine.scheduler: [least-loaded, random]}
"""
