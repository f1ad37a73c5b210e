"""Moves components on board when their quality is missed at the edge, and tries the edge again after a minute."""

import time

from mlsysops.logger_util import logger
from mlsysops.utilities import evaluate_condition


def initialize():
    return {
        "telemetry": {"metrics": [], "system_scrape_interval": "5s"},
        "mechanisms": ["fluidity"],
        "packages": [],
        "configuration": {"analyze_interval": "5s"},
        "scope": "application",
        "try_again": 60.0,
        "moved": {},
        "wanted": {},
    }


def nodes_of(layer, mechanisms):
    nodes = mechanisms["fluidity"]["state"]["nodes"]
    return [name for name, node in nodes.items() if node["ready"] and node["spec"]["continuum_layer"] == layer
            and "hardware" in node["spec"]]  # fmt: skip


async def analyze(context, application_description, system_description, mechanisms, telemetry, ml_connector):
    application = application_description[0]
    placed = mechanisms["fluidity"]["state"]["applications"][application["name"]]["components"]
    edge, board = nodes_of("edge", mechanisms), nodes_of("far_edge", mechanisms)
    latest = await telemetry["query"](latest=True)
    context["wanted"] = {}
    for component in application["spec"]["components"]:
        name = component["metadata"]["name"]
        if component["node_placement"].get("node"):
            continue  # placed for good
        here = placed[name]["node_placed"]
        missed = any(
            evaluate_condition(metric["target"], value, metric["relation"])
            for metric in component["qos_metrics"]
            if (value := latest[metric["application_metric_id"]].values[0]) is not None
        )
        waited = time.time() - context["moved"].get(name, 0.0)
        if edge and (here is None or (here in board and waited >= context["try_again"])):
            context["wanted"][name] = edge[0]
        elif board and here in edge and missed and waited >= 10.0:
            context["wanted"][name] = board[0]
        elif board and here is not None and here not in edge + board:
            context["wanted"][name] = board[0]  # its node has failed
    return bool(context["wanted"]), context


async def plan(context, application_description, system_description, mechanisms, telemetry, ml_connector):
    application = application_description[0]
    placed = mechanisms["fluidity"]["state"]["applications"][application["name"]]["components"]
    actions = {"initial_plan": False}
    for name, target in context["wanted"].items():
        here = placed[name]["node_placed"]
        context["moved"][name] = time.time()
        if here is None:
            actions[name] = [{"action": "deploy", "host": target}]
        else:
            actions[name] = [{"action": "move", "src_host": here, "target_host": target}]
    logger.info("plan %s", actions)
    return {"fluidity": {"name": application["name"], "deployment_plan": actions}}, context
