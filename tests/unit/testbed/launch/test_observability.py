"""The profile `observability`: who is asked for metrics, and whether the dashboard asks for metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("httpx2")
pytest.importorskip("prometheus_client")
pytest.importorskip("starlette")

from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML
from starlette.testclient import TestClient

from cosim.adapters.telemetry import ADAPTER, SIGNALS
from cosim.adapters.telemetry.config import TelemetryConfig
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Node, Scene
from cosim.contract.frame import Frame
from cosim.contract.signals import CATALOGUE
from cosim.testbed.inference.kernels import kernels
from cosim.testbed.inference.service import application
from cosim.testbed.inference.station import Station
from cosim.testbed.launch.compose import render
from tests.unit.testbed.launch.worlds import DRONE, EDGE, plan

ROOT = Path(__file__).resolve().parents[4]
SETTINGS = ROOT / "containers" / "observability"
WORDS = {"sum", "count", "min", "max", "rate", "by", "le", "histogram_quantile", "node_name", "up", "node", "s"}
SCENE = Scene.build((Node("uav", "uav", "device"), Node("edge", "edge", "edge")))


def dashboard():
    return json.loads((SETTINGS / "dashboards" / "nodes.json").read_text(encoding="utf-8"))


def expressions():
    return [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", ())]


def names(text):
    return {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}


def of_the_run(folder):
    """Names of all metrics that an endpoint of the run shows, read from what it says."""
    adapter = ADAPTER.build(TelemetryConfig.model_validate({"prometheus": 0}))
    adapter.start(Context("telemetry", SCENE, 1.0, 10.0, (1,), str(folder), str(folder)))
    try:
        frames = {
            name: [Frame(name, 1.0, np.zeros(1, np.int32),
                         {column.name: np.zeros(1, column.dtype) for column in CATALOGUE[name].columns})]
            for name in SIGNALS
        }  # fmt: skip
        adapter.step(1.0, Inputs(frames))
        return names(adapter._page("uav").decode())
    finally:
        adapter.close()


def of_an_edge_node():
    """Names of all metrics of `vedgenode`, read from what it says after a request."""
    kernel = kernels()["blur"]
    with TestClient(application(Station({"blur": kernel}, 1, 1), "edge")) as client:
        client.post("/run/blur?size=8", content=b"1")
        return names(client.get("/metrics").text)


def test_every_metric_of_the_dashboard_is_exported(tmp_path):
    exported = of_the_run(tmp_path) | of_an_edge_node()
    asked = set()
    for expression in expressions():
        found = set(re.findall(r"[a-z_][a-z0-9_]*", re.sub(r"\{[^}]*\}", "", expression))) - WORDS
        assert found or "up" in expression
        asked |= found
    assert len(asked) > 20
    assert asked <= exported, f"not exported: {sorted(asked - exported)}"


def test_panels_are_apart_and_read_from_the_source_that_is_provided():
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + i, place["y"] + j) for i in range(place["w"]) for j in range(place["h"])}
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
    (source,) = YAML(typ="safe").load(SETTINGS / "datasources" / "prometheus.yaml")["datasources"]
    used = {panel["datasource"]["uid"] for panel in panels if panel["type"] != "row"}
    assert used == {source["uid"]}
    assert source["url"] == "http://prometheus:9090"


def parts(tmp_path, adapters, repository=ROOT, **nodes):
    made = plan(tmp_path, adapters=f", {adapters}" if adapters else "", **nodes)
    return YAML(typ="safe").load(render(made, tmp_path / "scenario.cosim.yaml", tmp_path, repository))


def targets(document):
    scrape = YAML(typ="safe").load(document["configs"]["scrape"]["content"])
    return {job["job_name"]: job["static_configs"][0]["targets"] for job in scrape["scrape_configs"]}


def test_real_edge_nodes_are_asked(tmp_path):
    document = parts(tmp_path, "", uav_1=DRONE, host=EDGE)
    assert targets(document) == {"inference": ["host-net:8500"]}
    assert "COSIM_METRICS" not in document["services"]["orchestrator"]["environment"]


@pytest.mark.parametrize(
    ("block", "variable", "addresses"),
    [
        ("{}", "publication:9100", ["publication:9100", "publication:9101"]),
        ("{nodes: [host]}", "publication:9100", ["publication:9100"]),
        ("{prometheus: 9999}", "publication:", ["publication:9999", "publication:10000"]),
        ("{prometheus: 0}", "publication:", None),
    ],
)
def test_the_run_is_asked_where_its_telemetry_says(tmp_path, block, variable, addresses):
    telemetry = f"telemetry: {block}"
    document = parts(tmp_path, telemetry, uav_1=DRONE, host=EDGE)
    assert document["services"]["orchestrator"]["environment"]["COSIM_METRICS"] == variable
    assert targets(document).get("run") == addresses


def test_nobody_looks_where_nobody_shows_anything_or_settings_are_missing(tmp_path):
    for found in (parts(tmp_path, "", uav_1=DRONE), parts(tmp_path, "", None, uav_1=DRONE, host=EDGE)):
        assert not {"prometheus", "grafana"} & set(found["services"])
        assert "configs" not in found


@pytest.mark.skipif(shutil.which("docker") is None, reason="no docker")
def test_compose_takes_the_profile_and_leaves_it_out_by_default():
    def services(*profile):
        command = ["docker", "compose", "-f", str(ROOT / "scenarios/hello/compose.yaml"), *profile, "config"]
        done = subprocess.run([*command, "--services"], capture_output=True, text=True, timeout=60, check=False)
        if "unknown" in done.stderr or "is not a docker command" in done.stderr:
            pytest.skip("no compose")
        assert done.returncode == 0, done.stderr
        return set(done.stdout.split())

    assert services("--profile", "observability") - services() == {"prometheus", "grafana"}
