"""Deploys every component at the first node, and moves it on while the first sample of the load is high."""

from itertools import cycle

from mlsysops.logger_util import logger
from mlsysops.utilities import evaluate_condition


def initialize():
    return {
        "telemetry": {"metrics": ["node_load1"], "system_scrape_interval": "1s"},
        "mechanisms": ["fluidity"],
        "packages": [],
        "configuration": {"analyze_interval": "2s"},
        "scope": "application",
        "most": 0.05,
    }


async def latest(telemetry, name):
    frame = await telemetry["query"](latest=True)
    return frame[name].values[0]


async def analyze(context, application_description, system_description, mechanisms, telemetry, ml_connector):
    application = application_description[0]
    components = mechanisms["fluidity"]["state"]["applications"][application["name"]]["components"]
    if any(state["node_placed"] is None for state in components.values()):
        return True, context
    load = await latest(telemetry, "node_load1")
    logger.info("load is", load)
    return load is not None and evaluate_condition(context["most"], load, "lower_or_equal"), context


async def plan(context, application_description, system_description, mechanisms, telemetry, ml_connector):
    application = application_description[0]
    components = mechanisms["fluidity"]["state"]["applications"][application["name"]]["components"]
    nodes = system_description["MLSysOpsCluster"]["nodes"]
    actions = {}
    for component in application["spec"]["components"]:
        name = component["metadata"]["name"]
        here = components[name]["node_placed"]
        if here is None:
            actions[name] = [{"action": "deploy", "host": nodes[0]}]
            continue
        ring = cycle(nodes)
        while next(ring) != here:
            pass
        actions[name] = [{"action": "move", "src_host": here, "target_host": next(ring)}]
    actions["initial_plan"] = any(step[0]["action"] == "deploy" for step in actions.values())
    return {"fluidity": {"name": application["name"], "deployment_plan": actions}}, context
