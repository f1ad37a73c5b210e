"""A scenario's real nodes as containers, started from a script: the services of its compose file, without compose.

Everything in the engine carries the label `cosim.deployment`, so that it is found and removed by that, also
what a script leaves that was killed.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import secrets
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from cosim.errors import RunError, SetupError
from cosim.launch.compose import checkout, render
from cosim.launch.model import DONE, HEALTHY, Model, Service, read
from cosim.plan.plan import Plan

DEPLOYMENT, SERVICE = "cosim.deployment", "cosim.service"  # labels
READY = 120.0  # s, for a service that others wait for
ANSWER = 120  # s, for the engine to answer
GRACE = 10  # s for the run to write what it has
REMOVAL = 30.0  # s
_LOOK = 0.1  # s between two looks


@dataclass(frozen=True, slots=True)
class Done:
    """What a command in a container has come to."""

    code: int  # exit code
    output: str  # standard output and standard error, as they came


def engine() -> Any:  # noqa: ANN401 - the package has no types
    """A client of the container engine of this machine, or of DOCKER_HOST.

    Raises `SetupError` when the package is not installed or no engine answers.
    """
    try:
        docker = importlib.import_module("docker")
    except ImportError as error:
        raise SetupError(
            "containers from a script need the package 'docker': pip install 'continuum-cosim[containers]'"
        ) from error
    try:
        client = docker.from_env(timeout=ANSWER)
    except docker.errors.DockerException as error:
        raise _unreachable(error) from error
    try:
        client.ping()
    except (docker.errors.DockerException, OSError) as error:
        client.close()
        raise _unreachable(error) from error
    return client


def _unreachable(error: Exception) -> SetupError:
    where = os.environ.get("DOCKER_HOST", "this machine")
    return SetupError(
        f"no container engine answers at {where}: {error}; start it (systemctl start docker), be a member of its "
        "group, or say with DOCKER_HOST where it is"
    )


def remove(client: Any, name: str) -> None:  # noqa: ANN401
    """Remove the containers, networks and volumes of the deployment `name`.

    Raises `RunError` when something is still there after 30 s.
    """
    chosen = {"filters": {"label": f"{DEPLOYMENT}={name}"}}
    errors = importlib.import_module("docker.errors")
    end = time.monotonic() + REMOVAL
    while True:
        # What was asked for last may come to be only now, so it is looked for until nothing is found.
        found = [
            *((each, {"force": True, "v": True}) for each in client.containers.list(all=True, sparse=True, **chosen)),
            *((each, {}) for each in client.networks.list(**chosen)),
            *((each, {"force": True}) for each in client.volumes.list(**chosen)),
        ]
        if not found:
            return
        problem = ""
        for each, how in found:
            try:
                each.remove(**how)
            except errors.NotFound:
                pass
            except errors.APIError as error:  # still in use by what is being removed
                problem = str(error)
        if problem:
            if time.monotonic() > end:
                raise RunError(f"deployment '{name}' is not wholly removed: {problem}")
            time.sleep(_LOOK)


class Deployment:
    """The services of one scenario, between `start` and `close`; as a context manager both are called.

    `plan` is the compiled scenario and `scenario` its file. `runs` is the folder for results (default: `runs`
    beside the scenario), one for each deployment that is up at the same time. `values` are KEY=VALUE for the run,
    as `--set` takes them; the plan should be compiled with the same ones. `variables` are those of the compose
    file, such as COSIM_TAG, before those of this process. `profiles` names services that are not started by
    themselves (`observability`). Our images have to be built already; others are fetched.
    """

    def __init__(
        self,
        plan: Plan,
        scenario: Path,
        *,
        runs: Path | None = None,
        values: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        profiles: Sequence[str] = (),
    ) -> None:
        """Raises `ScenarioError` when a node cannot be real. Needs no engine yet."""
        scenario = scenario.resolve()
        self.runs = (runs or scenario.parent / "runs").resolve()
        given = {**os.environ, **(variables or {}), "COSIM_RUNS": str(self.runs)}
        text = render(plan, scenario, scenario.parent, checkout(scenario), values)
        self.model: Model = read(text, scenario.parent, given, tuple(profiles))
        self.name = f"cosim-{plan.name}-{secrets.token_hex(4)}"
        self._before = self._folders()
        self._containers: dict[str, Any] = {}
        self._client: Any = None

    @property
    def services(self) -> tuple[str, ...]:
        """Their names, in the order in which they are started."""
        return tuple(service.name for service in self.model.services)

    @property
    def folder(self) -> Path:
        """The newest folder of results that was not there before. Raises `RunError` when there is none yet."""
        found = self._folders() - self._before
        if not found:
            raise RunError(f"there are no results in {self.runs} yet")
        return max(found)

    def __enter__(self) -> Deployment:
        """Start everything."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove everything."""
        self.close()

    def start(self) -> None:
        """Start everything, in order; whatever goes wrong, and when interrupted, nothing is left.

        Raises `SetupError` when no engine answers or an image is not there, `RunError` when a service that others
        wait for ends or does not get ready, and what the engine says (`docker.errors.APIError`).
        """
        self._client = engine()
        try:
            self._images()
            self.runs.mkdir(parents=True, exist_ok=True)
            labels = {DEPLOYMENT: self.name}
            for name, how in self.model.networks.items():
                if any(name in service.networks for service in self.model.services):
                    self._client.networks.create(f"{self.name}_{name}", labels=labels, **how)
            for name, how in self.model.volumes.items():
                self._client.volumes.create(f"{self.name}_{name}", labels=labels, **how)
            for service in self.model.services:
                self._start(service)
        except BaseException:
            self.close()
            raise

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the run, for `timeout` s at most; its exit code. Raises `TimeoutError`."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            state = self._state("orchestrator")
            if state["Status"] in ("exited", "dead"):
                return int(state["ExitCode"])
            if end is not None and time.monotonic() > end:
                raise TimeoutError(f"the run of '{self.name}' has not ended after {timeout:g} s")
            time.sleep(_LOOK)

    def logs(self, service: str) -> str:
        """What the service has written so far."""
        text: bytes = self._container(service).logs()
        return text.decode(errors="replace")

    def run(self, service: str, command: Sequence[str]) -> Done:
        """Run a command in the service's container and wait for its end; it must not be silent for two minutes."""
        code, output = self._container(service).exec_run(list(command))
        return Done(int(code), output.decode(errors="replace"))

    def kill(self, service: str, signal: str = "KILL") -> None:
        """Send the container a signal. It is not started again by itself, see `restart`."""
        self._container(service).kill(signal=signal)

    def restart(self, service: str) -> None:
        """End the service at once if it runs, and start it again."""
        self._container(service).restart(timeout=0)

    def address(self, service: str, port: int) -> str:
        """HOST:PORT of this machine where a TCP port of the service is. Raises `RunError` when it is not shown."""
        container = self._container(service)
        container.reload()
        bound = container.ports.get(f"{port}/tcp")
        if not bound:
            raise RunError(f"port {port} of '{service}' is not shown on this machine")
        return f"{bound[0]['HostIp']}:{bound[0]['HostPort']}"

    def close(self) -> None:
        """End the run, let it write what it has, and remove containers, networks and volumes."""
        if self._client is None:
            return
        try:
            run = self._containers.get("orchestrator")
            if run is not None:
                with contextlib.suppress(importlib.import_module("docker.errors").APIError):
                    run.stop(timeout=GRACE)
        finally:
            self._containers = {}
            remove(self._client, self.name)
            self._client.close()
            self._client = None

    def _folders(self) -> set[Path]:
        return {path.parent for path in self.runs.glob("*/*/manifest.json")}

    def _container(self, service: str) -> Any:  # noqa: ANN401
        if service not in self._containers:
            there = ", ".join(self._containers) or "none, it is not started"
            raise RunError(f"there is no service '{service}' in the deployment ({there})")
        return self._containers[service]

    def _state(self, service: str) -> dict[str, Any]:
        container = self._container(service)
        container.reload()
        found: dict[str, Any] = container.attrs["State"]
        return found

    def _images(self) -> None:
        errors = importlib.import_module("docker.errors")
        for image in sorted({service.image for service in self.model.services}):
            try:
                self._client.images.get(image)
            except errors.ImageNotFound as missing:
                if image.startswith("continuum-cosim/"):
                    raise SetupError(
                        f"image '{image}' is not built yet: `docker compose build` in the checkout"
                    ) from missing
                try:
                    self._client.images.pull(image)
                except errors.APIError as error:
                    raise SetupError(f"image '{image}' is neither here nor can it be fetched: {error}") from error

    def _start(self, service: Service) -> None:
        for other, condition in service.after.items():
            if condition in (HEALTHY, DONE):
                self._await(other, condition)
        how = dict(service.arguments)
        networks = [f"{self.name}_{name}" for name in service.networks]
        if service.joins:
            how["network_mode"] = f"container:{self._containers[service.joins].id}"
        elif networks:
            card = self._client.api.create_endpoint_config(aliases=[service.name])
            how |= {"network": networks[0], "networking_config": {networks[0]: card}}
        container = self._client.containers.create(
            service.image,
            name=f"{self.name}-{service.name}",
            labels={DEPLOYMENT: self.name, SERVICE: service.name},
            volumes=[f"{self.name}_{name}:{target}" for name, target in service.volumes]
            + [f"{folder}:{target}" for folder, target in service.folders],
            **how,
        )
        self._containers[service.name] = container
        for network in networks[1:]:
            self._client.networks.get(network).connect(container, aliases=[service.name])
        for path, content in service.files:
            container.put_archive("/", _archive(path, content))
        container.start()

    def _await(self, service: str, condition: str) -> None:
        end = time.monotonic() + READY
        while True:
            state = self._state(service)
            if condition == DONE and state["Status"] == "exited" and state["ExitCode"] == 0:
                return
            if condition == HEALTHY and state.get("Health", {}).get("Status") == "healthy":
                return
            over = state["Status"] in ("exited", "dead")
            if over or time.monotonic() > end:
                said = self.logs(service)[-2000:]
                raise RunError(
                    f"service '{service}' "
                    + (f"has ended with exit code {state['ExitCode']}" if over else f"is not ready after {READY:g} s")
                    + f": {said}"
                )
            time.sleep(_LOOK)


def _archive(path: str, content: str) -> bytes:
    """One file as a tar archive for the root of a container."""
    data = content.encode()
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w") as archive:
        entry = tarfile.TarInfo(path.lstrip("/"))
        entry.size, entry.mode = len(data), 0o444
        archive.addfile(entry, io.BytesIO(data))
    return found.getvalue()
