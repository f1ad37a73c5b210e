"""Labelled data sets out of runs and tables: windows, a label rule, splits by scene, a leakage test, and a data card.

    from cosim.dataset import Recipe, build
    recipe = Recipe(("ue", "gnb"), "jamming.loss >= 3", keep=("jamming.loss",))
    made = build(["runs/jamming/sweep-1a2b3c4d"], recipe, "data/jamming")

`docs/dataset.md` tells the rest.
"""

from cosim.dataset.build import Made, build
from cosim.dataset.presets import PRESETS, preset
from cosim.dataset.recipe import Recipe

__all__ = ["PRESETS", "Made", "Recipe", "build", "preset"]
