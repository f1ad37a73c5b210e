"""The recorder: writes the frames of a run while it runs, and makes Parquet files of them at its end."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from time import monotonic, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.errors import AdapterError, CosimError, RunError
from cosim.contract.frame import Array, Frame
from cosim.contract.signals import Signal
from cosim.results.convert import MEMBERS, convert_run, disk_error, signals_entry
from cosim.results.events import JOURNAL, EventLog
from cosim.results.folder import RunFolder, Status, digests
from cosim.results.identity import Identities
from cosim.results.stream import DIRECT_BYTES, SUFFIX, SignalStream, Spec, StreamWriter, open_file
from cosim.results.summary import Summary
from cosim.scenario.plan.plan import Plan, Recording

_FLUSH = 2.0  # s of wall clock that a killed run may lose at most


class Recorder:
    """Observer of a run. `tick` for every tick, `event` for what happens, `close` always.

    What of a signal is kept follows `plan.recordings`: `every` (node-row signals only: an event-row
    frame holds what happened since the last one, and dropping it would break the ledgers),
    `columns`, `slots`, `keep`. Signals without a recording are kept whole; those whose recording has a
    `summary` become statistics (`cosim.results.summary`).

    Raises `RunError` from `tick` when the disk refuses; `close` is then still due.
    """

    def __init__(
        self,
        folder: RunFolder,
        plan: Plan,
        signals: Mapping[str, Signal],
        *,
        opener: Callable[[Path], Any] = open_file,
    ) -> None:
        self._folder = folder
        self._plan = plan
        self._identities = Identities(plan.scene)
        self._streams: dict[tuple[str, str], _Selection] = {}
        workloads = tuple(workload.name for workload in plan.scene.workloads)
        recordings = {recording.signal: recording for recording in plan.recordings}
        for adapter in plan.adapters:
            for name in adapter.writes:
                recording = recordings.get(name, Recording(name, True, 0.0, (), ()))
                if not recording.keep:
                    continue
                selection = _Selection(signals[name], recording, plan)
                if recording.summary > 0.0:
                    args = (signals[name], adapter.name, recording, plan, self._identities, folder.path)
                    selection.summary = Summary(*args)
                    selection.streams = [selection.summary.rows, selection.summary.bins]
                else:
                    spec = Spec.of(signals[name], adapter.name, recording.columns, workloads)
                    path = folder.path / "frames" / name / f"{adapter.name}{SUFFIX}"
                    path.parent.mkdir(exist_ok=True)
                    selection.streams = [SignalStream(spec, path)]
                self._streams[name, adapter.name] = selection
        self._writer = StreamWriter(folder.path / "frames" / MEMBERS, opener)
        self.path = folder.path
        self.events = EventLog(folder.path, plan)
        self._closed = False
        self._ticks = 0
        self._reached = 0.0  # s
        self._origins = {adapter.name: adapter.origin for adapter in plan.adapters}
        self._wall, self._cpu = monotonic(), process_time()
        self._looked = self._wall

    def tick(self, tick: int, time: float, frames: Sequence[tuple[str, Frame]]) -> None:
        """Keep what is to be kept of the frames that the adapters produced at `tick` (`time` in s)."""
        self._fail()
        for adapter, frame in frames:
            selection = self._streams.get((frame.signal, adapter))
            if selection is not None:
                # the producer may write into the columns of its frame before this one from now on
                selection.stream.settle(self._fail)
            if frame.table is not None:
                new = self._identities.learn(frame.table, frame.time)
                if new:
                    self._writer.put(new)
                self._identities.seen(frame.table, frame.slot, frame.time)
            if selection is not None and selection.due(tick):
                if selection.summary is not None:
                    self._count(selection.summary, tick, frame, selection.rows(frame))
                else:
                    self._keep(selection, frame)
        self.events.due(time)
        self._ticks, self._reached = tick + 1, time
        now = monotonic()
        if now - self._looked > _FLUSH / 4:
            self._looked = now
            self._flush(now - _FLUSH)

    def event(self, time: float, kind: str, node: str = "", detail: str = "") -> None:
        """Note something that happened at `time` (s): a failure, a pause, lag, an adapter's message."""
        self.events.add(time, kind, node, detail)

    def close(
        self,
        status: Status = "complete",
        *,
        error: BaseException | None = None,
        facts: Mapping[str, object] | None = None,
    ) -> None:
        """End the files, convert them to Parquet, complete the manifest. A second call does nothing.

        `facts` are further keys of the manifest (`adapters`, `lag`, `wall_seconds`, ...). Raises
        `RunError` when the disk refused, unless `error` already gives the reason for the end of the
        run; the folder is then `partial` and can still be read.
        """
        if self._closed:
            return
        self._closed = True
        wall, cpu = monotonic() - self._wall, process_time() - self._cpu
        problem: BaseException | None = error
        try:
            for selection in self._streams.values():
                if selection.summary is not None:
                    self._end_window(selection.summary)
        except RunError as refused:
            problem = problem or refused
        self._flush(None)
        streams = [stream for selection in self._streams.values() for stream in selection.streams]
        self._writer.stop(streams)
        if self._writer.failure is not None and problem is None:
            problem = self._disk_error()
        self.events.close()
        if self.events.failure is not None and problem is None:
            problem = disk_error(self._folder.path / JOURNAL, self.events.failure, "the recorded frames are kept")
        try:
            members, seen = self._identities.members, self._identities.last_seen()
            convert_run(self._folder, self._plan.as_dict(), members, seen, self._reached)
        except RunError as refused:
            problem = problem or refused
        changes: dict[str, object] = {
            "status": status if problem is None else "partial",
            "error": None if problem is None else describe(problem),
            "reached": self._reached,
            "ticks_done": self._ticks,
            "ended": datetime.now(UTC).isoformat(),
            "wall_seconds": wall,
            "cpu_seconds": cpu,
            "signals": signals_entry(
                [(stream.spec, stream.rows) for stream in streams], self._origins, _described(facts or {})
            ),
        }
        self._folder.release_reserve()
        self._folder.update(**{**changes, **(facts or {}), "files": digests(self._folder.path)})
        self._folder.let_go()
        if problem is not None and error is None:
            raise problem

    def abandon(self, reason: str) -> None:
        """Mark the run as partial and leave its rows in the stream files, from another thread than the run's.

        For a run that does not answer: what it was recording just now may be missing.
        """
        if not self._closed:
            self._closed = True
            self._flush(None)
            self._writer.end(0.3)
        error = {"type": "RunError", "message": reason, "adapter": None, "phase": None, "traceback": ""}
        if self._folder.manifest["status"] == "running":
            self._folder.update(status="partial", error=error, reached=self._reached, ticks_done=self._ticks)

    def _count(self, summary: Summary, tick: int, frame: Frame, rows: NDArray[np.intp] | None) -> None:
        if summary.ended(tick):
            self._end_window(summary)
        summary.add(tick, frame, rows)

    def _end_window(self, summary: Summary) -> None:
        """Write the statistics of the window that has ended, or of the one that the run ends in."""
        time = min(summary.end(), self._reached)
        for stream, columns in zip((summary.rows, summary.bins), summary.close(), strict=True):
            total, done = len(next(iter(columns.values()))), 0
            stream.rows += total
            while done < total:
                chunk = stream.next_chunk(self._fail)
                count = min(total - done, chunk.capacity - chunk.rows)
                chunk.serial[chunk.rows : chunk.rows + count] = -1  # about no node in particular
                for name, values in columns.items():
                    chunk.columns[name][chunk.rows : chunk.rows + count] = values[done : done + count]
                chunk.add(time, count)
                done += count
                if chunk.rows == chunk.capacity:
                    self._hand_over(stream)

    def _keep(self, selection: _Selection, frame: Frame) -> None:
        chosen = selection.rows(frame)
        if chosen is None and selection.width * len(frame) >= DIRECT_BYTES:
            self._lend(selection.stream, frame)
            return
        total, done = len(frame) if chosen is None else len(chosen), 0
        stream = selection.stream
        slots = frame.slot if chosen is None else frame.slot[chosen]
        stream.rows += total
        while done < total:
            chunk = stream.next_chunk(self._fail)
            count = min(total - done, chunk.capacity - chunk.rows)
            here = slice(chunk.rows, chunk.rows + count)
            there = slice(done, done + count) if chosen is None else chosen[done : done + count]
            self._owners(stream.spec, frame, slots[done : done + count], there, chunk.serial[here])
            for column in stream.spec.columns:
                if column.role == "slot":
                    self._translate(frame[column.name][there], frame.time, chunk.columns[column.name][here])
                else:
                    chunk.columns[column.name][here] = frame[column.name][there]
            chunk.add(frame.time, count)
            done += count
            if chunk.rows == chunk.capacity:
                self._hand_over(stream)

    def _lend(self, stream: SignalStream, frame: Frame) -> None:
        """Have a large frame written from its own columns."""
        self._hand_over(stream)  # earlier rows first
        chunk, rows = stream.borrowing_chunk(self._fail), len(frame)
        chunk.room(rows)
        self._owners(stream.spec, frame, frame.slot, slice(0, rows), chunk.serial[:rows])
        for column in stream.spec.columns:
            values = np.ascontiguousarray(frame[column.name])
            if column.role == "slot":
                serials = np.empty(rows, np.int32)
                self._translate(values, frame.time, serials)
                values = serials
            chunk.columns[column.name] = values.view(stream.spec.stored(column))
        chunk.add(frame.time, rows)
        stream.rows += rows
        self._writer.put((stream, chunk))

    def _owners(
        self, spec: Spec, frame: Frame, slots: NDArray[np.int32], where: slice | Array, out: NDArray[np.int32]
    ) -> None:
        """The serials of the nodes that rows are about.

        A task can outlive its device: when the task ends, the slot may already have a new member. Rows
        with a creation time therefore belong to the node that held the slot at that time.
        """
        if spec.rows == "event" and "created" in frame.columns:
            self._introduce(slots, frame.time)
            self._identities.serials_at(slots, frame["created"][where], out)
        else:
            self._translate(slots, frame.time, out)

    def _translate(self, slots: NDArray[np.int32], time: float, out: NDArray[np.int32]) -> None:
        """The serials of the nodes that hold `slots` now."""
        self._identities.serials(slots, out)
        if len(out) and out.min() < 0 and self._introduce(slots, time):
            self._identities.serials(slots, out)

    def _introduce(self, slots: NDArray[np.int32], time: float) -> bool:
        """Give serials to slots that no table has introduced; whether there were any."""
        strangers = self._identities.strangers(slots, time)
        if strangers:
            self._writer.put(strangers)
        return bool(strangers)

    def _hand_over(self, stream: SignalStream) -> None:
        chunk, stream.chunk = stream.chunk, None
        if chunk is not None:
            self._writer.put((stream, chunk))

    def _flush(self, older: float | None) -> None:
        """Hand over chunks whose first row came before `older` (monotonic s), or all."""
        for stream in (stream for selection in self._streams.values() for stream in selection.streams):
            if stream.chunk is not None and stream.chunk.rows and (older is None or stream.opened < older):
                self._hand_over(stream)

    def _fail(self) -> None:
        if self._writer.failure is not None:
            raise self._disk_error()

    def _disk_error(self) -> RunError:
        assert self._writer.failure is not None
        path, error = self._writer.failure
        return disk_error(path, error, f"the run's rows up to about {self._reached:g} s are kept")


