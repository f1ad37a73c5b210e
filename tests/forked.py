"""Commands in processes of their own that begin at once.

`python -m cosim run` spends two seconds of a processor on imports and on loading machine code, before it does what
a test looks at. Here a process that has imported all of it waits, one for each process of tests, and every command
is a fork of it: with its own folder, environment, arguments and streams, and an exit code. For another value of what
is read before imports (`PYTHONPATH`, `PYTHONHASHSEED`, `NUMBA_*`, `COSIM_CACHE`) an interpreter starts after all. A
test of what is imported, or of signals and several processes at a time, starts its own.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
BEFORE_IMPORTS = ("PYTHON", "NUMBA_", "COSIM_CACHE", "XDG_CACHE_HOME", "OPENBLAS_", "LD_")


class Forks:
    """Runs modules as `python -m` does, in forks of a process that has imported others.

    Variables of the environment whose names start with one of `early` are read by what is imported. Modules come from
    the checkout `root`, which has this file too.
    """

    def __init__(self, *imported: str, early: tuple[str, ...] = BEFORE_IMPORTS, root: Path = ROOT) -> None:
        self.root = root
        self._imported, self._early = imported, early
        self._server: subprocess.Popen[bytes] | None = None

    def run(
        self, module: str, *arguments: object, cwd: Path = ROOT, env: Mapping[str, str] | None = None,
        reported: str = "", timeout: float = 250.0,
    ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """What `python -m module arguments` answers in the folder `cwd` to `reported` at its input.

        Raises `TimeoutExpired` after `timeout` seconds, when it has been killed.
        """
        words = [module, *map(str, arguments)]
        own = self._environment()
        env = own if env is None else env
        if self._early_of(env) != self._early_of(own):
            return subprocess.run(
                [sys.executable, "-m", *words],
                cwd=cwd,
                env={**env, "PYTHONPATH": os.pathsep.join(filter(None, [env.get("PYTHONPATH"), str(self.root)]))},
                input=reported,
                text=True,
                capture_output=True,
                timeout=timeout,
                check=False,
            )
        with tempfile.TemporaryDirectory(prefix="cosim-fork-") as folder:
            streams = [Path(folder) / name for name in ("in", "out", "err")]
            streams[0].write_text(reported, encoding="utf-8")
            job = {"words": words, "cwd": str(cwd), "env": dict(env), "streams": [str(path) for path in streams]}
            job["niceness"] = os.getpriority(os.PRIO_PROCESS, 0)
            code = self._ask(job, timeout)
            said, complained = (path.read_text(encoding="utf-8", errors="replace") for path in streams[1:])
        if code is None:
            raise subprocess.TimeoutExpired(words, timeout, said, complained)
        return subprocess.CompletedProcess(words, code, said, complained)

    def _environment(self) -> Mapping[str, str]:
        return os.environ if self.root == ROOT else {**os.environ, "PYTHONPATH": str(self.root)}

    def _early_of(self, env: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in env.items() if name.startswith(self._early)}

    def _ask(self, job: Mapping[str, Any], timeout: float) -> int | None:
        """The exit code, negative after a signal; None if it was killed at its time limit."""
        if self._server is None or self._server.poll() is not None:
            command = [sys.executable, "-m", "tests.forked", *self._imported]
            pipe, env = subprocess.PIPE, self._environment()
            self._server = subprocess.Popen(command, cwd=self.root, env=env, stdin=pipe, stdout=pipe, bufsize=0)
            atexit.register(_end, self._server)
        to, fro = self._server.stdin, self._server.stdout
        assert to is not None
        assert fro is not None
        line = json.dumps(job).encode() + b"\n"
        while line:
            line = line[to.write(line) :]
        pid = int(fro.readline())
        try:
            late = not select.select([fro], [], [], timeout)[0]
        except BaseException:  # Ctrl-C, or the limit of the test
            os.kill(pid, signal.SIGKILL)
            fro.readline()
            raise
        if late:
            os.kill(pid, signal.SIGKILL)
        code = int(fro.readline())
        return None if late else code


# What a run of the shipped scenarios loads, and a report after it.
COSIM = Forks(
    "cosim.cli.main", "cosim.results.session", "cosim.results.compiled", "cosim.results.convert",
    "cosim.scenario.plan.compile", "cosim.bus.loop_driver", "cosim.bus.mosaik_driver",
    "cosim.report.write", "cosim.report.compare", "pandas",
    *(f"cosim.adapters.{name}.{module}"
      for name in ("continuum", "radio", "vehicle", "wifi", "replay", "live", "network", "telemetry")
      for module in ("config", "check", "adapter")),
)  # fmt: skip


def cosim(
    *arguments: object, cwd: Path = ROOT, env: Mapping[str, str] = os.environ, timeout: float = 250.0
) -> subprocess.CompletedProcess[str]:
    """What `cosim ARGUMENTS` says in the folder `cwd`, to a terminal of 120 columns without colours."""
    return COSIM.run("cosim", *arguments, cwd=cwd, env={**env, "COLUMNS": "120", "TERM": "dumb"}, timeout=timeout)


def _end(server: subprocess.Popen[bytes]) -> None:
    server.communicate()  # it ends when nobody can ask any more


def _serve(answers: int) -> dict[str, Any] | None:
    """Fork for each line of the input and tell how each fork ended; in a fork its job, and at the end None."""
    for line in iter(sys.stdin.buffer.readline, b""):
        if (pid := os.fork()) == 0:
            return json.loads(line)
        os.write(answers, b"%d\n" % pid)
        os.write(answers, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    return None


def _become(job: Mapping[str, Any]) -> None:
    """Be the process that the job wants."""
    flags = os.O_WRONLY | os.O_CREAT
    for number, (path, how) in enumerate(zip(job["streams"], (os.O_RDONLY, flags, flags), strict=True)):
        file = os.open(path, how, 0o600)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - the one before has read ahead
    if os.geteuid() == 0:  # the process that has imported all has the priority of the test that was first
        os.setpriority(os.PRIO_PROCESS, 0, job["niceness"])
    os.environ.clear()
    os.environ.update(job["env"])
    os.chdir(job["cwd"])
    sys.path[0] = job["cwd"]
    if job["cwd"] != str(ROOT):
        sys.path.insert(1, str(ROOT))
    importlib.invalidate_caches()
    module, *arguments = job["words"]
    sys.argv = [module, *arguments]
    code = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ending:
        if isinstance(ending.code, str):
            raise
        code = ending.code or 0
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End the fork as Python does, without freeing one by one the objects of all that its server has imported."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _ready(names: Sequence[str]) -> None:
    """Import what is named and make it ready: machine code of adapters by their examples, models by a check."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:  # an extra that is not installed
            continue
    if "cosim.adapters.continuum.adapter" in names:
        from cosim.contract import registry
        from cosim.testing import rehearse

        for adapter in ("continuum", "radio"):
            rehearse(registry.adapter_kind(adapter))
    if "cosim.cli.main" in names:  # commands are imported and models of scenarios made when they are used first
        from typer.testing import CliRunner

        from cosim.cli.main import app

        CliRunner().invoke(app, ["check", str(ROOT / "scenarios/hello")])
    gc.collect()
    gc.freeze()  # pages with objects stay those of all forks


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which end it
    answers = os.dup(1)
    os.dup2(2, 1)  # some print when they are imported
    _ready(sys.argv[1:])
    if (job := _serve(answers)) is None:
        os._exit(0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _become(job)
