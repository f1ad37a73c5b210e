"""A run inside the containers of a deployment, seen from outside: how it is ended, and what it left."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from cosim.contract.errors import RunError
from cosim.contract.handlers import handled
from cosim.testbed.launch.deployment import ENDS, Deployment


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP are heard as Ctrl-C is, so that no container stays, unless they are ignored, as by nohup."""

    def end(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    with handled(end, ENDS, ignored=False):
        yield


def outcome(deployment: Deployment, code: int | None) -> dict[str, Any]:
    """Status, folder, report, error and figures of a run that ended with exit code `code`, None when it was ended.

    Raises `RunError` when it left no folder.
    """
    try:
        folder = deployment.folder
    except RunError:
        if code is None:
            raise RunError("ended before the run began; nothing is left of it") from None
        raise
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    report = folder / "report.html"
    figures: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError, KeyError):
        found = json.loads((folder / "metrics.json").read_text("utf-8"))["figures"]
        figures = {key: figure["value"] for key, figure in found.items()}
    error = (manifest.get("error") or {}).get("message") or (f"the run ended with exit code {code}" if code else None)
    if code is None and not error and manifest["status"] != "complete":  # else it was over already
        error = "interrupted"
    return {
        "status": manifest["status"],
        "folder": str(folder),
        "report": str(report) if report.is_file() else None,
        "error": error,
        "figures": figures,
    }
