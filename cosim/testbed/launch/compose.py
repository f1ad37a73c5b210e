"""A scenario's real nodes as services of a compose file.

Per node two services: a sidecar that owns the network namespace and may change it, and the node,
which joins the namespace and may do nothing special. Besides them the run itself, the network
service that moves the packets, and the dashboard.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.medium import UPLINK, WIRE
from cosim.contract.node_keys import ARDUPILOT
from cosim.scenario.plan.plan import Plan
from cosim.testbed.emulation.routing import FORWARDING
from cosim.testbed.inference import NETWORKS as NEURAL
from cosim.testbed.launch.carrier import Carrier, carrier
from cosim.testbed.launch.elsewhere import take_out
from cosim.testbed.launch.keys import GATEWAY as GATEWAY_KEYS
from cosim.testbed.launch.keys import NODES, PRIVATE
from cosim.testbed.launch.observability import INFERENCE, PUBLICATION, observed
from cosim.testbed.launch.observability import SERVICES as OBSERVERS
from cosim.testbed.launch.observability import services as observers
from cosim.testbed.launch.programs import OURS, Program, closed, host_end, neighbours, programs, software, unnamed

SERVICES = ("orchestrator", "network", "dashboard", "keys", "uplink", *OBSERVERS)  # besides those of nodes
PUBLISHED = 5600  # frames for observers, who have a network of their own: nodes see what they would see
LINKS = 5601  # link states, from the run to the network service
REPORTS = 5602  # what it reports
VEHICLES = 5603  # grants of time, to the programs of vehicles
GATEWAY = 5604  # live nodes
OUTSIDE = 5606  # machines that attach and that the run has not started
NAMESPACE = "continuum-cosim/"  # of our images
SOCKETS = "/run/cosim"
PROCESSES = 2048  # of a container; a fork bomb in a node ends there
KEY = "/run/cosim-key"  # folder with a node's private key
_AFTER_KEYS = {"keys": {"condition": "service_completed_successfully"}}
_SELDOM = {"interval": "10s", "timeout": "5s", "retries": 3}  # of checks that nothing waits for
_RARELY = {"interval": "30s", "timeout": "10s", "start_period": "10s"}  # each starts a Python, of many nodes
_SHOWS = "import socket as s; s.create_connection(('127.0.0.1', 8080), 4)"  # the page may ask for a password
_LOOK = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{INFERENCE}/health', timeout=8)"
_HEALTHY = {"test": ["CMD", "python3", "-c", _LOOK]}
# Tunnels between sidecars add a head to each frame, and what is in them is as long as elsewhere.
LONGER = {"driver_opts": {"com.docker.network.driver.mtu": "1550"}}
# `docker compose up` goes on after the run, as long as any container does.
AFTERWARDS = "the other containers go on: Ctrl-C stops them, `docker compose down --volumes` removes them"
HEAD = """\
# The containers of a scenario: written by `cosim render`, not by hand.
# Two services per real node: NODE-net owns its network interfaces, NODE is its software and has no privileges.
"""


def checkout(near: Path) -> Path | None:
    """The checkout that images can be built from: the one around `near`, or the one that this module lies in."""
    for start in (near.resolve(), Path(__file__).resolve()):
        for folder in start.parents:
            if (folder / "containers" / "cosim" / "Dockerfile").is_file():
                return folder
    return None


def render(
    plan: Plan,
    scenario: Path,
    beside: Path,
    repository: Path | None,
    overrides: Sequence[str] = (),
    options: Sequence[str] = (),
) -> str:
    """The compose file of `plan`, to be written into the folder `beside`.

    `scenario` is the scenario's file, `repository` the checkout that the images are built from, or None
    when they are there already; `overrides` are KEY=VALUE, `options` words such as --no-report, both passed on
    to `cosim run`. Raises `ScenarioError` when a node cannot be real, or its links cannot be carried as the
    scenario wants.
    """
    return _written(_document(plan, scenario, beside, repository, overrides, options))


def divided(
    plan: Plan,
    scenario: Path,
    beside: Path,
    repository: Path | None,
    overrides: Sequence[str],
    elsewhere: Mapping[str, Sequence[str]],
) -> tuple[str, dict[str, str]]:
    """The compose file of the machine with the run, and those of other machines by their name in `elsewhere`, which
    lists the nodes of each. All have the project name of the scenario, so that volumes of keys have the same name on
    every machine. Otherwise as `render`.
    """  # fmt: skip
    document = _document(plan, scenario, beside, repository, overrides)
    others = take_out(document, elsewhere)
    if carrier(plan, "containers").kernel:
        hint = "take backend linkd"
        raise ScenarioError(Problem("traffic control carries no links between machines", "adapters.network", hint=hint))
    named = {name: {"name": plan.name, **other} for name, other in others.items()}
    return _written({"name": plan.name, **document}), {name: _written(one) for name, one in named.items()}


def _document(
    plan: Plan,
    scenario: Path,
    beside: Path,
    repository: Path | None,
    overrides: Sequence[str],
    options: Sequence[str] = (),
) -> dict[str, Any]:
    nodes = programs(plan.scene)
    taken = [
        Problem(
            f"node '{node.node}' has a wired link and 'ports': a container with ports has a card "
            f"'{WIRE.interface}' of its own",
            f"nodes.{node.node}.runs.ports",
            hint="leave 'ports' out, or show those of a node without wired links",
        )
        for node in nodes
        if node.ports and WIRE.interface in node.names
    ]
    taken += [
        Problem(
            f"node '{node.node}' has 'ports' and an 'uplink': answers to who comes by the ports would leave by "
            "the uplink",
            f"nodes.{node.node}.runs.ports",
            hint="leave one of them out",
        )
        for node in nodes
        if node.ports and UPLINK.interface in node.names
    ]
    used = {*SERVICES, *(f"{node.node}-net" for node in nodes)}
    taken += [
        Problem(
            f"a container's node cannot be called '{node.node}': the compose file has such a service",
            f"nodes.{node.node}",
            hint="give it another name",
        )
        for node in nodes
        if node.node in used
    ]
    taken += unnamed(nodes)
    if taken:
        raise ScenarioError(taken)
    carried = carrier(plan, "containers")
    variants = ["sumo"] if any(adapter.use == "sumo" for adapter in plan.adapters) else []
    variants += [carried.engine] if carried.engine else []
    made = _Images(None if repository is None else _relative(repository, beside), variants, _neural(plan))
    folder, file = _relative(scenario.parent, beside), scenario.name
    runs = _relative(repository or scenario.parent, beside) + "/runs"
    shown = observed(plan, nodes)
    services: dict[str, Any] = {
        "orchestrator": {
            **made.cosim(),
            "command": [
                "run", _text(f"/scenario/{file}"), "--nodes", "containers", "--publish-at",
                f"tcp://{PUBLICATION}:{PUBLISHED}", "--out", "/results",
                *(part for text in overrides for part in ("--set", _text(text))), *options,
            ],
            "user": "0:0",  # gives up root for the owner of /results before it does anything else
            **_bare("CHOWN", "KILL", "SETGID", "SETUID"),  # KILL: the init process passes signals on to that owner
            "environment": {
                "COSIM_NETWORK": f"tcp://network:{LINKS}",
                "COSIM_REPORTS": f"tcp://network:{REPORTS}",
                "COSIM_VEHICLES": f"tcp://0.0.0.0:{VEHICLES}",
                "COSIM_GATEWAY": f"tcp://0.0.0.0:{GATEWAY}",
                "COSIM_SET": "${COSIM_SET:-}",
                "COSIM_RUNS": "${COSIM_RUNS:-runs}",  # what /results is called outside
                "COSIM_PROJECT": "${COSIM_PROJECT:-}",
                "COSIM_AFTERWARDS": f"${{COSIM_AFTERWARDS-{AFTERWARDS}}}",
                **shown.environment,
            },
            "volumes": [f"{folder}:/scenario:ro", "${COSIM_RUNS:-" + runs + "}:/results"],
            "networks": {"control": {}, "management": {}, "observers": {"aliases": [PUBLICATION]}},
            # It waits for the service and all sidecars itself; a check of health before would take seconds.
            "depends_on": {"network": {"condition": "service_started"}},
            "init": True,
            "stop_grace_period": "60s",  # to write the report of what there is
            "mem_limit": "${COSIM_MEMORY:-16g}",
        },
        "network": {
            **made.program("-m", "cosim.testbed.emulation.service"),
            **_bare(),
            "user": "1000:1000",
            "command": [
                "--sidecars", f"{SOCKETS}/links.sock", "--mode", "666", "--commands", f"tcp://0.0.0.0:{LINKS}",
                "--reports", f"tcp://0.0.0.0:{REPORTS}",
                *(_text(word) for word in carried.arguments),
            ],
            "volumes": [f"sockets:{SOCKETS}"],
            "networks": ["control"],  # where no node is: its words decide what links are like
            "healthcheck": {"test": ["CMD", "test", "-S", f"{SOCKETS}/links.sock"], **_SELDOM},
            "restart": "unless-stopped",
            "init": True,
            "mem_limit": "512m",
        },
        "dashboard": {
            **made.cosim(),
            "command": ["view", f"tcp://{PUBLICATION}:{PUBLISHED}", "--host", "0.0.0.0", "--port", "8080"],
            **_bare(),
            "environment": {
                "COSIM_PUBLISHED": "${COSIM_DASHBOARD:-8080-8099}",  # the port outside
                "COSIM_PASSWORD": "${COSIM_PASSWORD:-}",
            },
            "ports": ["127.0.0.1:${COSIM_DASHBOARD:-8080-8099}:8080"],
            "networks": ["observers", "front"],
            "depends_on": ["orchestrator"],
            "healthcheck": {"test": ["CMD", "python3", "-c", _SHOWS], **_SELDOM},
            "restart": "unless-stopped",
            "init": True,
            "mem_limit": "1g",
        },
    }  # fmt: skip
    listen = _outside(plan)
    if listen:
        orchestrator = services["orchestrator"]
        orchestrator["environment"]["COSIM_OUTSIDE"] = f"tcp://0.0.0.0:{OUTSIDE}"
        orchestrator["ports"] = [f"${{COSIM_ATTACH:-{listen}}}:{OUTSIDE}"]
        orchestrator["networks"]["front"] = {}
    attached = [node.node for node in nodes if node.keyed]
    if attached:
        services["keys"] = _keys(attached, folder, made)
        orchestrator = services["orchestrator"]
        orchestrator["environment"]["COSIM_KEYS"] = str(GATEWAY_KEYS)
        orchestrator["volumes"].append(f"keys:{GATEWAY_KEYS}:ro")
        orchestrator["depends_on"] |= _AFTER_KEYS
    for node in nodes:
        watched = repository is not None and f"{node.node}-net" in shown.hosts
        services[f"{node.node}-net"] = _sidecar(node, nodes, made, carried, watched)
        services[node.node] = _node(node, made)
    end = host_end(nodes)
    if end is not None:
        services["uplink"] = _uplink(end, nodes, made, carried)
    for name, service in services.items():
        # `docker compose up` shows the output of the run and of others' programs; `docker compose logs` shows the rest.
        if name not in ("orchestrator", "dashboard") and service["image"].startswith(NAMESPACE):
            service["attach"] = False
    document: dict[str, Any] = {
        "services": services,
        "networks": {
            "control": {"internal": True},
            "management": {"internal": True, **(LONGER if carried.kernel else {})},
            "observers": {"internal": True},
            "front": {},
            **({"ports": {}} if any(node.ports for node in nodes) else {}),
            **({"uplink": {}} if end is not None else {}),
        },
        "volumes": {
            "sockets": {"driver_opts": {"type": "tmpfs", "device": "tmpfs", "o": "mode=1777"}},
            **{name: {} for name in (["keys", *(f"key-{node}" for node in attached)] if attached else [])},
        },
        **made.secrets(),
    }
    if not nodes:
        _simulate(document)
    if shown.targets and repository is not None:  # its settings are in the checkout
        settings = f"{_relative(repository, beside)}/containers/observability"
        for part, more in observers(shown, settings, _bare()).items():
            document.setdefault(part, {}).update(more)
    return document


def _simulate(document: dict[str, Any]) -> None:
    """Take out what only real nodes need: the run simulates all of them, as without containers."""
    run = document["services"]["orchestrator"]
    run["command"] = [word for word in run["command"] if word not in ("--nodes", "containers")]
    for name in ("COSIM_NETWORK", "COSIM_REPORTS", "COSIM_VEHICLES", "COSIM_GATEWAY"):
        del run["environment"][name]
    del document["services"]["network"], document["volumes"], run["depends_on"]
    for name in ("control", "management"):
        del document["networks"][name], run["networks"][name]


def _written(document: dict[str, Any]) -> str:
    yaml = YAML()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.default_flow_style = None
    yaml.width = 120
    yaml.representer.ignore_aliases = lambda _data: True
    text = io.StringIO()
    yaml.dump(document, text)
    return HEAD + text.getvalue()


def _outside(plan: Plan) -> str:
    """Where machines attach that the run does not start, as compose writes ports of the host: HOST:PORT, HOST: for a
    free port; "" when no node is for such a machine.
    """  # fmt: skip
    if not any(node.live is not None and node.runs is None for _, node in plan.scene.computers()):
        return ""
    for adapter in plan.adapters:
        if adapter.use == "live":
            host, _, port = str(adapter.config.get("listen", "")).removeprefix("tcp://").rpartition(":")
            return f"{'0.0.0.0' if host == '*' else host or '127.0.0.1'}:{'' if port == '*' else port}"
    return ""


def _neural(plan: Plan) -> bool:
    """Whether tasks of the scenario are computed by neural networks, which need torch, of a gigabyte."""
    blocks = [adapter.config.get("offload") or {} for adapter in plan.adapters if adapter.use == "live"]
    return any(block.get("kernel") in NEURAL for offload in blocks for block in offload.values())


def _keys(nodes: list[str], scenario: str, made: _Images) -> dict[str, Any]:
    """Runs once, without a network: makes each node's private key in a volume that no other node gets."""
    return {
        **made.program("-m", "cosim.testbed.launch.keys", "--owner-of", "/scenario"),
        "command": nodes,
        "user": "0:0",  # to give every key to its reader
        **_bare("CHOWN"),
        "network_mode": "none",
        "volumes": [f"{scenario}:/scenario:ro", f"keys:{GATEWAY_KEYS}", *(f"key-{n}:{NODES}/{n}" for n in nodes)],
        "mem_limit": "256m",
    }


