"""The plain loop: the same ticks without a coordinator, for tests, sweeps and training."""

from __future__ import annotations

from cosim.bus.pacer import Pacer
from cosim.bus.runtime import Runtime


def drive(runtime: Runtime, pacer: Pacer) -> None:
    """Run every tick of the plan, or until the runtime is asked to stop."""
    for tick in range(runtime.ticks_done, runtime.plan.ticks + 1):
        if runtime.stopping:
            return
        if pacer.active:
            pacer.wait(runtime.plan.time(tick))
            if runtime.stopping:
                return
        runtime.tick(tick)
