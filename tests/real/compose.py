"""A scenario's real nodes as a compose project of this test run, gone again afterwards whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import pytest

from tests.forked import cosim
from tests.real.follow import LIMIT, ROOT, until

psutil = pytest.importorskip("psutil")

CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
TAG = f"under-test-{secrets.token_hex(4)}"  # of our images: those of others at the machine stay as they are
BUILDING = 900.0  # s, when nothing is in the cache
LONG = [  # marks of tests that run containers for a while
    pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.xdist_group("docker"),
    pytest.mark.usefixtures("images", "entered"),
]  # fmt: skip


def environment(**more: str) -> dict[str, str]:
    """Variables for compose."""
    found = {**os.environ, "COSIM_TAG": TAG, "COMPOSE_PROGRESS": "quiet", **more}
    if CERTIFICATES.is_file():
        found.setdefault("COSIM_CA", str(CERTIFICATES))
    return found


def docker(*arguments: str, limit: float = LIMIT) -> str:
    """What `docker ARGUMENTS` prints; the test fails when it does."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=limit, check=False)
    assert done.returncode == 0, f"docker {' '.join(arguments)}: {done.stderr[-2000:]}"
    return done.stdout.strip()


def render(scenario: Path) -> Path:
    """The compose file that `cosim render` writes for a scenario's folder."""
    done = cosim("render", scenario)
    assert done.returncode == 0, done.stderr
    return scenario / "compose.yaml"


