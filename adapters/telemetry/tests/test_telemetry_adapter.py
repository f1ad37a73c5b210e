"""Metrics as others read them: Prometheus' own parser, and a collector on loopback."""

from __future__ import annotations

import http.server
import json
import math
import socket
import threading
import time
import urllib.error
import urllib.request
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from cosim.adapters.telemetry import ADAPTER
from cosim.adapters.telemetry.check import problems
from cosim.adapters.telemetry.config import TelemetryConfig
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Node, Scene
from cosim.contract.errors import SetupError
from cosim.contract.extras import how_to_install
from cosim.contract.frame import Frame
from cosim.contract.signals import CATALOGUE
from cosim.talk.telemetry.export import Sample, otlp, prometheus
from cosim.talk.telemetry.serve import Collector

SCENE = Scene.build((Node("uav", "uav", "device"), Node("edge-1", "edge", "edge"), Node("edge-2", "edge", "edge")))


CONTEXT = Context("telemetry", SCENE, 1.0, 10.0, (1,), ".", ".")


def started(tmp_path, services=None, **config):
    adapter = ADAPTER.build(TelemetryConfig.model_validate({"nodes": ["edge-*"], **config}))
    try:
        adapter.start(replace(CONTEXT, root=str(tmp_path), scratch=str(tmp_path), services=services or {}))
    except BaseException:
        adapter.close()
        raise
    return adapter


def frame(signal, slots, **given):
    columns = {c.name: np.array(given.get(c.name, [0] * len(slots)), c.dtype) for c in CATALOGUE[signal].columns}
    return Frame(signal, 1.0, np.array(slots, np.int32), columns)


INPUTS = Inputs({
    "host": [frame("host", [1, 2], running=[4, 0], power=[3.5, 2.5], energy=[70.0, 50.0], up=[True, False])],
    "machine": [frame("machine", [2], state=[1], memory=[math.inf])],
    "link": [frame("link", [0], rsrp=[-90.0])],
    "resources": [frame("resources", [1], temperature=[math.nan], meter=[2])],
})  # fmt: skip


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def parsed(text):
    parser = pytest.importorskip("prometheus_client.parser")
    return {
        (sample.name, sample.labels.get("state", "")): (sample.value, sample.labels)
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_node_has_an_endpoint_of_its_own(tmp_path):
    adapter = started(tmp_path, prometheus=0, service="farm")
    try:
        assert adapter.step(0.0, Inputs()) == ()
        adapter.step(60.0, INPUTS)
        urls = adapter.finish()["endpoints"]
        assert urls.keys() == {"edge-1", "edge-2"}
        one, two = (parsed(get(urls[name])) for name in ("edge-1", "edge-2"))
        value, labels = one["host_power_watts", ""]
        assert value == 3.5
        assert labels == {
            "service_name": "farm", "service_instance_id": "edge-1", "service_hostname": "edge-1",
            "node_name": "edge-1",
        }  # fmt: skip
        assert one["host_energy_joules_total", ""][0] == 70.0
        assert one["node_load1", ""][0] == pytest.approx(4 * (1 - math.exp(-1)))
        assert one["cosim_simulated_time_seconds", ""][0] == 60.0
        assert one["cosim_real_time_factor", ""][0] > 1
        assert "resources_temperature_celsius" not in {name for name, _ in one}
        assert two["host_up", ""][0] == 0.0
        assert two["machine_state", "asleep"][0] == 1.0
        assert two["machine_memory_bytes", ""][0] == math.inf
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(urls["edge-1"].replace("/metrics", "/"))
        with pytest.raises(urllib.error.HTTPError, match="405"):
            urllib.request.urlopen(urls["edge-1"], data=b"x", timeout=5)
    finally:
        adapter.close()
        adapter.close()


def test_where_endpoints_are_may_be_told_by_whoever_starts_the_run(tmp_path):
    adapter = started(tmp_path, {"metrics": "127.0.0.2:0"})
    try:
        assert {host for host, _ in adapter._endpoints.addresses.values()} == {"127.0.0.2"}
    finally:
        adapter.close()
    alone = {"metrics": "127.0.0.2:"}
    assert started(tmp_path, alone).finish()["endpoints"] == {}
    for host in ("127.0.0.1", None):
        adapter = started(tmp_path, alone, prometheus=0, host=host)
        try:
            assert {h for h, _ in adapter._endpoints.addresses.values()} == {host or "127.0.0.2"}
        finally:
            adapter.close()


def test_the_endpoint_outlives_bad_requests(tmp_path):
    adapter = started(tmp_path, prometheus=0)
    try:
        host, port = adapter._endpoints.addresses["edge-1"]
        for data in (b"\r\n\r\n", b"x" * 20_000, b"GET\r\n\r\n", b""):
            with socket.create_connection((host, port), timeout=5) as client:
                client.sendall(data)
        assert "cosim" not in get(f"http://{host}:{port}/metrics")
    finally:
        adapter.close()


def test_a_port_that_is_taken_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SetupError, match=f"cannot be shown at 127.0.0.1, ports from {port}"):
            started(tmp_path, prometheus=port)


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append((self.path, self.headers["Content-Type"], body))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        """Quiet."""


