"""Run an adapter in this process for a run in another one.

A run starts its own workers. Start a worker on another machine, or in a container, manually:

    python -m cosim.bus.worker --adapter sumo --bind tcp://127.0.0.1:5555

It prints its address as one line and serves one run after another (`--once`: only one). The scenario
names that address as the adapter's `connect`.

A worker serves any run that reaches it. An address that other machines can reach needs a folder of keys (`--keys`,
made by `cosim live-key`): the connection is then encrypted, and runs must prove one of the keys (the adapter's `key`).
Settings that a run may not make are given here: files are read below `--root` only, and commands, code and addresses
come from `--set`:

    python -m cosim.bus.worker --adapter mosaik --bind tcp://0.0.0.0:5555 --keys keys \\
        --set simulator.command="java -jar plant.jar %(addr)s"
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from cosim.contract.errors import CosimError, Interruption, SetupError

if TYPE_CHECKING:
    from cosim.bus.service import AdapterService

PATIENCE = 2.0  # s between SIGTERM and SIGKILL when the run has vanished


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve as set by the arguments; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m cosim.bus.worker", description="run an adapter for a run elsewhere"
    )
    parser.add_argument("--adapter", required=True, help="kind of adapter, or module:ATTRIBUTE of its description")
    parser.add_argument("--bind", default="tcp://127.0.0.1:*", help="address to listen on (default: %(default)s)")
    parser.add_argument("--once", action="store_true", help="end after one run")
    parser.add_argument("--keys", type=Path, help="folder of keys; needed where other machines can reach the address")
    parser.add_argument(
        "--root", default="", help="folder of the scenario's files on this machine (default: the present one)"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a value of the adapter's block, whatever runs say",
    )
    parser.add_argument("--parent", type=int, default=0, help=argparse.SUPPRESS)  # set by the run that starts a worker:
    parser.add_argument("--pipe", type=int, default=-1, help=argparse.SUPPRESS)  # its end of a pair of sockets
    parser.add_argument("--python-path", default="", help=argparse.SUPPRESS)  # PYTHONPATH to give to further processes
    options = parser.parse_args(arguments)
    if options.parent:
        _follow(options.parent)
        os.environ.pop("PYTHONPATH", None)
        if options.python_path:
            os.environ["PYTHONPATH"] = options.python_path
    signal.signal(signal.SIGTERM, _leave)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s: %(message)s")

    try:
        with contextlib.closing(_service(options)) as service:
            _serve(service, options)
    except KeyboardInterrupt:
        return 130
    except CosimError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    return _left[0] if _left else 0


def _service(options: argparse.Namespace) -> AdapterService:
    from cosim.bus.service import AdapterService  # after the fork in _follow: numpy starts threads

    if options.pipe >= 0:
        return AdapterService(options.adapter, options.root)
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    fixed = {}
    for text in options.set:
        key, mark, value = text.partition("=")
        if not key or not mark:
            raise SetupError(f"--set {text}: write KEY=VALUE, as simulator.command='plant %(addr)s'")
        try:
            fixed[key] = YAML(typ="safe").load(value)
        except YAMLError as error:
            raise SetupError(f"--set {text}: the value is no YAML: {error}") from error
    return AdapterService(options.adapter, options.root or str(Path.cwd()), fixed, trusted=False)


def _serve(service: AdapterService, options: argparse.Namespace) -> None:
    if options.pipe >= 0:
        from cosim.bus.messages import FROM_RUN, FROM_WORKER
        from cosim.bus.service import serve_pipe
        from cosim.talk.pipe import Pipe

        os.set_inheritable(options.pipe, False)
        with contextlib.closing(Pipe(socket.socket(fileno=options.pipe), FROM_WORKER, FROM_RUN)) as pipe:
            serve_pipe(service, pipe)
        return
    from cosim.bus.listen import Listener

    with contextlib.closing(Listener(options.bind, options.keys)) as listener:
        print(listener.address, flush=True)  # noqa: T201 - what the caller waits for
        listener.serve(service, once=options.once, leaving=lambda: bool(_left))


class Leaving(SystemExit, Interruption):
    """A signal asks this worker to end."""


_left: list[int] = []  # exit codes of the signals that asked to end


def _leave(number: int, _: FrameType | None) -> None:
    """End through the `finally` blocks, so that the adapter gets closed."""
    _left.append(128 + number)
    raise Leaving(128 + number)


def _follow(parent: int) -> None:
    """Make sure that this process and what it starts do not outlive `parent` nor, what it starts, this process.

    A forked watcher in the same process group waits for either to end and then ends the group. It
    works while this process is inside a library call that lets no signal handler run, and it does
    not depend on which thread of the parent started us, as a parent-death signal would.
    """
    worker = os.getpid()
    watched = os.pidfd_open(parent)
    if os.getppid() != parent:
        sys.exit("the run that started this worker has vanished")
    if os.fork():
        os.close(watched)
        return
    try:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        own = os.pidfd_open(worker)
        low, high = sorted((watched, own))  # all others are closed: the run sees the end of its worker's connection
        os.closerange(3, low)
        os.closerange(low + 1, high)
        os.closerange(high + 1, 1 << 20)
        poller = select.poll()
        poller.register(watched, select.POLLIN)
        poller.register(own, select.POLLIN)
        if own not in [fd for fd, _ in poller.poll()]:
            os.killpg(worker, signal.SIGTERM)
            poller.unregister(watched)
            poller.poll(PATIENCE * 1e3)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker, signal.SIGKILL)  # this process too
    finally:
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
