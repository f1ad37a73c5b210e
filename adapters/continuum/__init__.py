"""The compute continuum on the bus: devices make tasks, edge and cloud nodes run them."""

from typing import Any

from cosim.contract.adapter import AdapterKind, Ports, Read
from cosim.schedulers import of_files


def _ports(config: Any) -> Ports:  # noqa: ANN401 - its model is imported when it is needed
    reach = ("reach",) if config.leave else ()
    trace = config.trace.signals() if config.trace else ()
    files = of_files(config.scheduler)
    placed = ("placement",) if files else ()
    ended = (Read("task", delayed=True, required=False),) if files and config.leave else ()
    return Ports(
        reads=(*(Read(name, required=False) for name in ("mobility", "link", "resources", "demand", "taken")), *ended),
        writes=("task", "host", "traffic", *reach, *placed, *config.signals, *trace),
    )


def _outside(config: Any, _: Any) -> str:  # noqa: ANN401
    measured = config.deciding is not None and config.deciding.takes == "measured"
    return "its decisions take the CPU time that is measured, which no second run repeats" if measured else ""


_EVENTS = {"set-scheduler": "SetScheduler", "deploy": "Deploy", "remove": "Remove", "scale": "ScaleComponent"}

ADAPTER = AdapterKind(
    name="continuum",
    summary="devices make tasks; a scheduler sends them over radio and links to edge and cloud hosts",
    config="cosim.adapters.continuum.config:ContinuumConfig",
    factory="cosim.adapters.continuum.adapter:ContinuumAdapter",
    check="cosim.adapters.continuum.check:problems",
    acts_on=frozenset({"degrade", "fail", "links", "workloads"}),
    outside=_outside,
    ports=_ports,
    events={do: f"cosim.adapters.continuum.keys:{name}" for do, name in _EVENTS.items()},
    offers=("scheduler", "threshold", "leave"),
    compiled="cosim.engine.continuum.warm:compiled",
    batch="cosim.adapters.continuum.batch:prepare",
    example="""\
continuum:
  scheduler: least-loaded
  patience: 2 s
""",
)