def _relative(path: Path, start: Path) -> str:
    """`path` as compose reads it: relative paths begin with a dot."""
    found = Path(os.path.relpath(path.resolve(), start.resolve())).as_posix()
    return found if found.startswith(".") else f"./{found}"


def _text(given: str) -> str:
    """Text of a scenario, for compose: no variable is substituted in it, and it is quoted unless that is needless.

    Plain text that begins with a colon would be read as something else inside braces.
    """
    kept = given.replace("$", "$$")
    return kept if re.fullmatch(r"[\w./-][\w./:@=+-]*", kept, re.ASCII) else DoubleQuotedScalarString(kept)


class _Images:
    """The images, and how they are built when there is a checkout."""

    def __init__(self, repository: str | None, variants: Sequence[str], neural: bool) -> None:
        """`variants`: what the programs need besides, "sumo", "ns3"; `neural`: tasks are computed by networks."""
        self._repository, self._variants, self._neural = repository, variants, neural
        self._built: set[str] = set()

    def node(self, image: str) -> dict[str, Any]:
        """Image and program of a node's software."""
        if image not in OURS:
            return {"image": image}
        if image == "vedgenode" and self._neural:
            return self._named("vedgenode", ())
        found = self.program(*OURS[image])
        return found | {"healthcheck": {**_HEALTHY, **_RARELY}} if image == "vedgenode" else found

    def program(self, *arguments: str) -> dict[str, Any]:
        """The image that has all programs, and which one is started: the arguments of Python."""
        return {**self.cosim(), "entrypoint": ["python3", *arguments]}

    def cosim(self) -> dict[str, Any]:
        """The image that has all programs, and starts a run."""
        return self._named("cosim", self._variants)

    def _named(self, name: str, variants: Sequence[str]) -> dict[str, Any]:
        """Never pulled: an image registered elsewhere by this name would run with the sidecars' capability."""
        tag = "-".join(("${COSIM_TAG:-latest}", *variants))
        sealed = {"read_only": True, "tmpfs": ["/tmp"]}
        found: dict[str, Any] = {"image": f"{NAMESPACE}{name}:{tag}", "pull_policy": "never", **sealed}
        if self._repository is None or name in self._built:  # once is enough
            return found
        self._built.add(name)
        found["build"] = {
            "context": self._repository,
            "dockerfile": f"containers/{name}/Dockerfile",
            "args": {
                "BASE_IMAGE": "${BASE_IMAGE:-debian:bookworm-slim}",
                **{f"WITH_{variant.upper()}": "1" for variant in variants},
            },
            "secrets": ["ca"],
        }
        return found

    def secrets(self) -> dict[str, Any]:
        """Certificates for a network that intercepts TLS; /dev/null: none."""
        return {"secrets": {"ca": {"file": "${COSIM_CA:-/dev/null}"}}} if self._repository is not None else {}


