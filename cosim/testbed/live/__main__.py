"""The agent of a node that the run itself started: `python -m cosim.testbed.live`, configured by the environment.

COSIM_GATEWAY   address of the run's gateway
COSIM_KEY       file with this node's private key
COSIM_NODE      which node this is
COSIM_CORES     cores that the scenario gives it
COSIM_FORWARD   inference service on this node's loopback, its address up to the kernel's name
COSIM_CALLS     networks (CIDR, separated by spaces) of the nodes whose services tasks may call; up to 4 at once, or
                one per core, since a call waits and does not compute
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from cosim.contract.errors import CosimError, SetupError
from cosim.testbed.live.agent import Options, run

CALLS = 4
LINE = 64  # calls that wait in a device


def options(environment: Mapping[str, str]) -> Options:
    """What the agent is to do. Raises `SetupError` when something is missing or is not what it must be."""
    for name in ("COSIM_GATEWAY", "COSIM_KEY", "COSIM_NODE"):
        if not environment.get(name):
            raise SetupError(f"{name} must be set; on a machine of your own use  cosim attach")
    cores = environment.get("COSIM_CORES") or "0"
    if not cores.isdecimal():
        raise SetupError(f"COSIM_CORES is '{cores}'; it is a whole number")
    calls = tuple(environment.get("COSIM_CALLS", "").split())
    return Options(
        Path(environment["COSIM_KEY"]), environment["COSIM_GATEWAY"], environment["COSIM_NODE"],
        forward=environment.get("COSIM_FORWARD", ""), calls=calls, cores=int(cores),
        shares=True,
        concurrency=max(CALLS, int(cores)) if calls else 0, waiting=LINE if calls else 0,
    )  # fmt: skip


def main() -> int:
    """Serve until SIGTERM (0) or until evicted (1); 2 when it cannot begin."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    try:
        return run(options(os.environ))
    except CosimError as error:
        sys.stderr.write(f"{error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
