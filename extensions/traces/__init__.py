"""Readers of public traces of data centres: what machines were used for, and which tasks arrived.

A reader takes files as their publishers give them, plain or gzipped, and returns one of two things:
`UtilisationTraces`, the utilisation of each virtual machine in each period, or `TaskTrace`, tasks with
arrival, size and duration. Bad files raise `cosim.contract.errors.ScenarioError` with file and line.

| module | source |
|---|---|
| `planetlab` | PlanetLab CoMon, one file per machine of one value per 5 min, or one packed table |
| `bitbrains` | GWA-T-12 Bitbrains, raw files or packed usage and VM tables |
| `google` | Google cluster data 2011 (`task_events`, `task_usage`) and aggregates of 2019 |
| `azure` | Azure public VM data V2 (`vmtable`, `vm_cpu_readings`), aggregates, LLM requests of 2023 |
| `alibaba` | Alibaba cluster data 2018 (`machine_usage`, `container_usage`) and aggregates |
| `surf` | SURF LISA, tasks and their fragments |
"""

from typing import TYPE_CHECKING

from cosim.contract.on_demand import on_demand

if TYPE_CHECKING:
    from cosim.extensions.traces.model import TaskTrace, UtilisationTraces

__all__ = ["TaskTrace", "UtilisationTraces"]

__getattr__ = on_demand(__name__, model="TaskTrace UtilisationTraces")
