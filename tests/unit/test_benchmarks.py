"""Every benchmark runs at a tiny size and prints one JSON object with the keys that its page names."""

import json
import re
from pathlib import Path

import pytest

import benchmarks
from tests.extensions import needs
from tests.forked import COSIM

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "benchmarks" / "commands.md").read_text("utf-8")
DATA = ROOT.parent / "shared" / "data"
TINY = {
    "bus": ["--rows", "100", "--rounds", "1", "--ticks", "5", "--cases", "bare", "direct", "loop", "mosaik", "remote"],
    "remote": ["--rows", "100", "--rounds", "1", "--steps", "3"],
    "record": ["--rows", "100", "--ticks", "20"],
    "sumo": ["--vehicles", "20", "--rounds", "0", "--steps", "3", "--cases", "bare", "ours"],
    "continuum": ["--devices", "10", "--seconds", "2", "--rounds", "1"],
    "edgecloudsim": ["--data", str(DATA / "edgecloudsim"), "--runs", "8", "--config", "a1_TWO_TIER_NEXT_FIT_100"],
    "cosco": ["--hosts", "10", "--intervals", "20", "--rounds", "1", "--seeds", "4", "--compared", "20"],
    "offloading": ["--devices", "20", "--seconds", "30", "--rounds", "1"],
    "vehicles": ["--vehicles", "3", "--fleet", "10", "--seconds", "1", "--homes", "2", "1", "--positions", "8"],
    "farm": ["--homes", "2", "1", "--positions", "2"],
    "orders": ["--seeds", "2", "--train", "1", "--longest", "90"],
    "engage": ["--seeds", "6"],
    "wifi": ["--nodes", "20", "--steps", "3"],
    "radio": ["--devices", "20", "--steps", "4"],
    "air": ["--data", str(DATA / "network" / "uav_lte_a2g"), "--altitudes", "90"],
    "jamming": ["--scenes", "2", "--method", "logistic", "--data", "none"],
    "extcloudsim": ["--machines", "10", "--periods", "3"],
    "predictor": ["--data", str(DATA / "cloud_traces"), "--vms", "6", "--seeds", "1"],
    "schedulers": ["--instances", "1", "--limit", "0.2", "--large", "0"],
    "learners": ["--tasks", "yard", "--learners", "dqn", "--seeds", "2", "--steps", "700", "--workers", "1"],
    "queues": ["--tasks", "20000", "--rounds", "1"],
    "branch": ["--hosts", "5", "--candidates", "20"],
    "vector": ["--hosts", "6", "--environments", "2", "--intervals", "5", "--rounds", "1", "--compared", "2"],
    "whatif": ["--scenario", "hello", "--now", "5", "--horizon", "2", "--candidates", "2", "--verify", "0"],
    "cluster": ["--quick"],
    "doors": ["--connects", "50", "--seconds", "1"],
    "idle_guests": ["--guests", "100"],
    "mutants": ["--count", "1", "--of", "extensions/mlsysops/importing/apps.py"],
    "links": ["--seconds", "0.1", "--rounds", "1", "--backend", "linkd"],
    "worlds": ["--scenarios", "edge-inference", "--seconds", "4"],
    "startup": ["--rounds", "0"],
    "crates": [],
    "twin": ["--job", "edge", "--quick"],
    "dataset": ["--runs", "1", "--phones", "6", "--seconds", "12", "--workers", "1"],
    "swarms": ["--groups", "2", "--members", "6", "--seconds", "4"],
    "pictures": ["--tiles", "1", "--size", "64"],
    "gauges": ["--rounds", "1"],
}
NAMESPACES = [pytest.mark.netns, pytest.mark.slow]
NEEDS = {
    "links": NAMESPACES,
    "worlds": NAMESPACES,
    "gauges": NAMESPACES,
    "edgecloudsim": [pytest.mark.data],
    "air": [pytest.mark.data],
    "predictor": [pytest.mark.data, pytest.mark.slow],
    "sumo": [pytest.mark.sumo, pytest.mark.slow],
    "orders": [pytest.mark.slow],
    "engage": [pytest.mark.slow],
    "startup": [pytest.mark.slow],
    "cluster": [pytest.mark.slow],
    "jamming": [pytest.mark.slow, pytest.mark.timeout(600)],
    "mutants": [pytest.mark.slow, pytest.mark.timeout(600)],
    "learners": [pytest.mark.slow],
}
ASKS = {
    "bus": "helics", "cluster": "scipy", "edgecloudsim": "scipy", "gauges": "psutil",
    "idle_guests": "uvicorn fastapi pymavlink", "jamming": "sklearn", "learners": "torch gymnasium",
    "orders": "scipy", "schedulers": "highspy",
    "vector": "gymnasium", "vehicles": "pymavlink", "worlds": "uvicorn",
}  # fmt: skip


