"""The plain loop: the same ticks without a coordinator, for tests, sweeps and training."""

from __future__ import annotations

from cosim.bus.pacer import Pacer
from cosim.bus.runtime import Runtime


def drive(runtime: Runtime, pacer: Pacer) -> None:
    """Run every tick of the plan, or until the runtime is told to stop."""
    paced = pacer.factor != 0.0
    for tick in range(runtime.ticks_done, runtime.plan.ticks + 1):
        if runtime.stopping:
            return
        if paced:
            pacer.wait(runtime.plan.time(tick))
        runtime.tick(tick)