@pytest.fixture
def collector():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        server.bodies = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_collector_is_told(tmp_path, collector):
    adapter = started(
        tmp_path, otlp=f"http://127.0.0.1:{collector.server_address[1]}", interval="50 ms", service="farm"
    )
    adapter.step(60.0, INPUTS)
    end = time.monotonic() + 60
    while not collector.bodies and time.monotonic() < end:
        time.sleep(0.02)
    adapter.close()
    path, kind, body = collector.bodies[-1]
    assert (path, kind) == ("/v1/metrics", "application/json")
    one, two = json.loads(body)["resourceMetrics"]
    attributes = {pair["key"]: pair["value"]["stringValue"] for pair in one["resource"]["attributes"]}
    assert attributes == {
        "service.name": "farm", "service.instance.id": "edge-1", "service.hostname": "edge-1", "node_name": "edge-1"
    }  # fmt: skip
    metrics = {metric["name"]: metric for metric in one["scopeMetrics"][0]["metrics"]}
    assert metrics["host_power_watts"]["gauge"]["dataPoints"][0]["asDouble"] == 3.5
    assert metrics["host_power_watts"]["unit"] == "W"
    energy = metrics["host_energy_joules_total"]["sum"]
    assert (energy["isMonotonic"], energy["aggregationTemporality"]) == (True, 2)
    assert "machine_memory_bytes" not in json.dumps(two)  # JSON has no infinity


def test_the_body_is_what_the_protocol_says(tmp_path, collector):
    service = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
    from google.protobuf import json_format

    adapter = started(tmp_path, otlp=f"http://127.0.0.1:{collector.server_address[1]}/")
    adapter.step(1.0, INPUTS)
    adapter.close()  # sends what there is
    request = json_format.Parse(collector.bodies[-1][2], service.ExportMetricsServiceRequest())
    assert request.resource_metrics[0].scope_metrics[0].metrics[0].name


class Service:
    """The collector's side of OTLP/gRPC: takes metrics, and answers as it is told."""

    def __init__(self):
        self.requests, self.refused = [], 0

    def start(self):
        from concurrent import futures

        import grpc
        from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service
        from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as services

        def export(request, _):
            self.requests.append(request)
            partial = {"rejected_data_points": self.refused, "error_message": "no room"} if self.refused else {}
            return service.ExportMetricsServiceResponse(partial_success=partial)

        self._server = grpc.server(futures.ThreadPoolExecutor(1))
        servicer = type("Servicer", (services.MetricsServiceServicer,), {"Export": lambda _, *rest: export(*rest)})
        services.add_MetricsServiceServicer_to_server(servicer(), self._server)
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def stop(self):
        self._server.stop(0).wait()