def _bare(*capabilities: str) -> dict[str, Any]:
    found: dict[str, Any] = {"cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"], "pids_limit": PROCESSES}
    if capabilities:
        found["cap_add"] = list(capabilities)
    return found


def _sidecar(
    node: Program, nodes: tuple[Program, ...], made: _Images, carried: Carrier, watched: bool
) -> dict[str, Any]:
    # Nodes that are not reached have a name too, or the engine would return their management address instead.
    service: dict[str, Any] = {
        **made.cosim(),
        "entrypoint": ["keep"],
        "user": "0:0",  # of the container, without any right but this one
        **_bare("NET_ADMIN"),
        "devices": ["/dev/net/tun"],
        "hostname": node.node,
        "sysctls": {
            # Ping without a capability. In a user namespace (rootless engines) groups end there.
            "net.ipv4.ping_group_range": "0 65535",
            **(
                {f"net.ipv4.{name.replace('/', '.')}": value for name, value in FORWARDING.items()}
                if node.forwards
                else {}
            ),
        },
        "environment": {
            "COSIM_NODE": node.node,
            "COSIM_INTERFACES": " ".join(i.text for i in node.interfaces),
            "COSIM_NEIGHBOURS": " ".join(f"{i.address},{i.mac}" for i in neighbours(node, nodes)),
            "COSIM_NETWORKS": closed(nodes, uplinks=host_end(nodes) is not None),
            "COSIM_SOCKET": f"{SOCKETS}/links.sock",
            "COSIM_REACH": " ".join(("orchestrator", *(OBSERVERS[:1] if watched else ()))),
            **({"COSIM_FORWARDS": "1"} if node.forwards else {}),
            **(
                {"COSIM_KERNEL": f"${{COSIM_KERNEL:-{carried.kernel}}}", "COSIM_UNDERLAY": "orchestrator"}
                if carried.kernel
                else {}
            ),
        },
        "extra_hosts": [f"{other.node}:{node.reached(other) or other.interfaces[0].address}" for other in nodes],
        "volumes": [f"sockets:{SOCKETS}"],
        "networks": ["management", "ports"] if node.ports else ["management"],
        "depends_on": {"network": {"condition": "service_started"}},
        # Its interfaces are there while they are attached.
        "healthcheck": {"test": ["CMD", "test", "-d", f"/sys/class/net/{node.interfaces[0].name}"], **_SELDOM},
        "restart": "unless-stopped",
        "init": True,
        "mem_limit": "64m",
    }
    if node.ports:
        service["ports"] = [f"127.0.0.1::{port}" for port in node.ports]
    return service


