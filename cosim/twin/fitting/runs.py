"""The simulations of a calibration: asked for by points of the unit cube, counted, written down.

A calibration is a fixed sequence of questions under its seed. So the state file that makes it resumable
is the list of the answers so far: begun again, the calibration asks the same questions and gets these
answers without a simulation, until the list ends.
"""

from __future__ import annotations

import hashlib
import math
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from cosim.contract.seals import DamagedError, check_zip, seal_zip
from cosim.twin.problem import Case, Floats, Observed
from cosim.twin.space import Space

Reduce = Callable[[Mapping[str, Floats]], Floats]  # simulated signals -> (n, k), what is kept of them
_AT_ONCE = 2.0  # s of simulations between two reports, and between two writes of the state file
_LARGEST = 4e6  # simulated values asked for at once


class Journal:
    """Answers in the order of their questions, in an `npz` file that is replaced as a whole."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._written = path, 0.0
        self._keys: list[str] = []
        self._answers: list[Floats] = []
        if path is not None and path.exists():
            self._read(path)
        self._known = len(self._keys)
        self._next = 0
        self._ended = time.monotonic()

    def _read(self, path: Path) -> None:
        try:
            check_zip(path)
            with np.load(path, allow_pickle=False) as kept:
                shapes, flat = kept["shapes"], kept["answers"]
                self._keys = [str(key) for key in kept["keys"]]
        except (DamagedError, OSError, ValueError, KeyError) as error:
            raise DamagedError(
                f"the state of a calibration cannot be gone on with: {error}; delete it to begin anew"
            ) from error
        ends = np.cumsum(shapes.prod(axis=1)) if len(shapes) else np.zeros(0, np.int64)
        parts = np.split(flat, ends[:-1]) if len(shapes) else []
        self._answers = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def clock(self) -> float:
        """s since the first question without an answer from before; 0 until then."""
        if self._next < self._known:
            self._ended = time.monotonic()
        return time.monotonic() - self._ended

    def look(self, key: str) -> Floats | None:
        """The answer to this question, if it was the next one before as well.

        Another question means that something has changed; the rest of the file is then of no use.
        """
        if self._next < self._known and self._keys[self._next] == key:
            self._next += 1
            return self._answers[self._next - 1]
        if self._next < self._known:
            del self._keys[self._next :], self._answers[self._next :]
            self._known = self._next
        return None

    def add(self, key: str, answer: Floats) -> None:
        if self._path is None:
            return
        self._keys.append(key)
        self._answers.append(answer)
        self._next = self._known = len(self._keys)
        if time.monotonic() - self._written > _AT_ONCE:
            self.save()

    def save(self) -> None:
        """Write the file, if there is to be one."""
        if self._path is None:
            return
        flat = np.concatenate([answer.ravel() for answer in self._answers]) if self._answers else np.zeros(0)
        shapes = np.array([answer.shape for answer in self._answers], np.int64).reshape(-1, 2)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_name(self._path.name + ".new")
        with beside.open("wb") as file:
            np.savez(file, keys=np.array(self._keys, str), shapes=shapes, answers=flat)
        seal_zip(beside)
        beside.replace(self._path)
        self._written = time.monotonic()


def fingerprint(observed: Observed) -> str:
    """A hash of what was measured: answers that were made by comparing with other data are of no use."""
    made = hashlib.sha256()
    for name, signal in sorted(observed.items()):
        made.update(f"{name} {signal.paired} {signal.weight!r}".encode())
        made.update(np.ascontiguousarray(signal.values, np.float64).tobytes())
    return made.hexdigest()[:24]


def cpu_seconds() -> float:
    """s of CPU of this process with its threads and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class SimulatedPoints:
    """Simulates points of the cube of the `searched` parameters, the others at `rest` (d,), and counts."""

    def __init__(self, space: Space, rest: Floats, journal: Journal, cost: float, token: str = "") -> None:
        self.space, self.rest, self.journal = space, np.asarray(rest, np.float64), journal
        self.searched = np.ones(len(space), np.bool_)
        self.count = 0
        self._paced: tuple[float, int] | None = None  # s and count after the first simulations, which compile
        self.cost = max(cost, 1e-7)  # s of wall clock per run, as given and then as measured
        self._token = token
        self.report: Callable[[], None] = lambda: None

    def pace(self) -> float:
        """s of wall clock per run since the first ones; inf before that."""
        spent, count = self._paced or (0.0, self.count)
        return (self.journal.clock() - spent) / (self.count - count) if self.count > count else math.inf

    def whole(self, units: Floats) -> Floats:
        """(n, d) points of the whole cube from those of the searched one."""
        full = np.tile(self.rest, (len(units), 1))
        full[:, self.searched] = units
        return full

    def decided(self, what: str, number: int) -> int:
        """`number`, or what it was before: decisions by the clock are answers as well."""
        key = f"{self._token} {what}"
        known = self.journal.look(key)
        if known is not None:
            return int(known[0, 0])
        self.journal.add(key, np.array([[float(number)]]))
        return number

    def ask(self, case: Case, units: Floats, seeds: Sequence[int], what: str, keep: Reduce) -> Floats:
        """(n, seeds * k) what `keep`, by the name `what`, keeps of every point under every seed, seed after seed."""
        return np.concatenate([self._one(case, units, seed, what, keep) for seed in seeds], axis=1)

    def _one(self, case: Case, units: Floats, seed: int, what: str, keep: Reduce) -> Floats:
        values = self.space.values(self.whole(units))
        asked = f"{self._token} {what} {seed} {values.shape}".encode() + np.ascontiguousarray(values).tobytes()
        key = hashlib.sha256(asked).hexdigest()[:24]
        known = self.journal.look(key)
        if known is not None and len(known) == len(units):
            self.count += len(units)
            self.report()
            return known
        parts: list[Floats] = []
        first, width = 0, max(1, sum(len(signal.values) for signal in case.observed.values()))
        while first < len(units):
            some = values[first : first + max(1, int(min(_AT_ONCE / self.cost, _LARGEST / width)))]
            began = time.perf_counter()
            parts.append(np.asarray(keep(case.simulate(some, seed)), np.float64).reshape(len(some), -1))
            self.cost = max((time.perf_counter() - began) / len(some), 1e-7)
            first += len(some)
            self.count += len(some)
            if self._paced is None:
                self._paced = self.journal.clock(), self.count
            self.report()
        answer = np.concatenate(parts)
        self.journal.add(key, answer)
        return answer
