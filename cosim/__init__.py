"""continuum-cosim: co-simulation of the drone-edge-cloud continuum.

    outcome = cosim.run("scenarios/hello")
    run = cosim.load(outcome.folder)            # or cosim.latest("hello")
    run.tasks.df()
    cosim.compare(cosim.sweep("scenarios/hello", seeds="1..5"))

The command line is `cosim`; these functions do the same from Python, with files or with scenarios
that are written as dictionaries or by `cosim.Scenario`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cosim.contract.on_demand import on_demand

if TYPE_CHECKING:
    from cosim.api import Comparison, Scenario, calibrate, compare, run, size, sweep
    from cosim.contract.errors import CosimError, RunError, ScenarioError, SetupError
    from cosim.results.compare import Effect
    from cosim.results.load import Run, Runs, latest, load, load_all
    from cosim.results.session import Outcome
    from cosim.results.size import Sizing
    from cosim.scenario.gallery import examples
    from cosim.twin.calibration import Calibration

__all__ = [
    "Calibration", "Comparison", "CosimError", "Effect", "Outcome", "Run", "RunError", "Runs", "Scenario",
    "ScenarioError", "SetupError", "Sizing", "calibrate", "compare", "examples", "latest", "load", "load_all", "run",
    "size", "sweep", "version",
]  # fmt: skip


def version() -> str:
    """The installed version of continuum-cosim."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("continuum-cosim")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "0+checkout"


# Importing DuckDB, Arrow or mosaik takes longer than many a command.
__getattr__ = on_demand("cosim", api="Comparison Scenario calibrate compare run size sweep", **{
    "contract.errors": "CosimError RunError ScenarioError SetupError", "results.compare": "Effect",
    "results.load": "Run Runs latest load load_all", "results.session": "Outcome", "results.size": "Sizing",
    "scenario.gallery": "examples", "twin.calibration": "Calibration",
})  # fmt: skip


def __dir__() -> list[str]:
    return sorted({name for name in globals() if name.startswith("__")} | {*__all__})
