"""A scenario's real nodes as containers: its compose project, started, followed and removed from Python.

`docker compose` does the work. A project has a name of its own, so that several can be up at a time. What a killed
process leaves is removed by its keeper (`cosim.testbed.launch.cleanup`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosim.contract.errors import RunError, SetupError
from cosim.contract.handlers import handled
from cosim.scenario.plan.plan import Plan
from cosim.testbed.emulation.netns import run_of
from cosim.testbed.launch import cleanup
from cosim.testbed.launch.cleanup import RUN
from cosim.testbed.launch.compose import checkout, render
from cosim.testbed.launch.engine import ANSWER, call, end, has_image, require_engine, started
from cosim.testbed.launch.held import HeldFolder, place
from cosim.testbed.launch.sources import brings_sources, lay_out

OURS = "continuum-cosim/"  # names of images that are never pulled begin so
CLEARED = "\x1b[2K"  # with which compose begins lines of logs, to pipes as well
STARTING = 300.0  # s, for all containers to be up
BUILDING = 3600.0  # s, for images that are not in the cache
BUILD = "building images"
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # what ends a run
LOG = "containers.log"  # in the folder of logs of a run
_KEPT = 10_000  # lines of each container in it
_LAST = 25  # lines of a build that failed
_STEP = re.compile(r"^#\d+ \[(?:\S+ )?(\S+ +\d+/\d+)\]|^STEP (\d+/\d+)")  # of BuildKit, of Podman
_CERTIFICATES = "hint: if your network intercepts TLS, set COSIM_CA=/etc/ssl/certs/ca-certificates.crt, or its file"


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command in a container has come to."""

    code: int  # exit code
    output: str  # standard output and standard error, as they came