class Project:
    """The containers of one scenario, between `up` and `down`."""

    def __init__(self, scenario: Path, *, file: Path | None = None, runs: Path | None = None, **variables: str) -> None:
        """With the compose `file`, or that which `cosim render` writes; `variables` are for compose."""
        self.scenario, self.runs = scenario, runs or scenario / "runs"
        self.name = f"cosim-test-{secrets.token_hex(4)}"
        self._file = file or render(scenario)
        self._variables = variables

    @staticmethod
    def shipped(name: str, runs: Path, *values: str) -> Project:
        """A scenario of the checkout, started as its docker-compose.yml says, with KEY=VALUE overridden."""
        scenario = ROOT / "scenarios" / name
        text = shlex.join(values)
        return Project(
            scenario, file=ROOT / "docker-compose.yml", runs=runs, SCENARIO=f"scenarios/{name}", COSIM_SET=text
        )

    def __enter__(self) -> Project:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            with contextlib.suppress(AssertionError):
                print(self("logs", "--tail", "40"))  # noqa: T201 - pytest shows it beside the failure
        self("down", "-v", "--timeout", "1", limit=120.0)

    def __call__(self, *arguments: str, limit: float = LIMIT) -> str:
        """What `docker compose ARGUMENTS` prints."""
        done = subprocess.run(
            ["docker", "compose", "-p", self.name, "-f", str(self._file), *arguments],
            env=environment(COSIM_RUNS=str(self.runs), **self._variables),
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
        assert done.returncode == 0, f"docker compose {' '.join(arguments)}: {done.stderr[-4000:]}"
        return done.stdout.strip()

    def override(self, *values: str) -> None:
        """Values (KEY=VALUE) of the scenario for the runs that are started from now on."""
        self._variables["COSIM_SET"] = shlex.join(values)

    def build(self) -> None:
        """Make the images; with what is in the cache it takes a second."""
        self("build", "--quiet", limit=BUILDING)

    def up(self) -> None:
        """Start everything."""
        self("up", "-d", "--no-build", limit=120.0)

    def flying(self) -> None:
        """Wait until time passes in the run."""
        until(lambda: list(self.runs.glob("*/*/frames/mobility/*")))

    def ended(self, limit: float = LIMIT + 120.0) -> int:
        """Wait for the end of the run, for `limit` s; its exit code."""
        return int(docker("wait", self.container("orchestrator"), limit=limit))

    def container(self, service: str) -> str:
        """The container of a service."""
        return self("ps", "-a", "-q", service)

    def state(self, service: str) -> dict[str, object]:
        """What the engine knows of the service's container, and how often it was started again."""
        (found,) = json.loads(docker("inspect", self.container(service)))
        return {**found["State"], "Restarts": found["RestartCount"], "Host": found["HostConfig"]}

    def crash(self, service: str) -> None:
        """Kill a service as a fault would: for `docker kill` the engine does not start it again."""
        os.kill(int(str(self.state(service)["Pid"])), signal.SIGKILL)

    def kill(self, service: str, module: str) -> None:
        """Kill the program `python3 -m MODULE` in a service's container; the container itself goes on."""
        lines = docker("top", self.container(service), "-o", "pid,args").splitlines()
        (found,) = (line.split()[0] for line in lines if f" python3 -m {module}" in line)
        os.kill(int(found), signal.SIGKILL)

    def inside(self, service: str, code: str) -> str:
        """What Python says to `code` in a service's container."""
        return self("exec", "-T", service, "python3", "-c", code)

    def address(self, service: str, network: str) -> str:
        """Where a service is in one of the project's networks."""
        (found,) = json.loads(docker("inspect", self.container(service)))
        return str(found["NetworkSettings"]["Networks"][f"{self.name}_{network}"]["IPAddress"])

    @property
    def folder(self) -> Path:
        """The newest folder of results."""
        return max(path.parent for path in self.runs.glob("*/*/manifest.json"))

    @property
    def log(self) -> str:
        """The log of the newest run so far."""
        return max(self.runs.glob("*/*/logs/run.log")).read_text()

    @property
    def left(self) -> str:
        """What there is of it in the engine."""
        label = f"label=com.docker.compose.project={self.name}"
        return "".join(
            docker(*kind, "-q", "--filter", label) for kind in (["ps", "-a"], ["network", "ls"], ["volume", "ls"])
        )


class Traces:
    """What the containers of a project are to the machine: processes, namespaces, bridges. For root."""

    def __init__(self, project: Project) -> None:
        self._processes: dict[tuple[int, float], str] = {}
        self._spaces: set[str] = set()
        for container in project("ps", "-q").split():
            (found,) = json.loads(docker("inspect", container))
            if found["NetworkSettings"]["SandboxKey"]:
                self._spaces.add(found["NetworkSettings"]["SandboxKey"])
            for line in docker("top", container, "-o", "pid").splitlines()[1:]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process = psutil.Process(int(line))
                    self._processes[process.pid, process.create_time()] = found["Name"]
        label = f"label=com.docker.compose.project={project.name}"
        self._bridges = {f"br-{key}" for key in docker("network", "ls", "-q", "--filter", label).split()}
        own = self._space(os.getpid())
        self._links = {space for pid, _ in self._processes if (space := self._space(pid)) not in ("", own)}
        self.taps = sum(self._count(pid) for pid in self._inside().values())

    def left(self) -> list[str]:
        """What of it is still there."""
        mounted = Path("/proc/self/mountinfo").read_text()  # the engine unlinks the file of a namespace a minute later
        found = [path for path in self._spaces if f"/{Path(path).name} " in mounted]
        found += [f"{space} of process {pid}" for space, pid in self._inside().items()]
        found += [name for name in self._bridges if Path("/sys/class/net", name).exists()]
        for (pid, created), name in self._processes.items():
            with contextlib.suppress(psutil.NoSuchProcess):
                if psutil.Process(pid).create_time() == created:
                    found.append(f"process {pid} of {name}")
        return found

    def _inside(self) -> dict[str, int]:
        """A process in each of the namespaces; TAPs last no longer than they do."""
        found: dict[str, int] = {}
        for pid in psutil.pids():
            space = self._space(pid)
            if space in self._links:
                found.setdefault(space, pid)
        return found

    @staticmethod
    def _space(pid: int) -> str:
        try:
            return str(Path(f"/proc/{pid}/ns/net").readlink())
        except OSError:
            return ""

    @staticmethod
    def _count(pid: int) -> int:
        """TAPs in the network namespace of a container's process."""
        return len(list(Path(f"/proc/{pid}/root/sys/class/net").glob("*/tun_flags")))


@contextlib.contextmanager
def built() -> Iterator[None]:
    """The images under the tests' own tag, for as long as the block lasts."""
    try:
        Project.shipped("hello", ROOT / "runs").build()
        yield
    finally:
        found = docker(
            "images", "-q", "--filter", f"reference=continuum-cosim/*:{TAG}*", "--format", "{{.Repository}}:{{.Tag}}"
        )
        if found:
            docker("rmi", *found.split())
