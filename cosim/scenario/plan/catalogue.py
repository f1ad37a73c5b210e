"""All signals of a plan: the common catalogue, and what its adapters add."""

from __future__ import annotations

from cosim.contract import registry
from cosim.contract.signals import Signal, catalogue
from cosim.scenario.plan.plan import Plan


def signals_of(plan: Plan) -> dict[str, Signal]:
    """Name -> signal for everything that may cross the bus under `plan`."""
    signals = catalogue([medium.interface for medium in plan.scene.media])
    for adapter in plan.adapters:
        kind = registry.adapter_kind(adapter.use)
        if kind.signals:
            config = kind.load_config().model_validate(adapter.config)
            signals.update({signal.name: signal for signal in kind.signals_of(config)})
    return signals
