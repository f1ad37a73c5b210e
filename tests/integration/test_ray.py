"""Sweeps on a Ray cluster of two nodes, both on this machine."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cosim.contract.errors import SetupError
from cosim.results.cluster import RayExecutor, pack, unpack
from cosim.results.compare import exact
from cosim.results.executor import LocalExecutor
from cosim.results.sweep import run_sweep
from cosim.scenario.sweep import Variant

HELLO = Path(__file__).resolve().parents[2] / "tests/scenarios/hello/scenario.cosim.yaml"
SEEDS = [Variant({"run.seed": seed}) for seed in (1, 2, 3)]
# Ray's own, in its start-up code and in the descriptors that it leaves to the collector
RAY = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
pytestmark = [pytest.mark.ray, pytest.mark.slow, *RAY]


@pytest.fixture
def cluster(monkeypatch) -> Iterator:
    """A head without cores and a node with one; `add_node` gives more."""
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.cluster_utils import Cluster

    nodes = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": 80 << 20},
    )
    try:
        yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()


def add_node(nodes):
    return nodes.add_node(num_cpus=1, object_store_memory=80 << 20)


def test_runs_on_the_cluster_are_bit_equal_to_local_ones(cluster, tmp_path):
    add_node(cluster)
    add_node(cluster)
    short = ['run.duration="5 s"']
    far = run_sweep(HELLO, SEEDS, RayExecutor(cluster.address), base=tmp_path / "ray", overrides=short)
    near = run_sweep(HELLO, SEEDS, LocalExecutor(1), base=tmp_path / "local", overrides=short)
    runs = [{r.parameters["run.seed"]: folder.path / r.run for r in folder.results()} for folder in (far, near)]
    assert [r.error for r in far.results()] == ["", "", ""]
    assert runs[0].keys() == runs[1].keys() == {1, 2, 3}
    for seed in runs[0]:
        assert exact(runs[0][seed], runs[1][seed]) == []


def test_a_run_whose_node_dies_is_made_on_another_one(cluster, tmp_path):
    doomed, _ = add_node(cluster), add_node(cluster)
    scratch = Path(tempfile.gettempdir())
    before = set(scratch.glob("cosim-ray-*"))

    def lose_it() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:  # until both nodes have begun a run
            folders = set(scratch.glob("cosim-ray-*")) - before
            if sum(any(folder.glob("out/runs/hello/*/frames")) for folder in folders) >= 2:
                break
            time.sleep(0.2)
        cluster.remove_node(doomed, allow_graceful=False)

    thread = threading.Thread(target=lose_it)
    thread.start()
    paced = ['run.duration="8 s"', 'run.pacing="real-time"']
    folder = run_sweep(HELLO, SEEDS[:2], RayExecutor(cluster.address), base=tmp_path, overrides=paced)
    thread.join()
    assert [(r.status, r.error) for r in folder.results()] == [("complete", "")] * 2
    assert all((folder.path / r.run / "tasks.parquet").is_file() for r in folder.results())


BREAKS = """\
from cosim.contract.adapter import AdapterConfig, AdapterKind, Ports
from cosim.contract.errors import RunError

class Breaks:
    def __init__(self, config): ...
    def start(self, context): ...
    def finish(self): return {}
    def close(self): ...
    def step(self, time, inputs):
        raise RunError("the bolt is broken")

config = "breaks:AdapterConfig"
ADAPTER = AdapterKind("breaks", "ends the run", config=config, factory="breaks:Breaks", ports=Ports((), ()))
"""


def test_a_run_that_fails_on_the_cluster_is_listed(cluster, tmp_path):
    add_node(cluster)
    scenario = tmp_path / "s"
    unpack(pack(HELLO.parent), scenario)
    (scenario / "breaks.py").write_text(BREAKS)
    file = scenario / HELLO.name
    text = file.read_text()
    file.write_text(text.replace("adapters:\n", "adapters:\n  breaks: {use: 'breaks:ADAPTER'}\n", 1))
    folder = run_sweep(file, SEEDS[:1], RayExecutor(cluster.address), base=tmp_path / "out")
    (result,) = folder.results()
    assert result.status in ("failed", "partial")
    assert "the bolt is broken" in result.error


def test_a_cluster_that_is_not_there_is_told():
    with pytest.raises(SetupError, match="no Ray cluster at"):
        RayExecutor("127.0.0.1:1")
