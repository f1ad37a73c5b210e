"""The container engine, by its command `docker`: whether it can be used, and calls that leave no process behind."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial

from cosim.contract.children import end_with
from cosim.contract.errors import SetupError

COMPOSE = (2, 23, 1)  # the first that takes the content of a config from the compose file
ANSWER = 120.0  # s, for the engine to answer
_ENDING = 10.0  # s for a command to end after SIGTERM


def too_old(compose: str) -> bool:
    """Whether a version of compose, as it reports it, is older than `COMPOSE`; False when it cannot be read."""
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", compose)
    return found is not None and tuple(map(int, found.groups())) < COMPOSE


def require_engine() -> None:
    """Raise `SetupError` when there is no `docker compose`, or an old one, or no engine answers."""
    if shutil.which("docker") is None:
        raise SetupError(
            "containers need Docker (or Podman's `docker`) with its compose plugin, and there is no `docker`; "
            "without an engine: --nodes netns"
        )
    compose = _asked("compose", "version", "--short")
    if compose.returncode:
        raise SetupError(
            f"`docker` has no compose plugin: {_last_word(compose)}; "
            "install docker-compose-plugin (Debian: docker-compose)"
        )
    if too_old(compose.stdout.strip()):
        needed = ".".join(map(str, COMPOSE))
        raise SetupError(
            f"`docker compose` is {compose.stdout.strip()}, and {needed} or newer is needed: update its plugin"
        )
    engine = _asked("info")
    if engine.returncode:
        said = next((line for line in _lines(engine) if "permission denied" in line), _last_word(engine))
        remedy = "start the engine (systemctl start docker), or say with DOCKER_HOST where it is"
        if "permission denied" in said:
            remedy = "be a member of its group (sudo usermod -aG docker $USER, then log in again)"
        raise SetupError(f"`docker` reaches no container engine: {said}; {remedy}")


def _last_word(done: subprocess.CompletedProcess[str]) -> str:
    return (_lines(done) or ["it gives no reason"])[-1]


def _lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What a command wrote, errors last: `docker info` of Debian 12 has the reason on the other stream."""
    return [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]


def started(
    command: Sequence[str], environment: Mapping[str, str] | None = None, *, together: bool = False
) -> subprocess.Popen[str]:
    """Start a command that writes to pipes, to one with `together`; it ends with this process, and not by Ctrl-C."""
    # A handler's exception would be lost between fork and exec, so signals wait until the command has started.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if together else subprocess.PIPE, text=True, errors="replace",
            start_new_session=True, preexec_fn=partial(_begin, os.getpid(), before),
        )  # fmt: skip
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(parent: int, signals: set[int]) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, signals)
    end_with(parent)


def call(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    limit: float | None = ANSWER,
    *,
    together: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; when it is interrupted or takes longer than `limit` s, all that it started ends.

    Raises `subprocess.TimeoutExpired`.
    """
    process = started(command, environment, together=together)
    try:
        output, errors = process.communicate(timeout=limit)
    except BaseException:
        end(process)
        raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def end(process: subprocess.Popen[str]) -> None:
    """End what `started` has started, with its children: by SIGTERM first, then by SIGKILL."""
    try:
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(_ENDING)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def has_image(name: str) -> bool:
    """Whether the engine has an image of that name."""
    return _asked("image", "inspect", name).returncode == 0


def _asked(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        return call(["docker", *words])
    except subprocess.TimeoutExpired as error:
        raise SetupError(
            f"`docker {' '.join(words)}` says nothing for {ANSWER:g} s: is the container engine all right?"
        ) from error
