"""One adapter on the bench: it lives its whole life alone, on synthetic inputs, under observation."""

from __future__ import annotations

import contextlib
import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pydantic import BaseModel

from cosim.contract.adapter import Adapter, AdapterKind, Context, Inputs, Ports, Read
from cosim.contract.children import in_copies
from cosim.contract.entities import Scene
from cosim.contract.errors import RunError
from cosim.contract.frame import Array, Frame
from cosim.contract.seeds import stream
from cosim.contract.signals import CATALOGUE, Signal
from cosim.contract.tables import same_table
from cosim.testing.synthetic import Source, fleet_table, small_events
from cosim.testing.watch import Watch, frozen

_PATIENCE = 60.0  # s that a fork may take for its steps, as `run.timeout` by default


class _BrokenContext:
    """Stands for a context when start must fail: whatever is read from it raises."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(f"the context has no {name}")


@dataclass
class Bench:
    """An adapter, a scene, synthetic inputs, and the list of faults found so far."""

    kind: AdapterKind
    config: BaseModel
    ports: Ports
    scene: Scene
    steps: int
    root: Path
    scratch: Path
    faults: list[str]
    period: float = field(init=False)
    signals: dict[str, Signal] = field(init=False)

    def __post_init__(self) -> None:
        self.period = getattr(self.config, "step", None) or 1.0
        self.signals = {**CATALOGUE, **{signal.name: signal for signal in self.kind.signals_of(self.config)}}

    def check(self) -> None:
        self._close_without_start()
        self._failing_start()
        known = len(self.faults)
        first = self._run("first", lambda _: True)
        if first is None or len(self.faults) > known:
            return  # further runs would only repeat what is wrong
        if self.kind.origin == "simulated":
            second = self._run("second", lambda _: True, quiet=True, copied=self._copied())
            self._compare(first, second)
            self._generations(first)
        if any(not read.required for read in self.ports.reads):
            self._run("without its optional inputs", lambda read: read.required, quiet=True)

    def rehearse(self) -> None:
        """Live through the steps once; what is wrong stays in `faults`."""
        self._run("rehearsal", lambda _: True)

    def _build(self) -> Adapter | None:
        try:
            return self.kind.build(self.config)
        except Exception as error:  # noqa: BLE001 - foreign code; the failure is the finding
            self.faults.append(f"factory: '{self.kind.factory}' cannot build the adapter: {_error_text(error)}")
            return None

    def _copied(self) -> bool:
        """Whether all of the adapter's state is in this process, by its description."""
        outside = self.kind.outside
        return outside is not None and not (outside if isinstance(outside, str) else outside(self.config, self.scene))

    def _close_without_start(self) -> None:
        adapter = self._build()
        if adapter is not None:
            absent = [m for m in ("start", "step", "finish", "close") if not callable(getattr(adapter, m, None))]
            if absent:
                self.faults.append(f"the adapter has no {', '.join(absent)}")
            else:
                self._calls("close without start", adapter.close)

    def _failing_start(self) -> None:
        adapter = self._build()
        if adapter is None or not callable(getattr(adapter, "close", None)):
            return
        with contextlib.suppress(Exception):  # it is meant to fail
            adapter.start(_BrokenContext())  # type: ignore[arg-type]
        self._calls("close after a start that failed", adapter.close)

    def _calls(self, what: str, call: Callable[[], None]) -> bool:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - foreign code; the failure is the finding
            self.faults.append(f"{what} raises {_error_text(error)}")
            return False
        return True

    def _run(
        self,
        label: str,
        feed: Callable[[Read], bool],
        *,
        quiet: bool = False,
        renewed: bool = True,
        copied: bool = False,
    ) -> list[list[Frame]] | None:
        """All frames of one whole life, as copies; None when it could not be lived to its end.

        Without `renewed` no slot is ever taken by another member than its first one. With `copied` the second half of
        the steps is lived by a fork of the process.
        """
        adapter = self._build()
        if adapter is None:
            return None
        scratch = self.scratch / label.replace(" ", "-")
        scratch.mkdir()
        prefix = f"run {label}: " if quiet else ""
        context = Context(
            self.kind.name, self.scene, self.period, self.period * self.steps,
            stream(1, self.kind.name), str(self.root), str(scratch),
        )  # fmt: skip
        try:
            if not self._calls(f"{prefix}start", lambda: adapter.start(context)):
                return None
            frames = self._steps(adapter, feed, prefix, renewed, copied)
            if frames is not None:
                self._finish(adapter, prefix)
        finally:
            self._calls(f"{prefix}close", adapter.close)
            self._calls(f"{prefix}a second close", adapter.close)
        return frames

    def _steps(
        self, adapter: Adapter, feed: Callable[[Read], bool], prefix: str, renewed: bool, copied: bool
    ) -> list[list[Frame]] | None:
        sources = {
            read: Source(self.signals[read.signal], self.scene, self.period, renewed)
            for read in self.ports.reads
            if feed(read) and read.signal in self.signals
        }
        simulated = self.kind.origin == "simulated"
        watch = Watch(self.kind.name, self.ports.writes, self.signals, self.scene, simulated)
        middle = self.steps // 2 if copied else self.steps + 1

        def rest(_: Callable[[], None]) -> tuple[list[str], list[list[Frame]] | None]:
            self.faults.clear()
            frames = self._lived(
                adapter, range(middle, self.steps + 1), sources, watch, f"{prefix}in a fork, ", renewed
            )
            return self.faults, frames

        kept = self._lived(adapter, range(middle), sources, watch, prefix, renewed)
        if kept is None or not copied:
            return kept
        try:
            ((found, others),) = in_copies([rest], 1, limit=_PATIENCE)
        except RunError as error:
            found, others = [f"{prefix}in a fork: {error}"], None
        self.faults += found
        return None if others is None else kept + others

    def _lived(
        self,
        adapter: Adapter,
        steps: range,
        sources: Mapping[Read, Source],
        watch: Watch,
        prefix: str,
        renewed: bool,
    ) -> list[list[Frame]] | None:
        """The frames of these steps, as copies; None when they could not be lived to their end."""
        due = small_events(self.scene, self.period)
        kept: list[list[Frame]] = []
        held: list[tuple[Frame, Frame]] = []  # frames of the step before: as given, and as they were
        for step in steps:
            at = f"{prefix}step {step}"
            given: dict[str, list[Frame]] = {}
            for read, source in sources.items():
                behind = step - 1 if read.delayed else step
                given[read.signal] = [source.frame(behind)] if behind >= 0 else []
            before = {name: [frame.copy() for frame in frames] for name, frames in given.items()}
            inputs = Inputs(
                {name: tuple(frames) for name, frames in given.items()}, due[step] if step < len(due) else ()
            )
            try:
                answer = list(adapter.step(step * self.period, inputs))
            except Exception as error:  # noqa: BLE001 - foreign code; the failure is the finding
                self.faults.append(f"{at} raises {_error_text(error)}")
                return None
            for name, frames in given.items():
                if not all(a.same_as(b) for a, b in zip(frames, before[name], strict=True)):
                    self._once(f"{at}: the adapter writes into the '{name}' frame that it reads")
            for frame, copy in held:
                if not (frame.same_as(copy) and same_table(frame.table, copy.table)):
                    self._once(
                        f"{at}: the '{frame.signal}' frame of the step before has changed; "
                        "a frame must stay as it is through the producer's next step (alternate two buffers)"
                    )
            wrong = watch.look(step * self.period, answer, self._identity(step, renewed))
            for text in wrong:
                self._once(f"{at}: {text}")
            try:
                held = [(frame, frozen(frame)) for frame in answer]
            except Exception:  # noqa: BLE001 - not frames at all, which the watch has said
                return None
            kept.append([copy for _, copy in held])
        return kept

    def _identity(self, step: int, renewed: bool) -> Callable[[Array], Array]:
        """Who holds a slot at `step`, as the adapter can know it from the mobility that it reads."""
        late = any(read.signal == "mobility" and read.delayed for read in self.ports.reads)
        fleets = [fleet for fleet in self.scene.fleets if fleet.adapter != self.kind.name]
        generation = np.zeros(self.scene.capacity, np.int64)
        if fleets and step >= late:
            table = fleet_table(self.scene, step - late, renewed=renewed)
            generation[table.first : table.first + len(table.ids)] = table.generation
        return lambda slots: generation[slots]

    def _finish(self, adapter: Adapter, prefix: str) -> None:
        try:
            summary = adapter.finish()
        except Exception as error:  # noqa: BLE001 - foreign code; the failure is the finding
            self.faults.append(f"{prefix}finish raises {_error_text(error)}")
            return
        if not isinstance(summary, Mapping):
            self.faults.append(f"{prefix}finish must return a mapping, not {type(summary).__name__}")
            return
        try:
            json.dumps(dict(summary), allow_nan=False)
        except (TypeError, ValueError) as error:
            self.faults.append(f"{prefix}finish must return JSON values: {error}")

    def _compare(self, first: list[list[Frame]], second: list[list[Frame]] | None) -> None:
        for step, (ours, theirs) in enumerate(zip(first, second or (), strict=False)):
            other = {frame.signal: frame for frame in theirs}
            for frame in ours:
                twin = other.get(frame.signal)
                if twin is None or not (frame.same_as(twin) and same_table(frame.table, twin.table)):
                    how = ", the second of which a fork ends" if self._copied() else ""
                    self._once(f"step {step}: '{frame.signal}' differs between two runs with the same seed{how}")

    def _generations(self, first: list[list[Frame]]) -> None:
        """Check that the counters of a slot begin again when another member takes it.

        The same life cycle is repeated without replacing any member. A counter was not reset if it is as
        high after a change of members as without one, and above the last value of the previous member.
        """
        counters = [
            (name, column.name)
            for name in self.ports.writes
            for column in self.signals[name].columns
            if column.role == "counter" and self.signals[name].rows == "node"
        ]
        fleets = [fleet for fleet in self.scene.fleets if fleet.adapter != self.kind.name]
        if not counters or not fleets or not any(read.signal == "mobility" for read in self.ports.reads):
            return
        steady = self._run("with no adapter replaced", lambda _: True, quiet=True, renewed=False)
        if steady is None:
            return
        late = any(read.signal == "mobility" and read.delayed for read in self.ports.reads)
        for step in range(1 + late, len(first)):
            before, now = (fleet_table(self.scene, k - late).generation for k in (step - 1, step))
            for slot in (np.flatnonzero((now > before) & (before > 0)) + fleets[0].first).tolist():
                for signal, column in counters:
                    earlier = [_at(frames, signal, column, slot) for frames in first[:step]]
                    last = max((value for value in earlier if value is not None), default=0.0)
                    replaced, same = (_at(frames[step], signal, column, slot) for frames in (first, steady))
                    if last > 0 and replaced is not None and replaced == same and replaced >= last:
                        self._once(
                            f"step {step}: the counter {signal}.{column} goes on when another member takes the slot; "
                            "it starts again where SlotTable.generation has grown"
                        )

    def _once(self, text: str) -> None:
        """Note a fault unless the same one was noted for an earlier step."""
        tail = text.partition(": ")[2]
        if not any(known.endswith(tail) for known in self.faults):
            self.faults.append(text)


def _at(frames: Sequence[Frame], signal: str, column: str, slot: int) -> float | None:
    """The value of a column at `slot`, None without a row."""
    for frame in frames:
        if frame.signal == signal:
            rows = np.flatnonzero(frame.slot == slot)
            return float(frame[column][rows[0]]) if len(rows) else None
    return None


def _error_text(error: Exception) -> str:
    """An error with the place in the adapter's code that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
