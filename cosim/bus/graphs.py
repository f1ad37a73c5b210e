"""Loads networkx for mosaik, which keeps one graph in it and calls none of its algorithms.

Those are five sixths of networkx and a twenty-fifth of a short run.
"""

from __future__ import annotations

import importlib
import sys
import threading
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_LATER = ("algorithms", "drawing", "generators", "linalg", "readwrite")  # `networkx` takes all names from each


def load_graphs() -> None:
    """Import networkx with its graphs only; the first use of anything else imports the rest.

    Does nothing when it is there already, or while other threads may import it.
    """
    if "networkx" in sys.modules or threading.active_count() > 1 or find_spec("networkx") is None:
        return
    empty = {f"networkx.{name}": ModuleType(f"networkx.{name}") for name in _LATER}
    sys.modules.update(empty)
    try:
        networkx: Any = importlib.import_module("networkx")
    finally:
        for name in empty:
            del sys.modules[name]
    for name in _LATER:
        delattr(networkx, name)
    own = networkx.__getattr__ if hasattr(networkx, "__getattr__") else None

    def rest(name: str) -> object:
        if own is not None:
            networkx.__getattr__ = own
        else:
            del networkx.__getattr__
        importlib.reload(networkx)
        return getattr(networkx, name)

    networkx.__getattr__ = rest