def benchmark(name: str, *arguments: str) -> str:
    for package in ASKS.get(name, "").split():
        pytest.importorskip(package)
    done = COSIM.run(f"benchmarks.{name}", *arguments, timeout=550)
    assert done.returncode == 0, done.stderr
    return done.stdout


EXTENSIONS = {
    "air": "published_data", "cluster": "gpu_cluster", "continuum": "edgecloudsim", "cosco": "cosco",
    "crates": "research_object", "dataset": "detection", "edgecloudsim": "edgecloudsim",
    "extcloudsim": "extcloudsim", "jamming": "detection", "offloading": "edgecloudsim",
    "predictor": "extcloudsim", "schedulers": "corais",
    "twin": "published_data", "vector": "cosco",
}  # fmt: skip


def marks(name: str) -> list[pytest.MarkDecorator]:
    return [*NEEDS.get(name, ()), *([needs(EXTENSIONS[name])] if name in EXTENSIONS else [])]


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in TINY])
def test_it_prints_one_json_object_with_the_documented_keys(name):
    found = json.loads(benchmark(name, "--json", *TINY[name]))
    assert found["benchmark"].partition(".")[0] == name
    assert set(found["host"]) == {"cpu", "cores", "python"}
    (listed,) = re.findall(rf"^JSON of `{name}`: (.*)$", PAGE, re.M)
    keys = re.findall(r"`(\w+)`", listed)
    assert keys
    assert set(keys) <= set(found)


@needs(*EXTENSIONS.values())
def test_the_page_names_every_benchmark():
    files = [path for folder in benchmarks.__path__ for path in Path(folder).glob("*.py")]
    runnable = {path.stem for path in files if "--json" in path.read_text("utf-8")}
    assert runnable - {"measure", "ctrl_c"} == set(TINY)  # ctrl_c needs images, and minutes
    for name in (*TINY, "ctrl_c"):
        assert f"python -m benchmarks.{name}" in PAGE


def test_help_says_what_is_measured():
    assert "naive" in benchmark("bus", "--help")


@needs(EXTENSIONS["crates"])
def test_every_benchmark_that_a_page_names_has_its_tables_as_crates():
    from benchmarks.crates import TABLES

    from benchmarks.twin import JOBS

    docs = ROOT / "docs"
    pages = {str(page.relative_to(docs)): page.read_text("utf-8") for page in docs.rglob("*.md")}
    listed = {table.arguments.split()[0] for table in TABLES.values()}
    # mutants counts what tests notice, edge_telemetry measures the machine that it runs on
    named = {name for text in pages.values() for name in re.findall(r"benchmarks\.(?!md)(\w+)", text)}
    assert named - {"mutants", "edge_telemetry", "crates"} == listed
    for table in TABLES.values():
        assert f"benchmarks.{table.arguments.split()[0]}" in pages[table.page], table
    assert {table.arguments.split()[2] for table in TABLES.values() if table.arguments.startswith("twin ")} == set(JOBS)


@needs(EXTENSIONS["crates"])
def test_a_table_is_made_again_from_its_crate(tmp_path):
    pytest.importorskip("rocrate")
    made = json.loads(benchmark("crates", "branch", "--out", str(tmp_path), "--json", "--", *TINY["branch"]))["made"]
    crate = Path(made[0])
    found = json.loads(benchmark("crates", "--again", str(crate), "--json"))
    assert found["compared"] > 2
    assert found["differing"] == []
    said = json.loads((crate / "ro-crate-metadata.json").read_text())
    by_id = {one["@id"]: one for one in said["@graph"]}
    assert by_id["./"]["conformsTo"]["@id"] == "https://w3id.org/ro/wfrun/process/0.5"
    assert by_id["#run"]["result"]["@id"] == "result.json"
    figures = json.loads((crate / "result.json").read_text())
    figures["hosts"] = 6
    (crate / "result.json").write_text(json.dumps(figures))
    with pytest.raises(AssertionError):
        benchmark("crates", "--again", str(crate), "--json")
