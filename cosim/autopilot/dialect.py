"""The MAVLink 2 messages of the `ardupilotmega` dialect, which holds `common`."""

from __future__ import annotations

import logging
import struct
from collections import Counter
from importlib import import_module
from typing import Any

from cosim.contract.errors import SetupError
from cosim.contract.extras import how_to_install

try:
    mavlink: Any = import_module("pymavlink.dialects.v20.ardupilotmega")
except ImportError as error:
    raise SetupError(f"MAVLink needs pymavlink: {how_to_install('vehicles')}") from error

log = logging.getLogger(__name__)

Message = Any  # one of pymavlink's generated message classes, which have no common type


def numbers(names: str, prefix: str = "MAVLINK_MSG_ID") -> tuple[int, ...]:
    """The numbers of messages, "ATTITUDE VFR_HUD", or of what has another common `prefix`, such as MAV_CMD."""
    return tuple(getattr(mavlink, f"{prefix}_{name}") for name in names.split())


_SIZES = {"int8_t": 7, "int16_t": 15, "int32_t": 31, "int64_t": 63}
_RANGES: dict[str, tuple[float, float]] = {name: (-(2**bits), 2**bits - 1) for name, bits in _SIZES.items()}
_RANGES |= {f"u{name}": (0, 2 ** (bits + 1) - 1) for name, bits in _SIZES.items()}
_RANGES["float"] = (-3.4e38, 3.4e38)


def saturate(message: Message) -> list[str]:
    """Bring the numbers of a message into the range of their types. Return the fields that were outside."""
    outside = []
    for name, kind in zip(message.fieldnames, message.fieldtypes, strict=True):
        least, most = _RANGES.get(kind, (0, 0))
        value = getattr(message, name)
        values = list(value) if isinstance(value, list | tuple) else [value]
        if kind not in _RANGES or not any(one < least or one > most for one in values):
            continue
        cast = float if kind == "float" else int
        fitting = [cast(max(least, min(most, one))) for one in values]
        setattr(message, name, fitting if isinstance(value, list | tuple) else fitting[0])
        outside.append(name)
    return outside


class FrameWriter(mavlink.MAVLink):  # type: ignore[misc]  # pymavlink has no types here
    """One end's writer of frames, which no message stops. What is wrong with one is counted in `troubles`."""

    def __init__(self, system: int, component: int = 1, troubles: Counter[str] | None = None) -> None:
        super().__init__(None, srcSystem=system, srcComponent=component)
        self.seq: int
        self.troubles: Counter[str] = Counter() if troubles is None else troubles

    def frame(self, message: Message) -> bytes:
        """The next frame; numbers beyond their field are brought to its end. Empty: it cannot be packed at all."""
        try:
            data: bytes = message.pack(self)
        except (struct.error, OverflowError):
            try:
                for name in saturate(message):
                    self._note(f"{message.get_type()}.{name} is beyond its type and is sent as the nearest value")
                data = message.pack(self)
            except (struct.error, OverflowError, TypeError, ValueError) as error:
                self._note(f"{message.get_type()} cannot be packed and is left out: {error}")
                return b""
        self.seq = (self.seq + 1) % 256
        return data

    def _note(self, trouble: str) -> None:
        note(self.troubles, self.srcSystem, trouble)


def note(troubles: Counter[str], system: int, trouble: str) -> None:
    """Count what is wrong with a message of a system, and warn of it once."""
    troubles[trouble] += 1
    if troubles[trouble] == 1:
        log.warning("vehicle %d: %s", system, trouble)
