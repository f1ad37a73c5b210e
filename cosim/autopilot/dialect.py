"""The MAVLink 2 messages of the `ardupilotmega` dialect, which holds `common`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from cosim.contract.errors import SetupError
from cosim.contract.extras import how_to_install

try:
    mavlink: Any = import_module("pymavlink.dialects.v20.ardupilotmega")
except ImportError as error:
    raise SetupError(f"MAVLink needs pymavlink: {how_to_install('vehicles')}") from error

Message = Any  # one of pymavlink's generated message classes, which have no common type
