"""Real nodes in network namespaces of this machine: for users with root but no container engine.

The programs, interfaces and addresses are the same as in containers, but there is no isolation: files,
processors and memory are shared. The programs reach the run over Unix sockets, which do not belong to a
network namespace, so that nothing but the emulated network is in the nodes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import Popen
from time import monotonic

from cosim.contract.entities import Scene
from cosim.contract.errors import Problem, RunError, ScenarioError, SetupError, refusals, refuse
from cosim.testbed.emulation import compiled
from cosim.testbed.emulation.netns import Namespaces, run_of
from cosim.testbed.launch import cleanup
from cosim.testbed.launch.bridges import wire
from cosim.testbed.launch.carrier import Carrier
from cosim.testbed.launch.keys import PRIVATE, provide
from cosim.testbed.launch.programs import HOST, OURS, Program, closed, host_end, neighbours, programs, software, unnamed
from cosim.testbed.launch.uplinks import UplinkWire

FIRST_PAUSE = 0.2  # s before a program that has ended is started again; doubled each time
LONGEST_PAUSE = 5.0  # s
SETTLED = 10.0  # s after which a program counts as sound again
ENDING = 3.0  # s to end after SIGTERM
READY = 15.0  # s for the network service to listen


@dataclass(slots=True)
class _Job:
    """A program that is started again when it ends."""

    name: str
    start: Callable[[], Popen[bytes]]
    process: Popen[bytes]
    since: float  # s
    again: float = 0.0  # s, when to start it again; 0: it runs
    pause: float = FIRST_PAUSE


class NetnsNodes:
    """The nodes of a scene as namespaces, their sidecars and software, and the network service.

    Everything is started by `open` and gone after `close`. Raises `SetupError` for a machine where
    this cannot be done, `ScenarioError` for nodes that cannot be had this way.
    """

    def __init__(self, scene: Scene, logs: Path, say: Callable[[str], None], carrier: Carrier | None = None) -> None:
        self._scene, self._nodes, self._logs, self._say = scene, programs(scene), logs, say
        self._carrier = carrier or Carrier()
        self._commands = {node.node: _command(node) for node in self._nodes}
        self._run = run_of(os.getpid())
        self._folder: Path | None = None
        self._keeper: Popen[bytes] | None = None
        self._spaces: Namespaces | None = None
        self._wire: UplinkWire | None = None
        self._jobs: list[_Job] = []
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._supervisor: threading.Thread | None = None

    def open(self) -> dict[str, str]:
        """Start everything; the variables by which adapters find it."""
        require_namespaces(self._scene)
        if not self._carrier.kernel:
            compiled.linkd()  # a refusal comes before anything is made
        spaces = Namespaces()
        for run in cleanup.dead():
            cleanup.clear(run)
            self._say(f"cleared away what run {run} has left")
        self._keeper = cleanup.keeper(self._run)
        self._spaces, folder = spaces, cleanup.folder_for(self._run)
        self._folder, links = folder, folder / "links.sock"
        variables = {
            "COSIM_NETWORK": f"ipc://{folder}/network",
            "COSIM_REPORTS": f"ipc://{folder}/reports",
            "COSIM_VEHICLES": f"ipc://{folder}/vehicles",
            "COSIM_GATEWAY": f"ipc://{folder}/gateway",
        }
        own = {**os.environ, **variables, "COSIM_SOCKET": str(links), cleanup.VARIABLE: self._run}
        keys = {node.node: folder / "nodes" / node.node for node in self._nodes if node.keyed}
        if keys:
            variables["COSIM_KEYS"] = str(folder / "keys")
            provide(folder / "keys", keys)
        network = (
            "-m", "cosim.testbed.emulation.service", "--sidecars", str(links), "--commands", variables["COSIM_NETWORK"],
            "--reports", variables["COSIM_REPORTS"], *self._carrier.arguments,
        )  # fmt: skip
        self._logs.mkdir(parents=True, exist_ok=True)
        self._add("network", lambda: self._local("network", network, own))
        self._wait_for(links)
        for node in self._nodes:
            spaces.create(node.node)
        if self._carrier.kernel:
            wire(spaces, self._nodes)
        end = host_end(self._nodes)
        if end is not None:
            self._uplink(spaces, end, own)
        for node in self._nodes:
            self._add(
                f"{node.node}-net",
                self._starter(node, ("-m", "cosim.testbed.emulation.sidecar"), self._sidecar(node, own)),
            )
            variables_of = {**own, **software(node), **dict(node.environment)}
            if node.keyed:
                variables_of |= node.key(str(keys[node.node] / PRIVATE))
            self._add(node.node, self._starter(node, self._commands[node.node], variables_of))
        self._supervisor = threading.Thread(target=self._supervise, name="nodes", daemon=True)
        self._supervisor.start()
        self._say(f"{len(self._nodes)} nodes in network namespaces")
        if self._carrier.remark:
            self._say(self._carrier.remark)
        return variables

    def restart(self, name: str) -> None:
        """End the program `name` (a node, NODE-net, or network); it is started again by itself."""
        with self._lock:
            job = next((job for job in self._jobs if job.name == name), None)
        if job is None:
            raise SetupError(f"there is no program '{name}'; there are {', '.join(job.name for job in self._jobs)}")
        job.process.terminate()

    def close(self) -> None:
        """End everything; may be called twice."""
        self._ending.set()
        if self._supervisor is not None:
            self._supervisor.join()
            self._supervisor = None
        for job in reversed(self._jobs):
            if job.process.poll() is None:
                job.process.terminate()
        end = monotonic() + ENDING
        for job in self._jobs:
            with contextlib.suppress(Exception):
                job.process.wait(max(0.05, end - monotonic()))
            if job.process.poll() is None:
                job.process.kill()
                job.process.wait()
        self._jobs.clear()
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        if self._spaces is not None:
            self._spaces.close()
            self._spaces = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._keeper is not None:
            self._keeper.kill()
            self._keeper.wait()
            self._keeper = None

    def _uplink(self, spaces: Namespaces, end: Program, own: Mapping[str, str]) -> None:
        """Wire the end of uplinks to this machine, and start its sidecar."""
        self._wire = UplinkWire(spaces, self._run)
        variables = self._sidecar(end, own) | {
            "COSIM_FORWARDS": "1",
            "COSIM_UPLINK": self._wire.host,
            "COSIM_NETWORKS": closed(self._nodes),
        }
        self._add("uplink", self._starter(end, ("-m", "cosim.testbed.emulation.sidecar"), variables))
        who = ", ".join(node.node for node in self._nodes if end.names[0] in node.names)
        self._say(f"{who} can reach this machine's network: this machine by {end.interfaces[0].address}")
        if self._wire.remark:
            self._say(f"by uplinks this machine is reached, but {self._wire.remark}")

    def _sidecar(self, node: Program, own: Mapping[str, str]) -> dict[str, str]:
        return {
            **own,
            "COSIM_NODE": node.node,
            "COSIM_KERNEL": self._carrier.kernel,
            "COSIM_FORWARDS": "1" if node.forwards else "0",
            "COSIM_INTERFACES": " ".join(i.text for i in node.interfaces),
            "COSIM_NEIGHBOURS": " ".join(f"{i.address},{i.mac}" for i in neighbours(node, self._nodes)),
        }

    def _starter(
        self, node: Program, command: tuple[str, ...], variables: Mapping[str, str]
    ) -> Callable[[], Popen[bytes]]:
        def start() -> Popen[bytes]:
            if self._spaces is None:
                raise RunError("the namespaces are gone")
            arguments = [sys.executable, *command] if command[0] == "-m" else list(command)
            name = (
                "uplink" if node.node == HOST else f"{node.node}-net" if "COSIM_INTERFACES" in variables else node.node
            )
            with (self._logs / f"{name}.log").open("ab") as log:
                return self._spaces.start(node.node, arguments, stdout=log, stderr=log, env=variables)

        return start

    def _local(self, name: str, command: tuple[str, ...], variables: Mapping[str, str]) -> Popen[bytes]:
        with (self._logs / f"{name}.log").open("ab") as log:
            return Popen(
                [sys.executable, *command], stdin=-3, stdout=log, stderr=log, env=variables, start_new_session=True
            )

    def _add(self, name: str, start: Callable[[], Popen[bytes]]) -> None:
        with self._lock:
            self._jobs.append(_Job(name, start, start(), monotonic()))

    def _wait_for(self, socket: Path) -> None:
        end = monotonic() + READY
        while not socket.exists():
            if self._jobs[0].process.poll() is not None or monotonic() > end:
                tail = (self._logs / "network.log").read_text(encoding="utf-8", errors="replace").strip()[-400:]
                raise RunError(f"the network service does not come up: {tail or 'it says nothing'}")
            self._ending.wait(0.02)

    def _supervise(self) -> None:
        """Start again what has ended, sooner at first."""
        while not self._ending.wait(0.1):
            now = monotonic()
            with self._lock:
                jobs = list(self._jobs)
            for job in jobs:
                if job.again:
                    if now >= job.again:
                        self._again(job, now)
                elif job.process.poll() is not None:
                    _end_rest(job.process)
                    job.pause = FIRST_PAUSE if now - job.since > SETTLED else min(2.0 * job.pause, LONGEST_PAUSE)
                    job.again = now + job.pause
                    self._say(f"{job.name} has ended with exit code {job.process.returncode}; it is started again")

    def _again(self, job: _Job, now: float) -> None:
        try:
            job.process, job.since, job.again = job.start(), now, 0.0
        except OSError as error:  # no memory, no disk for its log: it may be better soon
            job.again = now + LONGEST_PAUSE
            self._say(f"{job.name} cannot be started: {error}")


@contextlib.contextmanager
def netns_nodes(
    scene: Scene, logs: Path, say: Callable[[str], None], carrier: Carrier | None = None
) -> Iterator[NetnsNodes]:
    """The real nodes of `scene` while the block lasts; adapters find them by variables of the environment.

    `carrier` imposes their links; None: linkd.
    """
    nodes = NetnsNodes(scene, logs, say, carrier)
    before: dict[str, str | None] = {}
    try:
        variables = nodes.open()
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        yield nodes
    finally:
        nodes.close()
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _end_rest(program: Popen[bytes]) -> None:
    """End what a program that has ended leaves running: its successor needs the same ports."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)


def require_namespaces(scene: Scene) -> None:
    """Refuse nodes that cannot be in network namespaces of this machine, before anything is made.

    Raises `SetupError` for a user without root, and `ScenarioError` with all nodes that nothing here can run.
    """
    refuse(unfit_for_namespaces(scene))
    if os.geteuid() != 0:
        raise SetupError(
            "network namespaces need root: `sudo` with the whole path of cosim, in an environment that root may read; "
            "with a container engine and without root: --nodes containers"
        )


def unfit_for_namespaces(scene: Scene) -> list[Problem]:
    """Real nodes that no program of a machine can be, and none at all."""
    nodes = programs(scene)
    if not nodes:
        return [Problem("no node has 'runs', so none can be real", "nodes")]
    return [*(problem for node in nodes for problem in refusals(partial(_command, node))), *unnamed(nodes)]


def _command(node: Program) -> tuple[str, ...]:
    command = OURS.get(node.image, ()) + node.command if node.image in OURS else node.command
    if not command:
        raise ScenarioError(
            Problem(
                f"image '{node.image}' needs a container engine",
                f"nodes.{node.node}.runs",
                hint="in a network namespace a program of this machine runs: name it with 'command'",
            )
        )
    return command
