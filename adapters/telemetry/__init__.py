"""What nodes are doing, as Prometheus endpoints and to an OTLP collector."""

from cosim.contract.adapter import AdapterKind, Ports, Read

SIGNALS = ("host", "machine", "battery", "resources", "vehicle", "mobility", "link", "cell", "traffic")

ADAPTER = AdapterKind(
    name="telemetry",
    summary="shows nodes as /metrics endpoints of their own and reports to an OpenTelemetry collector",
    config="cosim.adapters.telemetry.config:TelemetryConfig",
    factory="cosim.adapters.telemetry.adapter:TelemetryAdapter",
    check="cosim.adapters.telemetry.check:problems",
    listens="cosim.adapters.telemetry.check:listens",
    acts_on=frozenset(),
    outside="its endpoints serve others",
    services=("metrics",),
    ports=Ports(reads=tuple(Read(signal, required=False) for signal in SIGNALS)),
    example="""\
telemetry:
  nodes: [edge-*]
  service: smart-farm
""",
)
