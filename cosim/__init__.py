"""continuum-cosim: co-simulation of the drone-edge-cloud continuum.

    run = cosim.load("runs/hello/20260101-120000-1a2b3c4d")
    run.tasks.df()

The command line is `cosim`; `cosim.run` does the same from Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cosim.results.load import load
    from cosim.results.session import run

__all__ = ["load", "run", "version"]


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
    if name == "load":
        from cosim.results.load import load

        return load
    if name == "run":
        from cosim.results.session import run

        return run
    raise AttributeError(f"module 'cosim' has no attribute '{name}'")
