"""continuum-cosim: co-simulation of the drone-edge-cloud continuum.

    run = cosim.latest("hello")
    run.tasks.df()

The command line is `cosim`; `cosim.run` does the same from Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cosim.results.load import latest, load, load_all
    from cosim.results.session import run

__all__ = ["latest", "load", "load_all", "run", "version"]


def version() -> str:
    """The installed version of continuum-cosim."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("continuum-cosim")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "0+checkout"


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the lazily imported functions
    # Importing DuckDB, Arrow or mosaik takes longer than many a command.
    if name in ("latest", "load", "load_all"):
        from cosim.results import load

        return getattr(load, name)
    if name == "run":
        from cosim.results.session import run

        return run
    raise AttributeError(f"module 'cosim' has no attribute '{name}'")
