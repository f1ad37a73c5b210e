"""The software of an edge node: the inference service and, when there is a run to attach to, the agent beside it.

python -m cosim.testbed.inference.node [OPTIONS OF THE SERVICE]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException

from cosim.contract.supervisor import Network, Supervisor, agent

PORT = 8500


def service(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The service's command."""
    cores = environment.get("COSIM_CORES", "")
    given = [] if not cores or "--concurrency" in arguments else ["--concurrency", cores]
    return [
        sys.executable, "-m", "cosim.testbed.inference", "--host", "0.0.0.0", "--port", str(PORT), *given, *arguments,
    ]  # fmt: skip


def answers(port: int) -> bool:
    """Whether the service is ready."""
    connection = HTTPConnection("127.0.0.1", port, timeout=2.0)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def main() -> int:
    """Run the node until SIGTERM or Ctrl-C."""
    return Supervisor(
        service(sys.argv[1:], os.environ),
        agent(os.environ),
        ready=lambda: answers(PORT),
        variables={"COSIM_FORWARD": f"http://127.0.0.1:{PORT}/run"},
        network=Network(os.environ.get("COSIM_GATEWAY", "")),
    ).serve()


if __name__ == "__main__":
    sys.exit(main())
