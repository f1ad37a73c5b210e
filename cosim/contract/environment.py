"""The environment variables of the product: what each means. Adapters ask here and never read the environment.

`docs/environment.md` shows the same table. The user who starts a run sets the first group. The others configure the
programs of real nodes; `cosim run --nodes` and the compose file set them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

VARIABLES: Mapping[str, Mapping[str, str]] = {
    "a run and its commands": {
        "COSIM_TOKEN": "token of `--control`, `cosim view` and `cosim command`; default: a new one for each run",
        "COSIM_PASSWORD": "password of the dashboard; default: none at loopback, else one that `cosim view` prints",
        "COSIM_LIVE_TOKEN": "token of `cosim nodes tcp://HOST:PORT`; it stands in the run's `logs/*/control.json`",
        "COSIM_LOG": "level of `logs/run.log`: `DEBUG`, `INFO`, …",
        "COSIM_CACHE": "folder of compiled engines and installed tools; default: `~/.cache/continuum-cosim`",
        "COSIM_UNTRUSTED": "`1`: scenarios are data alone, as with `--untrusted`",
        "COSIM_PRECOMPILE": "`0` while a wheel is built: without machine code, so that first runs compile",
        "COSIM_NS3": "folder `ns3` of the wheel to compile against; default: the installed one",
        "COSIM_METRICS": "`HOST:PORT` of metrics of any scenario that has the telemetry adapter",
    },
    "containers": {
        "COSIM_SET": "values of the scenario to override, `KEY=VALUE …` as in a shell",
        "COSIM_RUNS": "folder of results on the host",
        "COSIM_PROJECT": "name by which who started the containers finds the run's folder",
        "COSIM_AFTERWARDS": "what the run says at its end about the other containers; empty: nothing",
        "COSIM_MEMORY": "memory of the run's container, 16g by default",
        "COSIM_NODE_MEMORY": "memory of the container of a node that states none, 4g by default",
        "COSIM_DASHBOARD": "port of the dashboard on the host's loopback, or several",
        "COSIM_PUBLISHED": "the same, for the dashboard",
        "COSIM_PROMETHEUS": "port of Prometheus on the host's loopback",
        "COSIM_GRAFANA": "port of Grafana on the host's loopback",
        "COSIM_PROMETHEUS_IMAGE": "image of Prometheus",
        "COSIM_GRAFANA_IMAGE": "image of Grafana",
        "COSIM_ATTACH": "HOST:PORT of the host at which machines attach that the run has not started",
        "COSIM_TAG": "tag of the images",
        "COSIM_MANAGEMENT": "network that the engines of several machines share",
        "COSIM_CA": "certificate file that builds of images trust as well",
    },
    "the run, set by what starts its real nodes": {
        "COSIM_NETWORK": "address of the network service for link states",
        "COSIM_REPORTS": "address of its reports",
        "COSIM_GATEWAY": "address at which agents of nodes attach",
        "COSIM_OUTSIDE": "address at which machines attach that the run has not started",
        "COSIM_VEHICLES": "address at which programs of vehicles attach",
        "COSIM_KEYS": "folder of keys of all nodes and of the run",
        "COSIM_RUN": "the run that a program belongs to, so that what a killed run leaves can be ended",
    },
    "programs of nodes": {
        "COSIM_NODE": "name of the node",
        "COSIM_HOST": "address of the host, for a node with an uplink",
        "COSIM_KEY": "file with the node's private key, for its agent",
        "COSIM_VEHICLES_KEY": "file with the node's private key, for its autopilot",
        "COSIM_MAVLINK": "TCP and UDP port for MAVLink tools, `5760,14550`; 0: none",
        "COSIM_CORES": "cores that the scenario gives the node",
        "COSIM_FORWARD": "inference service on the node's loopback, up to the kernel's name",
        "COSIM_CALLS": "networks (CIDR, by spaces) of the nodes whose services tasks may call",
        "COSIM_WEIGHTS": "folder of the weights of models; default: `/var/lib/cosim/weights`",
    },
    "sidecars": {
        "COSIM_SOCKET": "Unix socket of the network service",
        "COSIM_INTERFACES": "interfaces to make, by spaces",
        "COSIM_NEIGHBOURS": "addresses of neighbours, by spaces",
        "COSIM_NETWORKS": "networks that are emulated, by spaces",
        "COSIM_KERNEL": "what the kernel imposes: `netem` or `rates`",
        "COSIM_UNDERLAY": "host over whose network tunnels go",
        "COSIM_FORWARDS": "`1`: the node passes on packets for others",
        "COSIM_REACH": "hosts on the management network that the node may reach, by spaces",
        "COSIM_TRUNK": "secret of all machines whose nodes are in one run",
        "COSIM_UPLINK": "address of the host, or `router`, where uplinks of nodes end",
    },
    "tools of others": {
        "CC": "C compiler of the frame switch",
        "CXX": "C++ compiler of the ns-3 engine, as `g++` or `ccache g++`",
        "SUMO_HOME": "SUMO's own folder, where it is not installed as a package",
        "XDG_CACHE_HOME": "the user's cache folder, when `COSIM_CACHE` is not set",
    },
}
NAMES = frozenset(name for group in VARIABLES.values() for name in group)


def text(name: str, default: str = "", environment: Mapping[str, str] | None = None) -> str:
    """The value of a variable, without blanks around it; `default` when it is not set or empty.

    `environment` is read instead of that of this process. Raises `KeyError` for a variable that is not listed here.
    """
    if name not in NAMES:
        raise KeyError(f"{name} is no variable of this product")
    return (os.environ if environment is None else environment).get(name, "").strip() or default


def variable(name: str) -> str:
    """The value of a variable as it is, "" when it is not set. Raises `KeyError` for one that is not listed here."""
    if name not in NAMES:
        raise KeyError(f"{name} is no variable of this product")
    return os.environ.get(name, "")


def inherited(**more: str) -> dict[str, str]:
    """The environment for a program that an adapter starts: ours, and `more`."""
    return {**os.environ, **more}


def cache() -> Path:
    """Folder for generated files: `COSIM_CACHE`, else `continuum-cosim` in the user's cache folder."""
    if variable("COSIM_CACHE"):
        return Path(variable("COSIM_CACHE"))
    base = variable("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "continuum-cosim"
