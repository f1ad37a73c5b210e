"""continuum-cosim: co-simulation of the drone-edge-cloud continuum.

    outcome = cosim.run("scenarios/hello")
    run = cosim.load(outcome.folder)            # or cosim.latest("hello")
    run.tasks.df()
    cosim.compare(cosim.sweep("scenarios/hello", seeds="1..5"))

The command line is `cosim`; these functions do the same from Python, with files or with scenarios
that are written as dictionaries or by `cosim.Scenario`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cosim.api import Comparison, Scenario, calibrate, compare, run, size, sweep
    from cosim.contract.errors import CosimError, RunError, ScenarioError, SetupError
    from cosim.results.compare import Effect
    from cosim.results.load import Run, Runs, latest, load, load_all
    from cosim.results.session import Outcome
    from cosim.results.size import Sizing
    from cosim.scenario.gallery import examples
    from cosim.twin.calibration import Calibration

_PLACES = {
    "Calibration": "twin.calibration", "Comparison": "api", "Scenario": "api", "calibrate": "api", "compare": "api",
    "run": "api", "size": "api", "sweep": "api",
    "CosimError": "contract.errors", "RunError": "contract.errors", "ScenarioError": "contract.errors",
    "SetupError": "contract.errors", "Effect": "results.compare", "Run": "results.load", "Runs": "results.load",
    "latest": "results.load", "load": "results.load", "load_all": "results.load", "Outcome": "results.session",
    "Sizing": "results.size", "examples": "scenario.gallery",
}  # fmt: skip

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


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the lazily imported names
    # Importing DuckDB, Arrow or mosaik takes longer than many a command.
    if name in _PLACES:
        from importlib import import_module

        return getattr(import_module(f"cosim.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'cosim' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({name for name in globals() if name.startswith("__")} | {*__all__})
