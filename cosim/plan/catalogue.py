"""All signals of a plan: the common catalogue, and what its adapters add."""

from __future__ import annotations

from cosim import registry
from cosim.plan.plan import Plan
from cosim.telemetry.signals import CATALOGUE, Signal


def signals_of(plan: Plan) -> dict[str, Signal]:
    """Name -> signal for everything that may cross the bus under `plan`."""
    signals = dict(CATALOGUE)
    for adapter in plan.adapters:
        kind = registry.adapter_kind(adapter.use)
        if kind.signals:
            config = kind.load_config().model_validate(adapter.config)
            signals.update({signal.name: signal for signal in kind.signals_of(config)})
    return signals