class Deployment:
    """The services of one scenario, between `start` and `close`; a context manager calls both.

    `plan` is the compiled scenario and `scenario` its file. `runs` is the folder for results (default: `runs`
    beside the scenario). `values` are KEY=VALUE for the run, as `--set` takes them; the plan should be compiled with
    the same ones. `options` are further words of `cosim run`, such as --no-report. `variables` are those of the compose
    file, such as COSIM_TAG, and take precedence over those of this process. `profiles` names services that are not
    started by default (`observability`). With `build` the images are built first, from the checkout, or from the
    installed package when one of ours is missing; otherwise ours must exist already. `progress` is called with the
    current activity at each of its steps, often while images are built. `say` is called with what the person at the
    terminal should know: that containers are removed that a killed process and its keeper left behind.
    """

    def __init__(
        self,
        plan: Plan,
        scenario: Path,
        *,
        runs: Path | None = None,
        values: Sequence[str] = (),
        options: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        profiles: Sequence[str] = (),
        build: bool = False,
        progress: Callable[[str], None] = lambda _text: None,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Raises `ScenarioError` when a node cannot be real. Needs no engine yet."""
        scenario = scenario.resolve()
        self.runs = (runs or scenario.parent / "runs").resolve()
        self.name = f"cosim-{plan.name}-{secrets.token_hex(4)}"
        self._sources: Path | None = None  # where an installed package is laid out
        repository = checkout(scenario)
        if repository is None and build and brings_sources():
            self._sources = repository = place(self.name) / "checkout"
        self._text = render(plan, scenario, scenario.parent, repository, values, options)
        self._root, self._build = scenario.parent, build and repository is not None
        self._profiles = [word for profile in profiles for word in ("--profile", profile)]
        own = {"COSIM_RUNS": str(self.runs), "COSIM_PROJECT": self.name, "COSIM_AFTERWARDS": ""}
        usual = {**os.environ, "COSIM_SET": ""}  # `values` are used instead, and the plan is compiled with them
        run = {cleanup.VARIABLE: run_of(os.getpid())}
        self._environment = {**usual, **(variables or {}), **own, **run}
        self._progress, self._say = progress, say
        self._before = self._folders()
        self._held: HeldFolder | None = None
        self._keeper: subprocess.Popen[bytes] | None = None
        self._file: Path | None = None

    @property
    def services(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self._compose("config", "--services").split())

    @property
    def missing(self) -> tuple[str, ...]:
        """Images of ours that the engine does not have."""
        ours = {name for name in self._compose("config", "--images").split() if name.startswith(OURS)}
        return tuple(name for name in sorted(ours) if not has_image(name))

    @property
    def restarts(self) -> tuple[str, ...]:
        """Services whose program ended and was started again: how often, and how it ended last, in words."""
        containers = self._compose("ps", "--all", "--quiet").split()
        done = call(["docker", "inspect", *containers], self._environment)
        found = []
        for one in json.loads(done.stdout or "[]"):
            count, state = one.get("RestartCount", 0), one["State"]
            if count:
                service = one["Config"]["Labels"]["com.docker.compose.service"]
                text = f"{service} was started again {'once' if count == 1 else f'{count} times'}"
                if not state.get("Running") or state.get("Restarting"):
                    limit = one["HostConfig"].get("Memory", 0)
                    memory = f", out of memory: it has {limit / 1e6:.0f} MB" if state.get("OOMKilled") else ""
                    text += f"; it last ended with exit code {state['ExitCode']}{memory}"
                found.append(text)
        return tuple(found)

    @property
    def folder(self) -> Path:
        """The newest folder of results that was not there before. Raises `RunError` when there is none yet."""
        found = {path for path in self._folders() - self._before if _project(path) in ("", self.name)}
        if not found:
            raise RunError(f"there are no results in {self.runs} yet")
        return max(found)

    def __enter__(self) -> Deployment:
        """Start everything."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove everything."""
        self.close()

    def start(self) -> None:
        """Start everything; whatever goes wrong, and when interrupted, nothing is left.

        Raises `SetupError` when no engine answers or results cannot be written, `RunError` when an image is missing or
        a service does not start.
        """
        require_engine()
        cleanup.remove_left(say=self._say)
        try:
            self._write()
            self._provide_images()
            self._progress("starting containers")
            self._up()
        except BaseException:
            self.close()
            raise

    def provide_images(self) -> None:
        """Build images as `start` does, and start nothing."""
        require_engine()
        try:
            self._write()
            self._provide_images()
        finally:
            self._forget()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the run, for `timeout` s at most; its exit code. Raises `TimeoutError`.

        The engine reports the end, since each poll by compose costs as much as a vehicle does in seconds.
        """
        container = self._compose("ps", "--all", "--quiet", RUN).strip()
        if not container:
            raise RunError(f"there is no service '{RUN}' in the deployment")
        try:
            done = call(["docker", "wait", container], self._environment, timeout)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"the run of '{self.name}' has not ended after {timeout:g} s") from error
        code = done.stdout.strip()
        if not code.isdecimal():
            raise RunError(f"`docker wait` of the run of '{self.name}' failed: {done.stderr.strip()[-2000:]}")
        return int(code)

    def state(self, service: str) -> Mapping[str, object]:
        """What compose knows of a service's container: State, Health, ExitCode and more."""
        for line in self._compose("ps", "--all", "--format", "json", service).splitlines():
            found: dict[str, object] | list[dict[str, object]] = json.loads(line)
            return found[0] if isinstance(found, list) else found
        raise RunError(f"there is no service '{service}' in the deployment")

    def logs(self, service: str) -> str:
        """What the service has written so far."""
        return self._compose("logs", "--no-color", "--no-log-prefix", service).replace(CLEARED, "")

    def follow(self, service: str = RUN) -> subprocess.Popen[str]:
        """A process that writes what the service writes, from its start to its end, to the same one of its two pipes.

        Ctrl-C at the terminal does not end it, so that the last words of a service are heard.
        """
        container = self._compose("ps", "--all", "--quiet", service).strip()
        return started(["docker", "logs", "--follow", container], self._environment)

    def run(self, service: str, command: Sequence[str]) -> CommandResult:
        """Run a command in the service's container and wait for its end."""
        done = call(self._command("exec", "-T", service, *command), self._environment, None, together=True)
        return CommandResult(done.returncode, done.stdout)

    def kill(self, service: str, signal: str = "KILL") -> None:
        """Send the container a signal. It is not started again by itself, see `restart`."""
        self._compose("kill", "--signal", signal, service)

    def restart(self, service: str) -> None:
        """End the service at once if it runs, and start it again."""
        self._compose("restart", "--no-deps", "--timeout", "0", service)

    def address(self, service: str, port: int) -> str:
        """HOST:PORT of this machine where a TCP port of the service is. Raises `RunError` when it is not shown."""
        found = self._compose("port", service, str(port)).strip()
        if not found or found.endswith(":0"):
            raise RunError(f"port {port} of '{service}' is not shown on this machine")
        return found

    def stop(self) -> None:
        """End the run, and wait until it has written what it has, for a minute at most."""
        cleanup.stop(self._command(), self._environment)

    def close(self) -> None:
        """End the run as `stop` does, and remove containers, networks and volumes."""
        if self._file is None:
            self._forget()
            return
        try:
            with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C here loses what the run has not written yet
                self.stop()
                self._keep_logs()
            with _undisturbed():
                self._compose("down", "--volumes", "--timeout", "1")
        except BaseException as error:  # containers may be there still
            if self._held is not None:
                self._held.let_go()
            if isinstance(error, RunError):
                again = f"the next start tries again, and so does `docker compose -p {self.name} down -v`"
                raise RunError(f"{error}; {again}") from error
            raise
        finally:
            self._forget()

    def _write(self) -> None:
        """Write the compose file into a folder that others find when this process is killed."""
        self.runs.mkdir(parents=True, exist_ok=True)
        if not os.access(self.runs, os.W_OK | os.X_OK):
            raise SetupError(f"results cannot be written into {self.runs}: name another folder by --out")
        self._held = HeldFolder.create(self.name)
        self._keeper = cleanup.keeper(self._environment[cleanup.VARIABLE], self.name)
        self._file = cleanup.note_project(self._held.path, self._text)

    def _forget(self) -> None:
        """Remove the folder with the compose file."""
        self._file = None
        if self._held is not None:
            self._held.remove()
            self._held = None
        if self._keeper is not None:
            self._keeper.kill()
            self._keeper.wait()
            self._keeper = None

    def _provide_images(self) -> None:
        if self._build and (self._sources is None or self.missing):
            if self._sources is not None:
                lay_out(self._sources)
            self._build_images()
        elif self.missing:
            raise RunError(
                f"there is no image {', '.join(self.missing)}: `docker compose build` in a checkout makes it, "
                "`docker save` and `docker load` bring it from another machine, and COSIM_TAG names another tag"
            )

    def _up(self) -> None:
        """Start the containers. Raises `RunError` with a remedy."""
        try:
            self._compose("up", "--detach", "--no-build", "--quiet-pull", limit=STARTING)
        except RunError as error:
            text = str(error)
            if "address already in use" in text or "port is already allocated" in text:
                ports = "COSIM_DASHBOARD, COSIM_ATTACH, COSIM_GRAFANA and COSIM_PROMETHEUS name others"
                raise RunError(f"{text}; a port of this machine is in use: {ports}") from error
            names = dict.fromkeys(self._compose("config", "--images").split())
            missing = [name for name in names if not has_image(name)]
            if missing:
                raise RunError(f"there is no image {', '.join(missing)}, and it cannot be pulled: {text}") from error
            raise

    def _keep_logs(self) -> None:
        """Write the containers' logs into the folder of results; removing the containers would delete them."""
        with contextlib.suppress(RunError, OSError):
            file = self.folder / "logs" / LOG
            file.write_text(self._compose("logs", "--no-color", "--tail", str(_KEPT)).replace(CLEARED, ""), "utf-8")

    def _folders(self) -> set[Path]:
        return {path.parent for path in self.runs.glob("*/*/manifest.json")}

    def _command(self, *words: str) -> list[str]:
        if self._file is None:
            raise RunError("the deployment is not started")
        place = ["--project-directory", str(self._root), "--file", str(self._file)]
        return ["docker", "compose", "--project-name", self.name, *place, *self._profiles, *words]

    def _build_images(self) -> None:
        """Have compose build, and report every step. Raises `RunError` with its last output when it fails."""
        self._progress(BUILD)
        plain = {**self._environment, "COMPOSE_PROGRESS": "plain", "BUILDKIT_PROGRESS": "plain"}
        process = started(self._command("build"), plain, together=True)
        assert process.stdout is not None
        last: deque[str] = deque(maxlen=_LAST)
        limit = threading.Timer(BUILDING, os.killpg, (process.pid, signal.SIGKILL))
        limit.start()
        step, hint = BUILD, ""
        try:
            with process.stdout:
                for line in process.stdout:
                    last.append(re.sub(r"^#\d+ (\d+\.\d+ )?", "", line))
                    hint = _CERTIFICATES if "certificate verify failed" in line.lower() else hint
                    found = _STEP.search(line)
                    step = f"{BUILD}, {found[1] or found[2]}" if found else step
                    self._progress(step)
            process.wait()
        finally:
            limit.cancel()
            if process.poll() is None:
                end(process)
        if process.returncode:
            text, _, _ = "".join(last).partition("\n------")  # what follows repeats it
            raise RunError(f"the images cannot be built:\n{text.strip()}\n{hint}".rstrip())

    def _compose(self, *words: str, limit: float = ANSWER) -> str:
        """What `docker compose WORDS` prints. Raises `RunError` when it fails or takes longer than `limit` s."""
        environment = {**self._environment, "COMPOSE_PROGRESS": "quiet"}
        try:
            done = call(self._command(*words), environment, limit)
        except subprocess.TimeoutExpired as error:
            raise RunError(f"`docker compose {words[0]}` of '{self.name}' takes longer than {limit:g} s") from error
        if done.returncode:
            errors = [line.strip() for line in done.stderr.splitlines() if line.startswith("Error")]  # among progress
            said = " ".join(errors) or done.stderr.strip()[-2000:]
            raise RunError(f"`docker compose {words[0]}` of '{self.name}' failed: {said}")
        return done.stdout


def _project(folder: Path) -> str:
    """The project whose run wrote a folder of results; "" where that is not known."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return str(json.loads((folder / ".origin").read_text(encoding="utf-8")).get("project", ""))
    return ""


def _undisturbed() -> contextlib.AbstractContextManager[None]:
    """Neither this process nor those that it starts meanwhile hear Ctrl-C, SIGTERM or the end of the terminal."""
    return handled(signal.SIG_IGN, ENDS)