class _Selection:
    """Which rows of a signal are kept: decimation in time and choice of nodes; and where they go."""

    def __init__(self, signal: Signal, recording: Recording, plan: Plan) -> None:
        self.streams: list[SignalStream] = []
        self.summary: Summary | None = None  # then the streams are its two
        every = round(recording.every / plan.step) if signal.rows == "node" else 0
        self._every = max(1, every)  # ticks
        self._next = 0  # tick from which on the next frame is kept
        self._mask: NDArray[np.bool_] | None = None
        if recording.slots:
            self._mask = np.zeros(plan.scene.capacity, np.bool_)
            for first, count in recording.slots:
                self._mask[first : first + count] = True

    @property
    def stream(self) -> SignalStream:
        """The first one: where rows go."""
        return self.streams[0]

    @cached_property
    def width(self) -> int:
        """B per row."""
        spec = self.stream.spec
        return 4 + sum(spec.stored(column).itemsize for column in spec.columns)

    def due(self, tick: int) -> bool:
        if tick < self._next:
            return False
        self._next = (tick // self._every + 1) * self._every
        return True

    def rows(self, frame: Frame) -> NDArray[np.intp] | None:
        """Row numbers to keep, None for all."""
        return None if self._mask is None else np.flatnonzero(self._mask[frame.slot])


def unexpected(error: BaseException) -> bool:
    """Whether where it came from in the code matters: not of an end that the scenario or the operator wanted."""
    return isinstance(error, AdapterError) or not isinstance(error, CosimError) or error.__cause__ is not None


def describe(error: BaseException) -> dict[str, object]:
    """`error` as the manifest holds it."""
    trace = error.remote_traceback if isinstance(error, AdapterError) else ""
    if not trace and unexpected(error):
        trace = "".join(traceback.format_exception(error))
    return {
        "type": type(error).__name__,
        "message": str(error),
        "adapter": getattr(error, "adapter", "") or None,
        "phase": getattr(error, "phase", "") or None,
        "traceback": trace.encode(errors="backslashreplace").decode(),  # foreign words may be no text
    }


def _described(facts: Mapping[str, Any]) -> dict[tuple[str, str], Sequence[str]]:
    """The origins of rows, by adapter and signal, from `origins` in the summaries of the adapters."""
    return {
        (str(row["name"]), signal): found
        for row in facts.get("adapters", ())
        for signal, found in row["summary"].get("origins", {}).items()
    }
