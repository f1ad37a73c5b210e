"""Algorithm 1 on a fleet with hidden parameters: SimTune, its ablations, and parameters that stay as they were set.

Reality is the interval model under parameters that nobody is told. Every row has the same surrogate, fleet,
containers and seeds, and differs in what scheduler and parameters learn from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from time import process_time

import numpy as np

from cosim.extensions.cosco.interval import ContainerArrivals, azure_fog, static
from cosim.extensions.simtune.surrogate.monitor import MonitorModel
from cosim.extensions.simtune.surrogate.network import TrainingOptions
from cosim.extensions.simtune.surrogate.online import OnlineOptions, prepare, run
from cosim.twin.space import Parameter, Space

SPACE = Space(
    [
        Parameter("speed", 0.5, 1.5, start=1.0),
        Parameter("power", 0.5, 1.5, start=1.0),
        Parameter("overhead", 0.0, 120.0, unit="s", start=0.0),
    ]
)
HIDDEN = (0.7, 0.7, 60.0)
VARIANTS: Mapping[str, OnlineOptions] = {
    "human set": OnlineOptions(tune=False),
    "SimTune": OnlineOptions(),
    "SimTune, window 1": OnlineOptions(window=1),
    "SimTune w/o HiFi": OnlineOptions(offline="surrogate"),
    "SimTune w/o LoFi": OnlineOptions(generator="simulator"),
}


def rows(seeds: int, *, runs: int, epochs: int, intervals: int = 40) -> list[dict[str, object]]:
    """Means over seeds; the gaps are those of the simulator one interval ahead, in the second half of the run."""
    model = MonitorModel(azure_fog(10), static(300.0, ContainerArrivals("poisson", 1.5)), SPACE, steps=4)
    start = SPACE.units(SPACE.start)[0]
    figures: dict[str, list[list[float]]] = {name: [] for name in VARIANTS}
    for seed in range(1, seeds + 1):
        prepared = prepare(model, runs=runs, intervals=12, seed=seed, training=TrainingOptions(epochs=epochs))
        for name, how in VARIANTS.items():
            reality, began = model.testbed(np.array(HIDDEN), 1000 + seed), process_time()
            history, _ = run(prepared, reality, start, online=replace(how, intervals=intervals), seed=seed)
            half = intervals // 2
            figures[name].append(
                [
                    float(history.simulator_gap[half:].mean()), float(history.start_gap[half:].mean()),
                    *history.measured[half:].mean(axis=0).tolist(), *history.values[half:].mean(axis=0).tolist(),
                    (process_time() - began) / intervals, prepared.learned.r2,
                ]
            )  # fmt: skip
    labels = ("gap", "gap of the start", "energy", "response", *SPACE.names, "CPU s per interval", "R2")
    predicted = [
        {"method": name, **dict(zip(labels, np.mean(each, axis=0).tolist(), strict=True))}
        for name, each in figures.items()
    ]
    hidden = dict(zip(SPACE.names, HIDDEN, strict=True))
    return [*predicted, {"method": "hidden values", **hidden}]
