"""Train a scheduler: `python -m cosim.extensions.metanet.catalogue.train NAME` (extra `learn`)."""

from __future__ import annotations

import argparse
import importlib
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from cosim.contract.records import Floats
from cosim.extensions.metanet.catalogue.training import train_surrogate

SURROGATES = {"gobi": (False, False), "gosh": (False, True), "graf": (True, False)}  # whether a graph, whether a spread
OTHERS = ("a3c", "aco-lstm", "decision-nn", "dqn", "dqn-selector", "metanet", "semi-direct")


def train(name: str) -> tuple[dict[str, Floats], dict[str, Any]]:
    """Weights of a scheduler, and what was reached."""
    if name in SURROGATES:
        graph, spread = SURROGATES[name]
        return train_surrogate(seed=1, worlds=140, epochs=10, graph=graph, spread=spread)
    module = importlib.import_module(f"{__package__}.{name.replace('-', '_')}.train")
    found: tuple[dict[str, Floats], dict[str, Any]] = module.train()
    return found


def save(place: Path, weights: dict[str, Floats], figures: dict[str, Any]) -> None:
    """Write `weights.npz` and `training.json` into the folder of a scheduler."""
    arrays: dict[str, Any] = {key: np.asarray(value, np.float32) for key, value in weights.items()}
    np.savez_compressed(place / "weights.npz", **arrays)
    figures = figures | {"cpu_seconds": round(time.process_time(), 1)}
    text = {key: round(v, 4) if isinstance(v, float) else v for key, v in figures.items()}
    (place / "training.json").write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")
    print(place.name, text)  # noqa: T201 - a program


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="train a scheduler of the catalogue")
    parser.add_argument("name", choices=(*SURROGATES, *OTHERS))
    chosen = parser.parse_args().name
    save(Path(__file__).with_name(chosen.replace("-", "_")), *train(chosen))
