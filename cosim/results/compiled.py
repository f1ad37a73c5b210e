"""Compile first: machine code is ready before a run's clock, endpoints and time limits start."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from cosim.contract.adapter import AdapterKind
from cosim.contract.children import end_with
from cosim.contract.registry import adapter_kind

log = logging.getLogger("cosim.run")


def uncompiled(names: Iterable[str]) -> list[str]:
    """Those of the adapters `names` that will compile code at their first use on this machine."""
    return [kind.name for _, kind in _cold(names)]


def compile_first(names: Iterable[str], say: Callable[[str], None]) -> float:
    """Have the code of the adapters `names` compiled into the cache; the seconds of wall clock that it took.

    An adapter that needs it lives through two steps of its own example; several share the cores. Later processes
    load from the cache what was compiled here. 0.0 when everything was there.
    """
    from cosim.bus import scan

    begun = monotonic()
    cold = _cold(names)
    new = not scan.compiled()
    if cold:
        some = " and ".join(kind.name for _, kind in cold)
        say(f"compiling {some}; this happens once per installation and takes up to half a minute")
    with _compiled_apart([name for name, _ in cold]) as left:
        scan.compile_all()
        for name in left:
            _rehearse(name)
    if not cold and not new:
        return 0.0
    seconds = monotonic() - begun
    if cold:
        say(f"compiled in {seconds:.1f} s")
    return seconds


def _cold(names: Iterable[str]) -> list[tuple[str, AdapterKind]]:
    kinds = {name: adapter_kind(name) for name in sorted(set(names))}
    return [
        (name, kind)
        for name, kind in kinds.items()
        if not any(requirement.missing() for requirement in kind.requires) and not kind.is_compiled()
    ]


@contextmanager
def _compiled_apart(names: list[str]) -> Iterator[list[str]]:
    """Those of `names` that are left for this process, while fresh interpreters on the other cores compile the rest."""
    cores = max(1, min(len(names), len(os.sched_getaffinity(0))))
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}
    command = [sys.executable, "-c", f"from {__name__} import rehearse_share; rehearse_share()", str(os.getpid())]
    quiet = subprocess.DEVNULL
    started: list[subprocess.Popen[bytes]] = []
    try:
        for core in range(1, cores):
            share = [*command, *names[core::cores]]
            started.append(subprocess.Popen(share, env=settings, stdin=quiet, stdout=quiet, stderr=quiet))
        yield names[::cores]
        for process in started:
            process.wait()
    finally:
        for process in started:
            process.kill()
            process.wait()


def _rehearse(name: str) -> None:
    from cosim.testing import rehearse

    try:
        rehearse(adapter_kind(name))
    except Exception:
        log.info("adapter '%s' cannot be compiled ahead; it compiles when it starts", name, exc_info=True)


def rehearse_share() -> None:
    """What a process on another core does: compile the adapters of its command line, as long as the first one lives."""
    end_with(int(sys.argv[1]))
    for name in sys.argv[2:]:
        _rehearse(name)
