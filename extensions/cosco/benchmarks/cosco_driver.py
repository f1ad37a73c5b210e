"""Runs a configuration with a copy of the peer: `python cosco_driver.py DIR < configuration > run`.

This file holds nothing of the peer: it makes the peer's own hosts, containers and simulator, hands in
containers as they come, decides at random, and notes what the peer says. It needs Python and what the
peer imports, and nothing of this project; `cosco_runs` calls it.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
import time
from typing import Any


def _part(module: str) -> Any:
    """The class of the peer that is named like its module."""
    return getattr(importlib.import_module(module), module.rpartition(".")[2])


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    scheduler = _part("scheduler.Scheduler")
    work = _part("simulator.container.IPSModels.IPSMBitbrain")
    memory = _part("simulator.container.RAMModels.RMBitbrain")
    disk = _part("simulator.container.DiskModels.DMBitbrain")
    given = json.load(sys.stdin)
    chance = random.Random(given["seed"])
    fleet = _part(
        {"azure": "simulator.environment.AzureFog", "bitbrain": "simulator.environment.BitbrainFog"}[given["fleet"]]
    )
    hosts = fleet(given["hosts"]).generateHosts()
    simulator = _part("simulator.Simulator")
    peer = simulator(1000, given["router_mb_s"], scheduler(), given["slots"], given["interval_s"], hosts)
    peer.containerlist = [None] * given["slots"]
    waiting: list[dict[str, Any]] = []
    coming = list(given["containers"])
    intervals = []
    begun = time.process_time()
    for number in range(given["count"]):
        while coming and coming[0]["created"] <= number:
            waiting.append(coming.pop(0))
        infos = [
            (
                c["id"], c["created"], work(c["ips"], c["max_ips"], c["duration"], c["sla"]),
                memory(c["ram_mb"], [0.0], [0.0]), disk(c["disk_mb"], [0.0], [0.0]),
            )
            for c in waiting
        ]  # fmt: skip
        deployed, destroyed = peer.addContainers(infos)
        running = [slot for slot in peer.getSelectableContainers() if chance.random() < given["moving"]]
        chosen = [(slot, chance.randrange(given["hosts"])) for slot in [*running, *deployed]]
        decision = peer.scheduler.filter_placement(chosen)
        ids = {slot: peer.getContainerByID(slot).creationID for slot, _ in decision}
        peer.simulationStep(decision)
        placed = {c.creationID for c in peer.containerlist if c and c.getHostID() != -1}
        waiting = [c for c in waiting if c["id"] not in placed]
        intervals.append({
            "interval": number + 1, "decision": [(ids[slot], host) for slot, host in decision],
            "energy_j": sum(host.getPower() * given["interval_s"] for host in peer.hostlist),
            "completed": [c.creationID for c in destroyed],
            "response_s": [c.totalExecTime + c.totalMigrationTime for c in destroyed],
            "late": [c.destroyAt > c.sla for c in destroyed],
        })  # fmt: skip
    print(json.dumps({"intervals": intervals, "cpu_s": time.process_time() - begun}))


if __name__ == "__main__":
    main()
