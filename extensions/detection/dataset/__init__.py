"""Labelled data sets from runs and tables: windows, a label rule, splits by scene, a leakage test, and a data card.

    from cosim.extensions.detection.dataset import Recipe, build
    recipe = Recipe(("ue", "gnb"), "jamming.loss >= 3", keep=("jamming.loss",))
    made = build(["runs/jamming/sweep-1a2b3c4d"], recipe, "data/jamming")

See `docs/dataset.md` for details.
"""

from cosim.extensions.detection.dataset.build import BuiltDataset, build
from cosim.extensions.detection.dataset.presets import PRESETS, preset
from cosim.extensions.detection.dataset.recipe import Recipe

__all__ = ["PRESETS", "BuiltDataset", "Recipe", "build", "preset"]
