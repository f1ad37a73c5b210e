"""Where the live nodes' gateway of a run under way takes commands."""

from __future__ import annotations

import json
from pathlib import Path

from cosim.contract.errors import SetupError
from cosim.talk.control import FILE


def find(where: str, token: str = "") -> tuple[str, str]:
    """Address and token of the live nodes' gateway at `where`: a run's folder, or tcp://HOST:PORT, which needs `token`.

    Raises `SetupError` when there is none.
    """
    if where.startswith(("tcp://", "ipc://")):
        if not token:
            raise SetupError(f"the token of {where} must be in COSIM_LIVE_TOKEN; it stands in the run's logs/*/{FILE}")
        return where, token
    paths = sorted(Path(where).glob(f"logs/*/{FILE}"))
    if not paths:
        raise SetupError(f"{where} is no run with live nodes under way: there is no logs/*/{FILE} in it")
    try:
        data = json.loads(paths[0].read_text("utf-8"))
        return str(data["address"]), str(data["token"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SetupError(f"{paths[0]} cannot be read: {error}") from error


def newest(base: Path = Path("runs")) -> str:
    """The folder of the latest run with live nodes that is under way below `base`. Raises `SetupError`."""
    paths = sorted(base.glob(f"*/*/logs/*/{FILE}"), key=lambda path: path.stat().st_mtime)
    if not paths:
        raise SetupError(f"no run with live nodes is under way below '{base}'; name its folder or its address")
    return str(paths[-1].parents[2])