@pytest.fixture
def grpc_collector():
    pytest.importorskip("grpc")
    pytest.importorskip("opentelemetry.proto")
    service = Service()
    service.start()
    yield service
    service.stop()


def test_a_collector_is_told_by_grpc_what_it_would_be_told_by_http(tmp_path, collector, grpc_collector):
    from google.protobuf import json_format

    found = []
    for url in (f"http://127.0.0.1:{collector.server_address[1]}", f"grpc://127.0.0.1:{grpc_collector.port}"):
        adapter = started(tmp_path, otlp=url, interval="1 min", service="farm")
        adapter.step(60.0, INPUTS)
        adapter.close()  # sends what there is
    found.append(json.loads(collector.bodies[-1][2]))
    (request,) = grpc_collector.requests
    found.append(json_format.MessageToDict(request))
    attributes = request.resource_metrics[0].resource.attributes
    assert {pair.key: pair.value.string_value for pair in attributes} == {
        "service.name": "farm", "service.instance.id": "edge-1", "service.hostname": "edge-1", "node_name": "edge-1"
    }  # fmt: skip
    metrics = {metric.name: metric for metric in request.resource_metrics[0].scope_metrics[0].metrics}
    assert metrics["host_power_watts"].gauge.data_points[0].as_double == 3.5
    assert metrics["host_energy_joules_total"].sum.is_monotonic
    assert metrics["host_energy_joules_total"].sum.data_points[0].as_double == 70.0
    names = [
        [metric["name"] for one in body["resourceMetrics"] for metric in one["scopeMetrics"][0]["metrics"]]
        for body in found
    ]
    assert names[0] == names[1]


def test_what_a_collector_refuses_by_grpc_counts_as_failed(tmp_path, grpc_collector, caplog):
    grpc_collector.refused = 3
    url = f"grpc://127.0.0.1:{grpc_collector.port}"
    collector = Collector(url, 60.0, lambda: otlp({"a": [Sample("x", 1.0)]}, "farm", 2, 1))
    collector.close()
    assert (collector.sent, collector.failed) == (0, 1)
    assert "it refuses 3 values: no room" in caplog.text


def test_what_grpc_needs_is_said_at_the_check(monkeypatch):
    config = TelemetryConfig(otlp="grpc://collector:43170")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (problem,) = problems(config, CONTEXT)
    assert (problem.path, problem.fatal) == ("adapters.telemetry.otlp", True)
    assert how_to_install("otlp") in problem.message
    (shown,) = problems(TelemetryConfig(otlp="http://collector:4318"), CONTEXT)
    assert shown.note
    assert shown.message == f"shows {len(CONTEXT.scene.nodes)} of {len(CONTEXT.scene.nodes)} nodes as 'continuum-cosim'"
    for url in ("grpc:/collector", "tcp://collector:4317", "grpc://collector:4317/path", "http://a:port", "grpc://:1"):
        with pytest.raises(ValidationError):
            TelemetryConfig(otlp=url)


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_collector_that_is_not_there_harms_nothing(tmp_path, scheme):
    if scheme == "grpc":
        pytest.importorskip("grpc")
        pytest.importorskip("opentelemetry.proto")
    adapter = started(tmp_path, otlp=f"{scheme}://127.0.0.1:1", interval="10 ms")
    adapter.step(1.0, INPUTS)
    end = time.monotonic() + 60
    while not adapter.finish()["failed_exports"] and time.monotonic() < end:
        time.sleep(0.02)
    summary = adapter.finish()
    assert summary["exports"] == 0
    assert summary["failed_exports"] > 0
    adapter.close()


def test_labels_and_help_are_escaped():
    text = prometheus([Sample("a", 1.0, meaning='say "hi"\n\\')], {"n": 'x"\\\n'}).decode()
    assert text == '# HELP a say "hi"\\n\\\\\n# TYPE a gauge\na{n="x\\"\\\\\\n"} 1.0\n'
