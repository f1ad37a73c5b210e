"""The service as a program: `python -m cosim.testbed.inference`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from cosim.contract.errors import lacking
from cosim.testbed.inference.kernels import kernels, make_weights
from cosim.testbed.inference.limits import usable_cores
from cosim.testbed.inference.station import Station

_KEPT = 300  # s that a connection without requests stays open: devices come back to theirs


def main() -> int:
    """Serve until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m cosim.testbed.inference", description="Serve real computations over HTTP."
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8500)
    parser.add_argument("--node", default=os.environ.get("COSIM_NODE", "node"), help="name in answers and metrics")
    parser.add_argument("--concurrency", type=int, default=0, help="requests served at once; 0: one per usable core")
    parser.add_argument("--capacity", type=int, default=100, help="requests in line at most")
    parser.add_argument("--clock", type=float, default=1e9, metavar="HZ", help="of a core, for the kernel hold")
    parser.add_argument("--make-weights", type=Path, metavar="FOLDER", help="write the networks' weights and leave")
    given = parser.parse_args()
    needs = [("starlette", "web"), ("uvicorn", "web")] if given.make_weights is None else [("torch", "learn")]
    if missing := next(filter(None, (lacking(*one) for one in needs)), ""):
        parser.error(missing)
    if given.make_weights is not None:
        make_weights(given.make_weights)
        return 0
    if not 1e6 <= given.clock <= 1e12:
        parser.error(f"a clock of {given.clock:g} Hz; it lies between 1e6 and 1e12")
    if not 1 <= given.port <= 65535 or given.concurrency < 0 or given.capacity < 0:
        parser.error("a port lies between 1 and 65535; concurrency and capacity are not negative")

    import uvicorn

    from cosim.testbed.inference.service import application

    found, workers = kernels(given.clock), given.concurrency or usable_cores()
    station = Station(found, workers, given.capacity)
    uvicorn.run(
        application(station, given.node), host=given.host, port=given.port, log_level="warning",
        timeout_keep_alive=_KEPT, access_log=False,
    )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
