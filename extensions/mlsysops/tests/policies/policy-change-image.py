"""Asks for what no simulator of tasks can do, beside a deployment."""


def initialize():
    return {
        "telemetry": {"metrics": []},
        "mechanisms": ["fluidity"],
        "configuration": {"analyze_interval": "1s"},
        "scope": "application",
        "done": False,
    }


async def analyze(context, application_description, system_description, mechanisms, telemetry, ml_connector):
    return not context["done"], context


async def plan(context, application_description, system_description, mechanisms, telemetry, ml_connector):
    context["done"] = True
    application = application_description[0]
    name = application["spec"]["components"][0]["metadata"]["name"]
    actions = [
        {"action": "change_spec", "new_spec": {}, "host": "edge-1"},
        {"action": "deploy", "host": "nowhere"},
        {"action": "move", "src_host": "cloud", "target_host": "edge-1"},
        {"action": "deploy", "host": "edge-1"},
    ]
    unknown = [{"action": "deploy", "host": "edge-1"}]
    deployment = {name: actions, "unknown": unknown, "initial_plan": True}
    return {"fluidity": {"name": application["name"], "deployment_plan": deployment}}, context
