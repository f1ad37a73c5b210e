"""The edge node's service: kernels that compute, a queue that is bounded, answers and metrics that add up."""

from __future__ import annotations

import threading

import numpy as np
import pytest

pytest.importorskip("httpx2")
pytest.importorskip("prometheus_client")
pytest.importorskip("starlette")

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from cosim.testbed.inference.kernels import Kernel, kernels
from cosim.testbed.inference.limits import limits, usable_cores
from cosim.testbed.inference.service import MOST_BYTES, application
from cosim.testbed.inference.station import RequestRefusedError, Station

PLAIN = {name: kernel for name, kernel in kernels().items() if name in ("matmul", "blur", "histogram", "vegetation")}


@pytest.fixture
def client():
    with TestClient(application(Station(PLAIN, 2, 10), "edge-1")) as client:
        yield client


@pytest.mark.parametrize("name", PLAIN)
@settings(max_examples=15, deadline=None)
@given(data=st.binary(max_size=400), size=st.integers(1, 24))
def test_kernels_take_any_bytes_and_say_the_same_twice(name, data, size):
    assert PLAIN[name].run(data, size) == PLAIN[name].run(data, size)


def test_kernels_compute_what_they_say():
    size = 4
    picture = np.random.default_rng(1).integers(0, 256, (3, size, size), dtype=np.uint8)
    first = picture[0].astype(np.float64) / 255
    assert PLAIN["matmul"].run(picture.tobytes(), size) == int(np.sum(first * first))
    assert PLAIN["blur"].run(bytes([51]), 8) == 200  # the mean of a plain picture is its colour
    green = np.zeros((3, size, size), np.uint8)
    green[1, :2] = 200
    assert PLAIN["vegetation"].run(green.tobytes(), size) == 500


def test_a_request_is_computed_and_timed(client):
    answer = client.post("/run/matmul?size=32", content=b"abc").json()
    assert answer["kernel"] == "matmul"
    assert answer["node"] == "edge-1"
    assert answer["result"] == PLAIN["matmul"].run(b"abc", 32)
    assert answer["computed"] > 0.0
    assert answer["queued"] >= 0.0


def test_a_worker_is_kept_as_long_as_is_asked(client):
    answer = client.post("/run/matmul?size=2&least=0.5", content=b"abc").json()
    assert answer["computed"] >= 0.5
    assert answer["cpu"] < 0.5
    assert client.post("/run/matmul?size=2&least=0", content=b"abc").json()["computed"] < 0.5


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/run/matmul?size=0", 422, "between"),
        ("/run/matmul?size=5000", 422, "between"),
        ("/run/matmul?size=big", 422, "whole number"),
        ("/run/matmul?size=9&least=-1", 422, "number of seconds up to 3600"),
        ("/run/matmul?size=9&least=3601", 422, "number of seconds up to 3600"),
        ("/run/magic", 404, "there are matmul"),
    ],
)
def test_wrong_requests_are_told_why(client, path, status, said):
    answer = client.post(path, content=b"")
    assert answer.status_code == status
    assert said in answer.json()["error"]


def test_an_endless_input_is_cut_off(client):
    assert client.post("/run/matmul", content=b"x" * (MOST_BYTES + 1)).status_code == 413


def test_the_queue_is_bounded_and_visible():
    gate = threading.Event()
    station = Station({"wait": Kernel("wait", "until it is told", 1, lambda data, size: int(gate.wait(10)))}, 2, 3)
    futures = [station.submit("wait", None, b"") for _ in range(5)]
    assert (station.running, station.waiting) == (2, 3)
    with pytest.raises(RequestRefusedError) as refused:
        station.submit("wait", None, b"")
    assert refused.value.status == 503
    gate.set()
    answers = [future.result(10) for future in futures]
    assert [answer.waiting for answer in answers] == [0, 0, 0, 1, 2]
    station.close()
    assert (station.running, station.waiting, station.refused) == (0, 0, 1)
    assert station.counts["wait"].served == 5


def test_a_failing_kernel_is_counted_and_leaves_its_place():
    def fails(data, size):
        raise ValueError("no")

    with TestClient(application(Station({"bad": Kernel("bad", "", 1, fails)}, 1, 0), "edge")) as client:
        for _ in range(3):
            answer = client.post("/run/bad", content=b"")
            assert answer.status_code == 500
            assert "no" in answer.json()["error"]
        assert client.get("/status").json()["kernels"]["bad"]["failed"] == 3


def test_metrics_are_read_by_a_prometheus_client(client):
    for _ in range(3):
        client.post("/run/blur?size=16", content=b"1234")
    text = client.get("/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    served = families["inference_requests"].samples[0]
    assert served.value == 3
    assert served.labels == {
        "node_name": "edge-1", "service_name": "inference", "service_instance_id": "edge-1",
        "service_hostname": "edge-1", "kernel": "blur",
    }  # fmt: skip
    assert families["inference_received_bytes"].samples[0].value == 12
    buckets = [s for s in families["inference_response_seconds"].samples if s.name.endswith("_bucket")]
    assert buckets[-1].labels["le"] == "+Inf"
    assert buckets[-1].value == 3


def test_limits_of_both_versions_of_control_groups(tmp_path):
    assert limits(tmp_path).cores == float("inf")
    (tmp_path / "cpu").mkdir()
    (tmp_path / "memory").mkdir()
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / "memory/memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert limits(tmp_path) == limits(tmp_path / "nowhere")
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("150000\n")
    (tmp_path / "memory/memory.limit_in_bytes").write_text("1048576\n")
    assert limits(tmp_path).cores == 1.5
    assert limits(tmp_path).memory == 1048576
    assert usable_cores(tmp_path) == 1
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert limits(tmp_path).cores == 1.5
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert limits(tmp_path).cores == 0.5


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("resnet18", 11_689_512), ("resnet34", 21_797_672), ("squeezenet1_0", 1_248_424), ("mobilenet_v2", 3_504_872)],
)
def test_networks_have_the_published_number_of_parameters(name, parameters):
    torch = pytest.importorskip("torch")
    from cosim.testbed.inference.networks import make

    network = make(name)
    assert sum(p.numel() for p in network.parameters()) == parameters
    with torch.inference_mode():
        assert network(torch.zeros(1, 3, 96, 96)).shape == (1, 1000)
