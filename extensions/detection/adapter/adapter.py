"""A detector on the bus: logs in, alarms out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cosim.contract.adapter import Context, InMemory, Inputs, Summary
from cosim.contract.errors import refuse
from cosim.contract.frame import Frame
from cosim.contract.jammer import CAUSES
from cosim.extensions.detection.adapter.check import problems
from cosim.extensions.detection.adapter.config import DetectorConfig
from cosim.extensions.detection.adapter.history import Past, SignalHistory
from cosim.extensions.detection.dataset.windows import names
from cosim.extensions.detection.detect.detector import Detector, columns_of
from cosim.extensions.detection.detect.warm import compile_all


class DetectorAdapter(InMemory[DetectorConfig]):
    """Scores every node that the first signal has a row of, at each of its steps."""

    def start(self, context: Context) -> None:
        """Read the detector. Raises `ScenarioError` for what `check` finds."""
        refuse(problems(self._config, context))
        compile_all()
        self._detector = Detector.load(context.path(self._config.model))
        signals = self._config.signals
        bases: dict[str, tuple[str, str]] = {}  # column of the data set -> signal and column
        for name in self._detector.columns:
            for end in ("_mean", "_dev", "_diff"):
                name = name.removesuffix(end)
            signal = next((s for s in sorted(signals, key=len, reverse=True) if name.startswith(f"{s}_")), "")
            if signal:
                bases[name] = (signal, name.removeprefix(f"{signal}_"))
        self._order = columns_of(self._detector, names(list(bases)))
        self._past = Past(self._detector.lags, len(self._order))
        self._history = SignalHistory(list(bases.values()), self._detector.window, context.scene.capacity)
        self._limit = self._detector.limit if self._config.limit is None else self._config.limit
        self._generation = np.zeros(context.scene.capacity, np.int32)
        self._on = np.zeros(context.scene.capacity, bool)
        self._raised = np.zeros(context.scene.capacity, np.int32)
        self._first: dict[int, float] = {}  # s, of the first alarm by slot
        self._rows = self._alarms = 0
        self._codes = np.array([CAUSES.index(name) for name in self._detector.causes], np.int8)
        self._reported = np.zeros(len(CAUSES), np.int64)  # rows with an alarm, by cause
        self._names = {slot: node.id for slot, node in enumerate(context.scene.nodes)}

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        """The alarms at `time`."""
        self._meet(inputs.all("mobility"))
        frames = {signal: inputs.one(signal) for signal in self._config.signals}
        base = frames[self._config.signals[0]]
        none = np.empty(0, np.int32)
        if base is None:
            columns = {"score": np.empty(0), "on": np.empty(0, bool), "cause": none.astype(np.int8), "raised": none}
            return [Frame("alarm", time, none, columns)]
        known = {signal: frame for signal, frame in frames.items() if frame is not None}
        slots, rows = self._history.add(time, base, known)
        # float32 as in a data set, so that a limit means the same
        given = self._past.add(slots, rows[:, self._order].astype(np.float32))
        score = self._detector.score(given)
        on = score > self._limit
        self._raised[slots] += on & ~self._on[slots]
        self._on[slots] = on
        for slot in slots[on].tolist():
            self._first.setdefault(slot, time)
        self._rows += len(slots)
        self._alarms += int(on.sum())
        columns = {"score": score, "on": on, "cause": self._cause(given, on), "raised": self._raised[slots]}
        return [Frame("alarm", time, slots.astype(np.int32), columns)]

    def _cause(self, rows: NDArray[np.float32], on: NDArray[np.bool_]) -> NDArray[np.int8]:
        """Numbers (n,) in `CAUSES` of the alarms that are `on` (n,)."""
        found = np.zeros(len(rows), np.int8)
        if self._codes.size and on.any():
            found[on] = self._codes[self._detector.cause(rows[on])]
            self._reported += np.bincount(found[on], minlength=len(CAUSES))
        return found

    def _meet(self, frames: Sequence[Frame]) -> None:
        """Reset the slots of a fleet that other nodes have taken."""
        for frame in frames:
            if frame.table is not None:
                first, generation = frame.table.first, frame.table.generation
                other = first + np.flatnonzero(self._generation[first : first + len(generation)] != generation)
                self._generation[first : first + len(generation)] = generation
                self._history.forget(other)
                self._past.forget(other)
                self._on[other], self._raised[other] = False, 0

    def finish(self) -> Summary:
        """Part of the time that alarms were on, and when the first of each node came."""
        first = {self._names.get(slot, str(slot)): time for slot, time in sorted(self._first.items())}
        return {
            "method": self._detector.method,
            "limit": self._limit,
            "alarm_share": self._alarms / self._rows if self._rows else None,
            "alarms": int(self._raised.sum()),
            "first_alarm": first,
            **({"causes": dict(zip(CAUSES[1:], self._reported[1:].tolist(), strict=True))} if self._codes.size else {}),
        }
