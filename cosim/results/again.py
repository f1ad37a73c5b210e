"""A run made again up to a tick, to be branched there: nothing is recorded, and the run itself is not touched."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from cosim.bus.branch import AdapterState, SharedAdapter, adapter_states, branch
from cosim.bus.runtime import Observer, Runtime
from cosim.contract.errors import Problem, ScenarioError
from cosim.results.compiled import compile_first
from cosim.results.session import build_adapters
from cosim.scenario.plan.catalogue import signals_of
from cosim.scenario.plan.plan import Plan

log = logging.getLogger("cosim.run")


@contextmanager
def made_again(
    plan: Plan,
    now: float,
    signals: Collection[str],
    observers: Sequence[Observer] = (),
    say: Callable[[str], None] = log.info,
) -> Iterator[Runtime]:
    """The run of `plan` before its first tick at or after `now` (s), as far as the signals `signals` depend on it.

    Raises `ScenarioError` that names every adapter whose state cannot be copied, and what a run raises.
    """
    how = adapter_states(plan, signals)
    refused = [Problem(f"cannot be branched: {way.why}", f"adapters.{way.adapter}") for way in how if way.why]
    if refused:
        raise ScenarioError(refused)
    part = {way.adapter: way.how for way in how if way.how != "left out"}
    if not part:
        raise ScenarioError(Problem(f"no adapter writes {' or '.join(signals)}, of which the figures are made"))
    adapters = build_adapters(replace(plan, adapters=tuple(one for one in plan.adapters if one.name in part)))
    compile_first({one.use for one in plan.adapters if one.name in part}, say)
    with tempfile.TemporaryDirectory(prefix="cosim-") as scratch:
        shared = {name: SharedAdapter(one) if part[name] == "shared" else one for name, one in adapters.items()}
        runtime = Runtime(plan, shared, signals_of(plan), scratch=Path(scratch), observers=observers, only=part.keys())
        try:
            runtime.start()
            while plan.time(runtime.ticks_done) < now - 1e-9 * plan.step:
                runtime.tick(runtime.ticks_done)
            yield runtime
        finally:
            runtime.close()


__all__ = ["AdapterState", "adapter_states", "branch", "made_again"]
