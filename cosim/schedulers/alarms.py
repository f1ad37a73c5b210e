"""Policies on alarms: what a response to jamming sees of the radio, and what it orders.

    from cosim.schedulers.alarms import RadioOrders
    from cosim.schedulers.state import decides

    @decides("response")
    def wake(state):
        '''A spare cell sends as long as anybody has an alarm.'''
        return RadioOrders(awake=state.cells["spare"] * state.devices["alarm"].any())

A policy is a callable of one `RadioState`, asked at every step of the radio, and answers with `RadioOrders`; what these
leave out is left to the network. Orders hold until the next step. The answer (n,) of integers is short for
`RadioOrders(cell=...)`. A class is made anew for each run, so what a policy remembers is its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosim.contract.records import Records
from cosim.schedulers.state import table

ANY, OFF = -1, -2  # instead of a cell: the network chooses, off the air

DEVICE = table(
    "slot",
    "alarm",  # 1 while a detector's alarm is on for it, as of the step before
    "score",  # of the detector: a probability, for most methods; of several the highest, NaN: none
    "cause",  # number in CAUSES, 0: none
    "raised",  # alarms so far
    "cell",  # number of the serving cell, -1: none
    "uplink",  # bit/s with the cell to itself, as of the step before
    "downlink",
    "uploads",  # under way
    "downloads",
    "x",  # m east of the origin
    "y",  # m north
    "z",  # m above it
)
CELL = table(
    "slot",
    "carrier",  # Hz
    "bandwidth",  # Hz
    "load",  # part of the airtime in use, of the busier direction
    "attached",  # devices
    "up",  # 1, or 0 for one that has failed
    "spare",  # 1: it is silent unless it is woken
    "awake",  # 1: it sends, as of the step before
    "flies",  # 1: it can be sent to a point
    "x",
    "y",
    "z",
)


class RadioState(NamedTuple):
    """What a policy on alarms sees: copies, nothing that the model reads."""

    time: float  # s
    interval: float  # s until the policy is asked again
    devices: Records  # (n,) DEVICE, those that are present, by slot
    cells: Records  # (m,) CELL, in the order of the file
    power: NDArray[np.float64]  # (n, m) mW that each device receives of each cell, its fast fading left out
    names: tuple[str, ...]  # (m,) of the cells

    def received(self) -> NDArray[np.float64]:
        """(n, m) dBm that each device receives of each cell; -inf: out of range."""
        with np.errstate(divide="ignore"):
            return np.asarray(10.0 * np.log10(self.power))


@dataclass(frozen=True, slots=True)
class RadioOrders:
    """What a policy on alarms wants done until it is asked again."""

    cell: ArrayLike | None = None  # (n,) number of the only cell that a device may use, ANY, or OFF
    carrier: ArrayLike | None = None  # (n,) Hz, the only carrier that a device may use, 0: any
    awake: ArrayLike | None = None  # (m,) whether a spare cell sends; without meaning for other cells
    send: Mapping[int, Sequence[float]] = field(default_factory=dict)  # cell -> (x, y, z) m; those left out go home


class Checked(NamedTuple):
    """Orders that can be carried out."""

    cell: NDArray[np.int64]  # (n,)
    carrier: NDArray[np.float64]  # (n,) Hz, 0: any
    awake: NDArray[np.bool_]  # (m,)
    send: NDArray[np.float64]  # (m, 3) m, NaN: home


def ordered(policy: Callable[..., Any], state: RadioState) -> Checked:
    """The policy's orders, checked. Raises `ValueError` for what cannot be, with the line that the policy begins at."""
    reported = policy(state)
    orders = (
        RadioOrders()
        if reported is None
        else reported
        if isinstance(reported, RadioOrders)
        else RadioOrders(cell=reported)
    )
    n, m = len(state.devices), len(state.cells)
    cell = _numbers(policy, "cell", orders.cell, n, ANY)
    if cell.size and (cell != np.rint(cell)).any():
        _wrong(policy, f"cell {cell[cell != np.rint(cell)][0]:g}", "whole numbers")
    if (beyond := cell[(cell < OFF) | (cell >= m)]).size:
        _wrong(policy, f"cell {beyond[0]:g}", f"0..{m - 1}, -1 for any or -2 for off the air")
    carrier = _numbers(policy, "carrier", orders.carrier, n, 0.0)
    known = np.unique(state.cells["carrier"])
    if (strange := carrier[(carrier != 0.0) & ~np.isin(carrier, known)]).size:
        _wrong(policy, f"carrier {strange[0]:g} Hz", f"{', '.join(f'{f:g}' for f in known)} Hz, or 0 for any")
    awake = _numbers(policy, "awake", orders.awake, m, 0.0) != 0.0
    send = np.full((m, 3), np.nan)
    for number, point in orders.send.items():
        if number not in range(m) or not state.cells["flies"][number]:
            flying = ", ".join(f"{k} ({state.names[k]})" for k in np.flatnonzero(state.cells["flies"])) or "none"
            _wrong(policy, f"to send cell {number}", f"one that flies: {flying}")
        place = np.asarray(point, np.float64)
        if place.shape != (3,) or not np.isfinite(place).all():
            _wrong(policy, f"to send cell {number} to {point}", "a point (x, y, z) in m")
        send[number] = place
    return Checked(cell.astype(np.int64), carrier, awake, send)


def _numbers(policy: Callable[..., Any], name: str, given: ArrayLike | None, count: int, none: float) -> Any:  # noqa: ANN401 - (count,) float64
    if given is None:
        return np.full(count, none, np.float64)
    found = np.asarray(given)
    if found.shape != (count,) or found.dtype.kind not in "biuf" or not np.isfinite(found).all():
        _wrong(policy, f"{name} as {found.dtype} of shape {found.shape}", f"{count} finite numbers")
    return found.astype(np.float64)


def _wrong(policy: Callable[..., Any], answer: str, expected: str) -> NoReturn:
    made = policy if inspect.isroutine(policy) else type(policy)
    name = getattr(made, "__name__", str(made))
    try:
        line = f" ({inspect.getsourcefile(made)}:{inspect.getsourcelines(made)[1]})"
    except (OSError, TypeError):
        line = ""
    raise ValueError(f"response {name}{line} answered {answer}; expected {expected}")
