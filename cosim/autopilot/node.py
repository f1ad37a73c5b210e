"""The software of a vehicle that is a real node: its autopilot and, when there is a run to attach to, the agent.

    python -m cosim.autopilot.node [OPTIONS OF THE AUTOPILOT]

The agent is the vehicle's companion computer: it makes tasks of the scenario and sends them to other nodes. The
autopilot is a process of its own, independent of it; processes that work for the agent have a lower priority. Without
an agent this process becomes the autopilot.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cosim.contract.supervisor import Network, Supervisor, agent


def autopilot(arguments: Sequence[str]) -> list[str]:
    """The autopilot's command."""
    return [sys.executable, "-m", "cosim.autopilot.agent", *arguments]


def main() -> int:
    """Run the node until SIGTERM or Ctrl-C."""
    program, beside = autopilot(sys.argv[1:]), agent(os.environ)
    if not beside:
        os.execv(program[0], program)
    return Supervisor(program, beside, network=Network(os.environ.get("COSIM_GATEWAY", ""))).serve()


if __name__ == "__main__":
    sys.exit(main())
