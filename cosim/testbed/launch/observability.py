"""The profile `observability` of a compose file: Prometheus scrapes programs that expose metrics, Grafana draws them.

Neither is started by default, and both come in their makers' images.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml.scalarstring import LiteralScalarString

from cosim.scenario.plan.plan import Plan
from cosim.talk.telemetry.ports import LISTEN, chosen, ports
from cosim.testbed.launch.programs import Program

PROFILE = "observability"
SERVICES = ("prometheus", "grafana")
IMAGES = {
    "prometheus": "${COSIM_PROMETHEUS_IMAGE:-prom/prometheus:v3.5.0}",
    "grafana": "${COSIM_GRAFANA_IMAGE:-grafana/grafana:11.6.0}",
}
PUBLICATION = "publication"  # the run, on the network of observers
_SHOWN = "prometheus-shown"  # Prometheus, on the network of its published port: nodes that it asks cannot ask it
FIRST = 9100  # port of the first node's metrics where the scenario names none
INFERENCE = 8500  # port of the service of `vedgenode`
EVERY = "2s"  # of the wall clock, between two looks


@dataclass(frozen=True, slots=True)
class Observed:
    """Who shows metrics: addresses in the project's network, by job."""

    environment: dict[str, str] = field(default_factory=dict)  # of the run
    targets: dict[str, list[str]] = field(default_factory=dict)

    @property
    def hosts(self) -> frozenset[str]:
        """Who is asked for metrics."""
        return frozenset(address.partition(":")[0] for addresses in self.targets.values() for address in addresses)

    @property
    def scrape(self) -> str:
        """Prometheus' own settings, as YAML."""
        lines = ["global:", f"  scrape_interval: {EVERY}", "scrape_configs:"]
        for job, addresses in self.targets.items():
            lines += [f"  - job_name: {job}", "    static_configs:", f"      - targets: {json.dumps(addresses)}"]
        return "\n".join(lines) + "\n"


def observed(plan: Plan, nodes: Sequence[Program]) -> Observed:
    """What the scenario's adapter `telemetry` shows of all nodes, and what real edge nodes show themselves."""
    environment: dict[str, str] = {}
    targets: dict[str, list[str]] = {}
    shown: list[str] = []
    for adapter in plan.adapters:
        if adapter.use != "telemetry":
            continue
        first = adapter.config.get("prometheus")
        names = chosen([node.id for node in plan.scene.nodes], adapter.config.get("nodes") or ["*"])
        if first is None and environment:
            continue  # two of them cannot have the same ports
        try:
            taken = ports(names, FIRST if first is None else int(first))
        except ValueError:
            continue  # too many; where the scenario names a port, the run reports it
        if first is None:
            environment[LISTEN] = f"{PUBLICATION}:{FIRST}"
        else:
            environment.setdefault(LISTEN, f"{PUBLICATION}:")
        shown += [f"{PUBLICATION}:{port}" for port in taken.values() if port]
    if shown:
        targets["run"] = shown
    inference = [f"{node.node}-net:{INFERENCE}" for node in nodes if node.image == "vedgenode"]
    if inference:
        targets["inference"] = inference
    return Observed(environment, targets)


def services(found: Observed, settings: str, bare: dict[str, Any]) -> dict[str, Any]:
    """The services and what belongs to them, as parts of a compose file.

    `settings` is the folder `containers/observability` as compose sees it, `bare` what takes rights from a service.
    """
    provisioning = "/etc/grafana/provisioning"
    return {
        "services": {
            "prometheus": {
                "image": IMAGES["prometheus"],
                "profiles": [PROFILE],
                **bare,
                "command": [
                    "--config.file=/etc/prometheus/prometheus.yml",
                    "--storage.tsdb.path=/prometheus",
                    f"--web.listen-address={_SHOWN}:9090",
                ],
                "configs": [{"source": "scrape", "target": "/etc/prometheus/prometheus.yml"}],
                "volumes": ["metrics:/prometheus"],
                "ports": ["127.0.0.1:${COSIM_PROMETHEUS:-9090-9099}:9090"],
                "networks": {"management": {}, "observers": {}, "front": {"aliases": [_SHOWN]}},
                "depends_on": ["orchestrator"],
                "restart": "unless-stopped",
                "mem_limit": "1g",
            },
            "grafana": {
                "image": IMAGES["grafana"],
                "profiles": [PROFILE],
                **bare,
                "environment": {
                    # Anyone who reaches the port may look; no one may change anything.
                    "GF_AUTH_ANONYMOUS_ENABLED": "true",
                    "GF_AUTH_BASIC_ENABLED": "false",
                    "GF_AUTH_DISABLE_LOGIN_FORM": "true",
                    "GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION": "true",
                    "GF_ANALYTICS_REPORTING_ENABLED": "false",
                    "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
                    "GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES": "false",
                    "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH": f"{provisioning}/dashboards/nodes.json",
                },
                "volumes": [f"{settings}:{provisioning}:ro"],
                "ports": ["127.0.0.1:${COSIM_GRAFANA:-3000-3009}:3000"],
                "networks": ["front"],
                "depends_on": ["prometheus"],
                "restart": "unless-stopped",
                "mem_limit": "1g",
            },
        },
        "configs": {"scrape": {"content": LiteralScalarString(found.scrape)}},
        "volumes": {"metrics": {}},
    }
