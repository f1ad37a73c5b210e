"""Nodes as network namespaces of this machine, for emulation without containers (needs root or CAP_SYS_ADMIN).

A namespace is named cosim-RUN-NODE, where RUN is the process that made it: its number and its start time.
So leftovers of a crash can be distinguished from what is in use: `leftovers` lists them, `delete` removes them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeVar

from cosim.contract.errors import SetupError

FOLDER = Path("/run/netns")
LIMIT = 30.0  # s for a call of `ip`
CLONE_NEWNET = 0x40000000
_NAME = re.compile(r"cosim-([0-9a-f]+)x([0-9a-f]+)-([A-Za-z0-9_.-]{1,64})")
_NODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")

T = TypeVar("T")


def inside(namespace: Path | None, call: Callable[[], T]) -> T:
    """What `call` returns when it is called inside a network namespace, given by its file; None: this one.

    The call is made in a thread of its own, which takes the namespace with it when it ends. SetupError when
    the namespace cannot be entered.
    """
    if namespace is None:
        return call()
    result: list[T] = []
    failure: list[BaseException] = []

    def enter() -> None:
        try:
            with namespace.open("rb") as file:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(file.fileno(), CLONE_NEWNET):
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number))
        except OSError as error:
            failure.append(
                SetupError(
                    f"cannot enter the network namespace {namespace}: {error.strerror}; this needs CAP_SYS_ADMIN "
                    "(and for a namespace of another process CAP_SYS_PTRACE), for example root"
                )
            )
            return
        try:
            result.append(call())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread of the caller
            failure.append(error)

    thread = threading.Thread(target=enter, name="netns")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]


class Namespaces(contextlib.AbstractContextManager["Namespaces"]):
    """The namespaces of this run; all of them, and the processes started in them, are gone after `close`."""

    def __init__(self) -> None:
        if shutil.which("ip") is None:
            raise SetupError("no program 'ip'; install iproute2")
        self._run = run_of(os.getpid())
        self._names: dict[str, str] = {}  # node -> name
        self._processes: list[subprocess.Popen[bytes]] = []

    def create(self, node: str) -> Path:
        """Make a node's namespace, anew if there is one, with its loopback interface up; its file, for `inside`."""
        if not _NODE.fullmatch(node):
            raise SetupError(f"'{node}' cannot name a namespace: letters, digits, _ . and -, at most 64")
        name = f"cosim-{self._run}-{node}"
        if (FOLDER / name).exists():
            delete(name)
        _ip("netns", "add", name)
        self._names[node] = name
        _ip("-n", name, "link", "set", "lo", "up")
        return FOLDER / name

    def delete(self, node: str) -> None:
        """Take a node's namespace away. Unknown nodes are no error."""
        name = self._names.pop(node, None)
        if name:
            delete(name)

    def start(
        self,
        node: str,
        command: Sequence[str],
        *,
        stdin: int | IO[bytes] | None = subprocess.DEVNULL,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a program inside a node, in a process group of its own."""
        process = subprocess.Popen(
            ["ip", "netns", "exec", self._names[node], *command],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=env,
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    def run(
        self, node: str, command: Sequence[str], limit: float = 60.0, text: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a program inside a node to its end, for `limit` s at most; its output is in the result.

        `text` is its standard input.
        """
        return subprocess.run(
            ["ip", "netns", "exec", self._names[node], *command],
            input=text,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """End what runs in the namespaces and take them away; may be called twice."""
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()
        self._processes.clear()
        for node in list(self._names):
            self.delete(node)


def leftovers() -> list[str]:
    """Names of namespaces whose run is over."""
    found = []
    for path in FOLDER.iterdir() if FOLDER.is_dir() else ():
        match = _NAME.fullmatch(path.name)
        if match and run_of(int(match[1], 16)) != f"{match[1]}x{match[2]}":
            found.append(path.name)
    return sorted(found)


def delete(name: str) -> None:
    """Take a namespace away by its name; only those of this program."""
    if not _NAME.fullmatch(name):
        raise SetupError(f"'{name}' is no namespace of this program; those are named cosim-RUN-NODE")
    _ip("netns", "delete", name)


def run_of(process: int) -> str:
    """The RUN of a process: number and start time (clock ticks after boot), hexadecimal; "" when it has ended."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    return f"{process:x}x{int(stat.rpartition(')')[2].split()[19]):x}"


def _ip(*arguments: str) -> None:
    done = subprocess.run(
        ["ip", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    if done.returncode:
        hint = "; this needs root" if os.geteuid() else ""
        raise SetupError(f"ip {' '.join(arguments)}: {done.stderr.strip() or f'exit code {done.returncode}'}{hint}")
