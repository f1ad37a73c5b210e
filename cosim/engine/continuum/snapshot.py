"""The whole state of an engine at one instant, to go back to, to keep in a file, to branch from."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.engine.continuum.layout import PLACES, ROOMS, KernelState
from cosim.engine.continuum.system import link_up

# Arrays that grow during a run; all others have the size that the system gives them.
GROWING = ("tasks", "ended", "due", "heap", "chunks", "jobs", "missing", "site")
# What a snapshot and the engine that takes it over must have in common: who is where.
_FRAME = (("infra", ()), ("access", ()), ("links", ("a", "b")), ("sources", ("node", "workload")), ("nodes", ("kind",)))


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Copies of all arrays of an engine's state, by their names in `cosim.engine.continuum.layout.KernelState`.

    Addresses of memory are zero in it, so that equal states have equal snapshots. A snapshot can be
    pickled; `save` and `load` keep it in a file that holds numbers only.
    """

    arrays: Mapping[str, NDArray[Any]]

    @property
    def now(self) -> float:
        """s, the instant."""
        return float(self.arrays["meta"]["now"][0])

    def same(self, other: Snapshot) -> bool:
        """Whether both hold the same state, bit for bit."""
        return self.arrays.keys() == other.arrays.keys() and all(
            _equal(mine, other.arrays[name]) for name, mine in self.arrays.items()
        )

    def save(self, path: str | Path) -> None:
        """Write it to a compressed `.npz` file."""
        arrays: dict[str, Any] = dict(self.arrays)
        with Path(path).open("wb") as file:
            np.savez_compressed(file, **arrays)

    @staticmethod
    def load(path: str | Path) -> Snapshot:
        """The snapshot in a file. Raises `ValueError` when the file holds none of this version."""
        try:
            # numpy does not close a file that it opened itself and that is no archive
            with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} is not a snapshot: {error}") from error
        if arrays.keys() != set(KernelState._fields):
            raise ValueError(f"{path} is not a snapshot of this version; take it again")
        return Snapshot(arrays)


def _equal(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Whether all values have the same bits. The bytes between the fields of records mean nothing."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.names is None:
        return a.tobytes() == b.tobytes()
    return all(a[name].tobytes() == b[name].tobytes() for name in a.dtype.names)


def take(state: KernelState) -> Snapshot:
    """A snapshot of the state; the state does not change."""
    arrays = {name: getattr(state, name).copy() for name in KernelState._fields}
    for name in KernelState._fields:
        if name != "meta":
            arrays["meta"][name] = 0
    for name in (*ROOMS, *PLACES):
        arrays["meta"][name] = 0
    return Snapshot(arrays)


def _refusal(state: KernelState, snapshot: Snapshot) -> str:
    """Why the snapshot does not fit the state, or ""."""
    for name in KernelState._fields:
        mine, kept = getattr(state, name), snapshot.arrays[name]
        if mine.dtype != kept.dtype:
            return f"its '{name}' have other fields: it is of another version"
        if name not in GROWING and mine.shape != kept.shape:
            return f"it is of another system: {len(kept)} {name} instead of {len(mine)}"
    for name, fields in _FRAME:
        mine, kept = getattr(state, name), snapshot.arrays[name]
        for field in fields or (None,):
            if not np.array_equal(mine if field is None else mine[field], kept if field is None else kept[field]):
                return f"it is of another system: its {name} are others"
    return ""


def put_back(state: KernelState, snapshot: Snapshot) -> KernelState:
    """The state of the snapshot, in the arrays of `state` as far as these have room.

    Raises `ValueError` when the snapshot is of another system or another version.
    """
    refusal = _refusal(state, snapshot)
    if refusal:
        raise ValueError(f"the snapshot cannot be restored: {refusal}")
    arrays = {}
    for name in KernelState._fields:
        mine, kept = getattr(state, name), snapshot.arrays[name]
        if mine.shape == kept.shape:
            np.copyto(mine, kept)
            arrays[name] = mine
        else:
            arrays[name] = kept.copy()
    return link_up(KernelState(**arrays))