def _uplink(end: Program, nodes: tuple[Program, ...], made: _Images, carried: Carrier) -> dict[str, Any]:
    """The end of uplinks: a sidecar on a network of its own, whose router is the host."""
    service = _sidecar(end, nodes, made, carried, watched=False)
    said = {"COSIM_UPLINK": "router", "COSIM_FORWARDS": "1", "COSIM_NETWORKS": closed(nodes)}
    service["environment"] = {name: v for name, v in service["environment"].items() if name != "COSIM_REACH"} | said
    service["sysctls"] |= {f"net.ipv4.{name.replace('/', '.')}": value for name, value in FORWARDING.items()}
    service |= {"hostname": "uplink", "networks": ["uplink"]}
    del service["extra_hosts"]
    return service


def _node(node: Program, made: _Images) -> dict[str, Any]:
    service: dict[str, Any] = {
        **made.node(node.image),
        **_bare(),
        "network_mode": f"service:{node.node}-net",
        "environment": {
            **software(node),
            "COSIM_VEHICLES": f"tcp://orchestrator:{VEHICLES}",
            "COSIM_GATEWAY": f"tcp://orchestrator:{GATEWAY}",
            **node.key(f"{KEY}/{PRIVATE}"),
            **{name: _text(value) for name, value in node.environment},
        },
        "depends_on": [f"{node.node}-net"],
        "restart": "unless-stopped",
        "init": True,
    }
    if node.keyed:
        service["volumes"] = [f"key-{node.node}:{KEY}:ro"]
        service["depends_on"] = {f"{node.node}-net": {"condition": "service_started"}, **_AFTER_KEYS}
    if node.image == ARDUPILOT:
        service["volumes"] = [*service.get("volumes", ()), *(_text(f"{file}:{file}:ro") for file in node.files)]
    if node.command:
        service["command"] = [_text(word) for word in node.command]
    service["mem_limit"] = node.memory or "${COSIM_NODE_MEMORY:-4g}"
    if node.cores:  # a quota may be above what the host has; `cpus` may not
        service["cpu_period"], service["cpu_quota"] = 100_000, 100_000 * node.cores
    return service
