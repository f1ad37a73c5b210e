"""Edge nodes to measure: the inference service in containers, or as plain processes, with limits on its cores."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from cosim.contract.errors import Problem, ScenarioError

IMAGE = "continuum-cosim/vedgenode:latest"
READY = 90.0  # s until a node answers
PERIOD = 10_000  # us over which a limit on cores holds: short, so that a node that has used it up waits briefly
TICK = os.sysconf("SC_CLK_TCK")
GROUPS = Path("/sys/fs/cgroup/cpu")


@dataclass(frozen=True, slots=True)
class Node:
    """What a node may use, and how many requests it serves at once."""

    name: str
    processors: tuple[int, ...]  # of the machine
    cores: float  # limit of its control group
    concurrency: int


@dataclass(frozen=True, slots=True)
class Running:
    """A node that answers."""

    node: Node
    host: str
    port: int
    pid: int  # its first process

    def cpu(self) -> float:
        """Seconds of CPU that its processes have used."""
        return sum(_used(pid) for pid in _family(self.pid))


def usual() -> tuple[Node, ...]:
    """One core with one worker, two cores with two, and two workers that share what is one core in all."""
    there = sorted(os.sched_getaffinity(0))
    if len(there) < 2:
        raise ScenarioError(Problem("the machine has one processor", hint="two are needed: nodes and load share them"))
    return (
        Node("edge-1", (there[1],), 1.0, 1),
        Node("edge-2", (there[0], there[1]), 2.0, 2),
        Node("edge-3", (there[0], there[1]), 1.0, 2),
    )


@contextlib.contextmanager
def started(nodes: Sequence[Node], kind: str) -> Iterator[list[Running]]:
    """The nodes as `containers` or as a `process` each; ended when the block is left."""
    with contextlib.ExitStack() as stack:
        start = _container if kind == "containers" else _process
        yield [stack.enter_context(start(node)) for node in nodes]


@contextlib.contextmanager
def _container(node: Node) -> Iterator[Running]:
    name = f"cosim-measure-{os.getpid()}-{node.name}"
    limits = ["--cpuset-cpus", ",".join(map(str, node.processors)), "--memory", "2g", "--pids-limit", "200"]
    limits += ["--cpu-period", str(PERIOD), "--cpu-quota", str(int(PERIOD * node.cores))]
    rights = ["--cap-drop", "ALL", "--security-opt", "no-new-privileges:true"]
    who = ["-e", f"COSIM_NODE={node.name}", "-e", f"COSIM_CORES={node.concurrency}"]
    # looking after its health every few seconds takes time from the node
    _docker("run", "-d", "--rm", "--no-healthcheck", "--name", name, *limits, *rights, *who, IMAGE)
    try:
        form = "{{.State.Pid}} {{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}"
        pid, host = _docker("inspect", "-f", form, name).split()[:2]
        _wait(host, 8500, node.name)
        yield Running(node, host, 8500, int(pid))
    finally:
        subprocess.run(["docker", "rm", "-f", name], capture_output=True, check=False)


def _docker(*command: str) -> str:
    try:
        return subprocess.run(["docker", *command], capture_output=True, text=True, check=True).stdout
    except FileNotFoundError as error:
        raise ScenarioError(Problem("there is no docker here", hint="install it, or take --nodes process")) from error
    except subprocess.CalledProcessError as error:
        raise ScenarioError(Problem(f"docker {command[0]} failed: {error.stderr.strip()[-400:]}")) from error


@contextlib.contextmanager
def _process(node: Node) -> Iterator[Running]:
    with socket.socket() as free:  # others may measure at the same time
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "cosim.testbed.inference", "--port", str(port), "--node", node.name]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command += ["--concurrency", str(node.concurrency)]

    def bind() -> None:
        os.sched_setaffinity(0, node.processors)

    process = subprocess.Popen(command, env=environment, preexec_fn=bind)
    group = GROUPS / f"cosim-measure-{os.getpid()}-{node.name}"
    try:
        _limit(group, process.pid, node)
        _wait("127.0.0.1", port, node.name)
        yield Running(node, "127.0.0.1", port, process.pid)
    finally:
        process.terminate()
        process.wait(20.0)
        with contextlib.suppress(OSError):
            group.rmdir()


def _limit(group: Path, pid: int, node: Node) -> None:
    """Put the process in a control group of its own; without the right to, only its processors limit it."""
    if node.cores >= len(node.processors):
        return
    try:
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text(str(PERIOD))
        (group / "cpu.cfs_quota_us").write_text(str(int(PERIOD * node.cores)))
        (group / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        raise ScenarioError(
            Problem(f"cannot limit {node.name} to {node.cores:g} cores: {error}", hint="take --nodes containers")
        ) from error


def _wait(host: str, port: int, name: str) -> None:
    until = time.monotonic() + READY
    while time.monotonic() < until:
        connection = HTTPConnection(host, port, timeout=2.0)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except (OSError, HTTPException):
            time.sleep(0.2)
        finally:
            connection.close()
    raise ScenarioError(Problem(f"{name} has not answered within {READY:g} s"))


def _family(pid: int) -> list[int]:
    """The process and all that descend from it."""
    found, at = [pid], 0
    while at < len(found):
        with contextlib.suppress(OSError):  # it may have ended
            for children in Path(f"/proc/{found[at]}/task").glob("*/children"):
                with contextlib.suppress(OSError):
                    found += [int(word) for word in children.read_text().split()]
        at += 1
    return found


def _used(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICK


def machine() -> tuple[float, float]:
    """Seconds of CPU that all of the machine has been busy, and that other machines took from it (steal)."""
    words = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    user, nice, system = words[:3]
    interrupts, soft, steal = words[5:]
    return (user + nice + system + interrupts + soft) / TICK, steal / TICK
