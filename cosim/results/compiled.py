"""Compile first: machine code is ready before a run's clock, endpoints and time limits start."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from time import monotonic

from cosim.contract.adapter import AdapterKind
from cosim.contract.registry import adapter_kind

log = logging.getLogger("cosim.run")


def uncompiled(names: Iterable[str]) -> list[str]:
    """Those of the adapters `names` that will compile code at their first use on this machine."""
    return [kind.name for _, kind in _cold(names)]


def compile_first(names: Iterable[str], say: Callable[[str], None]) -> float:
    """Have the code of the adapters `names` compiled into the cache; the seconds of wall clock that it took.

    An adapter that needs it lives through two steps of its own example. Those in other processes then
    load from the cache what was compiled here. 0.0 when everything was there.
    """
    from cosim.bus import scan

    begun = monotonic()
    cold = _cold(names)
    new = not scan.compiled()
    if cold:
        some = " and ".join(kind.name for _, kind in cold)
        say(f"compiling {some}; this happens once per installation and takes up to half a minute")
    scan.compile_all()
    for name, kind in cold:
        _rehearse(name, kind)
    if not cold and not new:
        return 0.0
    seconds = monotonic() - begun
    if cold:
        say(f"compiled in {seconds:.1f} s; the run starts now")
    return seconds


def _cold(names: Iterable[str]) -> list[tuple[str, AdapterKind]]:
    kinds = {name: adapter_kind(name) for name in sorted(set(names))}
    return [
        (name, kind)
        for name, kind in kinds.items()
        if not any(requirement.missing() for requirement in kind.requires) and not kind.is_compiled()
    ]


def _rehearse(name: str, kind: AdapterKind) -> None:
    from cosim.testing import rehearse

    try:
        rehearse(kind)
    except Exception:
        log.info("adapter '%s' cannot be compiled ahead; it compiles when it starts", name, exc_info=True)
