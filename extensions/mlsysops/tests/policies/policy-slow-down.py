"""Lets the node run slowly while it has little to do, for all applications together."""

counter = 0


def initialize():
    return {
        "telemetry": {"metrics": ["node_load1", "detect_seconds"], "system_scrape_interval": "1s"},
        "mechanisms": ["CPUFrequencyConfigurator", "vaccel"],
        "configuration": {"analyze_interval": "3s"},
        "scope": "global",
        "node_name": "edge-1",
    }


async def analyze(context, application_description, system_description, mechanisms, telemetry, ml_connector):
    global counter
    counter += 1
    return counter < 4, context


async def plan(context, application_description, system_description, mechanisms, telemetry, ml_connector):
    slowest = mechanisms["CPUFrequencyConfigurator"]["options"]["edge-1"][0]
    wanted = {1: "min", 2: f"{slowest:.0f} Hz", 3: "123 MHz"}[counter]
    command = {"command": "set", "cpu": "all", "frequency": wanted}
    return {"CPUFrequencyConfigurator": command, "vaccel": {"plugin": "cpu"}}, context
