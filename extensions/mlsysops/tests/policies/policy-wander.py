"""Moves components by chance, at times of the clock; the functions are plain ones."""

import random
import time
from datetime import datetime

from mlstelemetry import MLSTelemetry

client = MLSTelemetry("wander", "policy")


def initialize():
    print("initialising", __file__)  # noqa: T201 - as policies of others do
    return {
        "telemetry": {"metrics": ["node_load1"], "system_scrape_interval": "5s"},
        "mechanisms": ["fluidity_proxy"],
        "configuration": {"analyze_interval": "1s"},
        "scope": "application",
        "latest_timestamp": None,
        "moving_interval": 4.0,
        "seen": [],
    }


def analyze(context, application_description, system_description, mechanisms, telemetry, ml_connector):
    now = time.time()
    if context["latest_timestamp"] is None:
        context["latest_timestamp"] = now
        return True, context
    if now - context["latest_timestamp"] >= context["moving_interval"]:
        context["latest_timestamp"] = now
        time.sleep(1.5)
        client.pushMetric("moves", "counter", 1)
        return True, context
    return False, context


def plan(context, application_description, system_description, mechanisms, telemetry, ml_connector):
    application = application_description[0]
    state = mechanisms["fluidity_proxy"]["state"]["applications"][application["name"]]["components"]
    nodes = system_description["MLSysOpsCluster"]["nodes"]
    context["seen"].append([datetime.now().isoformat(), client.get_metric_value_with_label("node_load1")])
    actions = {}
    for name, component in state.items():
        here = component["node_placed"]
        if here is None:
            actions[name] = [{"action": "deploy", "host": random.choice(nodes)}]
        else:
            there = random.choice([node for node in nodes if node != here])
            actions[name] = [{"action": "move", "src_host": here, "target_host": there}]
    actions["initial_plan"] = False
    return {"fluidity_proxy": {"name": application["name"], "deployment_plan": actions}}, context
