"""From the stream files of a run to Parquet: at its end, or later when it was killed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cosim.contract.errors import RunError
from cosim.contract.seals import DamagedError
from cosim.results.arrays import numbers, taken, texts, values_of
from cosim.results.events import JOURNAL, events_table, nodes_table
from cosim.results.folder import RunFolder, digests, outside
from cosim.results.identity import SlotHolder, members_from
from cosim.results.stream import SUFFIX, Spec, unpack_runs
from cosim.scenario.plan.compact import expanded

GROUP_ROWS = 2**19  # rows per row group: what conversion holds in memory at a time
MEMBERS = "members.jsonl"

Part = tuple[pa.RecordBatch, NDArray[np.float64], NDArray[np.int64]]  # rows, times of runs (s), their row counts


def stream_files(folder: Path) -> list[Path]:
    """The stream files in a run's folder that are not converted yet."""
    return sorted((folder / "frames").glob(f"*/*{SUFFIX}"))


def read_stream(path: Path) -> tuple[Spec, Iterator[Part]] | None:
    """What `path` holds and its batches, up to the first one that is cut off; None without a header."""
    source = pa.OSFile(str(path), "rb")
    try:
        reader = pa.ipc.open_stream(source)
        spec = Spec.decode(reader.schema.metadata[b"spec"])
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError):
        source.close()
        return None
    return spec, _parts(source, reader)


def _parts(source: Any, reader: Any) -> Iterator[Part]:  # noqa: ANN401 - pyarrow has no types
    with source:
        while True:
            try:
                found = reader.read_next_batch_with_custom_metadata()
                times, counts = unpack_runs(found.custom_metadata)
            except (StopIteration, pa.ArrowException, OSError, KeyError, TypeError):
                return  # the end, or the batch that the writer was at when it was killed
            if int(counts.sum()) == found.batch.num_rows:
                yield found.batch, times, counts


def target(folder: Path, spec: Spec) -> Path:
    """Where the rows of `spec` go: tasks have a file of their own."""
    if spec.signal == "task":
        return folder / "tasks.parquet"
    return folder / "frames" / spec.signal / f"{spec.adapter}.parquet"


def assemble(spec: Spec, parts: Sequence[Part], ids: pa.Array) -> pa.Table:
    """The rows of `parts` as the result's table. `ids` holds the node id of every serial."""
    serial = np.concatenate([values_of(part[0].column(0)) for part in parts]) if parts else np.empty(0, np.int32)
    times = [np.repeat(part[1], part[2]) for part in parts]
    arrays: list[Any] = [numbers(np.concatenate(times) if times else np.empty(0)), named(serial, ids)]
    fields = [
        pa.field("time", pa.float64(), metadata={"unit": "s", "meaning": "simulated time that the row holds for"}),
        pa.field("node", arrays[1].type, metadata={"unit": "", "meaning": "id of the node that the row is about"}),
    ]
    for i, column in enumerate(spec.columns, start=1):
        pieces = [part[0].column(i) for part in parts]
        if column.role == "slot":
            array = named(np.concatenate([values_of(p) for p in pieces]) if pieces else np.empty(0, np.int32), ids)
        elif column.role == "code" and column.codes:
            array = _decoded([values_of(p) for p in pieces], tuple(column.codes))
        elif column.dtype == "bool":
            array = pa.chunked_array([numbers(values_of(p).view(np.bool_)) for p in pieces], pa.bool_())
        else:
            array = pa.chunked_array(pieces, pa.from_numpy_dtype(spec.stored(column)))
        arrays.append(array)
        fields.append(pa.field(column.name, array.type, metadata={"unit": column.unit, "meaning": column.meaning}))
    about = {"signal": spec.signal, "adapter": spec.adapter, "rows": spec.rows}
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata=about))


def named(serial: NDArray[np.int32], ids: pa.Array) -> pa.DictionaryArray:
    """Serials as ids; -1 becomes null. The dictionary holds those only that occur, in their order."""
    present = np.zeros(len(ids) + 1, np.bool_)  # the last place takes -1
    present[serial] = True
    used = np.flatnonzero(present[:-1])
    place = np.zeros(len(ids) + 1, np.int32)
    place[used] = np.arange(len(used), dtype=np.int32)
    absent = (serial < 0) if present[-1] else None
    known = ids if len(used) == len(ids) else taken(ids, used)
    return pa.DictionaryArray.from_arrays(numbers(place.take(serial, mode="wrap"), absent), known)


def write_parquet(path: Path, groups: Iterable[pa.Table]) -> int:
    """Write tables of one schema as row groups of `path`, in one step; the number of rows."""
    temporary = path.with_name(f".{path.name}.tmp")
    writer, rows = None, 0
    try:
        with pa.OSFile(str(temporary), "wb") as sink:
            for table in groups:
                if writer is None:
                    writer = _parquet_writer(sink, table.schema)
                if table.num_rows or not rows:
                    writer.write_table(table, row_group_size=max(1, table.num_rows))
                rows += table.num_rows
            if writer is not None:
                writer.close()
        temporary.replace(path)
    except (OSError, pa.ArrowException) as error:
        temporary.unlink(missing_ok=True)
        refused = error if isinstance(error, OSError) else OSError(str(error))
        raise disk_error(path, refused, "the rows are kept in stream files, from which cosim.load reads") from error
    return rows


def convert_run(folder: RunFolder, plan: Mapping[str, Any], members: Sequence[SlotHolder],
                last_seen: Mapping[int, float], reached: float) -> dict[str, int]:  # fmt: skip
    """Make Parquet files of everything that was recorded, then remove what they were made from.

    Memory stays at a few row groups whatever the run's length. Returns the rows per signal. Raises
    `RunError` when the disk refuses; nothing is lost then.
    """
    ids = texts([member.id for member in members])
    rows: dict[str, int] = {}
    done: list[Path] = []
    streams: dict[Path, list[Path]] = {}
    for path in stream_files(folder.path):
        found = read_stream(path)
        if found is not None:
            streams.setdefault(target(folder.path, found[0]), []).append(path)
            rows.setdefault(found[0].signal, 0)
        done.append(path)
    for goal, sources in streams.items():
        signal = "task" if goal.name == "tasks.parquet" and goal.parent == folder.path else goal.parent.name
        rows[signal] += write_parquet(goal, groups(sources, ids))
    write_parquet(folder.path / "events.parquet", [events_table(folder.path)])
    write_parquet(folder.path / "nodes.parquet", [nodes_table(plan, members, last_seen, reached)])
    for path in (*done, folder.path / "frames" / MEMBERS, folder.path / JOURNAL):
        path.unlink(missing_ok=True)
    return rows


def recover(path: str | Path) -> RunFolder:
    """Make a killed run's folder whole: convert what its stream files hold, mark it partial.

    A batch that was cut off is dropped. Does nothing to a folder that needs nothing; raises
    `RunError` while another process writes the run.
    """
    folder = RunFolder.open(path)
    if folder.alive:
        raise RunError(f"{folder.path} is being written by another process; wait until it has ended")
    if folder.manifest["status"] != "running" and not stream_files(folder.path):
        return folder
    fault = folder.fault
    folder.hold()
    folder.release_reserve()
    try:
        plan = read_plan(folder.path)
        found = survey(folder.path)
        convert_run(folder, plan, read_members(folder.path, plan), found.last_seen, found.reached)
        changes: dict[str, object] = {"status": "partial", "error": fault}
        if fault is not None and folder.manifest["error"] is None:
            changes["error"] = fault | {
                "message": f"{fault['message']}; its rows up to {found.reached:g} s were recovered"
            }
        if folder.manifest["status"] == "running":
            origins = {adapter["name"]: adapter["origin"] for adapter in folder.manifest["adapters"]}
            changes["reached"] = found.reached
            changes["ticks_done"] = round(found.reached / folder.manifest["step"]) + 1 if found.rows else 0
            changes["signals"] = signals_entry(found.specs, origins)
        folder.update(**changes, files=digests(folder.path))
    finally:
        folder.let_go()
    return folder


class KilledRun:
    """What the stream files of a killed run hold."""

    def __init__(self) -> None:
        self.reached = 0.0  # s
        self.rows = 0
        self.last_seen: dict[int, float] = {}  # serial -> s
        self.specs: list[tuple[Spec, int]] = []  # with the number of rows


def survey(folder: Path) -> KilledRun:
    """Read all stream files once for what the manifest and the node table need."""
    found = KilledRun()
    for path in stream_files(folder):
        stream = read_stream(path)
        if stream is None:
            continue
        spec, rows = stream[0], 0
        for batch, times, counts in stream[1]:
            rows += batch.num_rows
            if len(times):
                found.reached = max(found.reached, float(times.max()))
            if spec.rows == "node":
                at = np.repeat(times, counts)
                # in order of time, so the last assignment is the latest row
                found.last_seen.update(zip(values_of(batch.column(0)).tolist(), at.tolist(), strict=True))
        found.rows += rows
        found.specs.append((spec, rows))
    return found


def signals_entry(
    specs: Sequence[tuple[Spec, int]],
    origins: Mapping[str, str],
    reported: Mapping[tuple[str, str], Sequence[str]] | None = None,
) -> dict[str, object]:
    """`{signal: {"origin", "adapters", "rows", "columns": {column: unit}}}`; adapters without rows add no origin.

    `reported`: by adapter and signal, the origins that the adapter itself reports for its rows.
    """
    entries: dict[str, dict[str, Any]] = {}
    wrote: dict[str, set[str]] = {}
    for spec, rows in specs:
        units = {column.name: column.unit for column in spec.columns}
        entry = entries.setdefault(spec.signal, {"origin": "", "adapters": [], "rows": 0, "columns": units})
        entry["adapters"].append(spec.adapter)
        entry["rows"] += rows
        if rows:
            own = (reported or {}).get((spec.adapter, spec.signal), [origins[spec.adapter]])
            wrote.setdefault(spec.signal, set()).update(own)
        found = wrote.get(spec.signal) or {origins[adapter] for adapter in entry["adapters"]}
        entry["origin"] = "/".join(sorted(found))
    return dict(entries)


def read_plan(folder: Path) -> dict[str, Any]:
    """`plan.json` of a run's folder."""
    try:
        plan: dict[str, Any] = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
        if not isinstance(plan, dict):
            raise ValueError("it holds no mapping")
        return expanded(plan)
    except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise DamagedError(f"{folder / 'plan.json'} cannot be read: {error}") from error


def read_members(folder: Path, plan: Mapping[str, Any]) -> list[SlotHolder]:
    """Static nodes from the plan and fleet members from the journal, by serial."""
    members = [SlotHolder(i, node["id"], "", i, 0, 0.0) for i, node in enumerate(plan["scene"]["nodes"])]
    path = folder / "frames" / MEMBERS
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []  # behind the last newline: cut off
    try:
        return members + [member for line in lines for member in members_from(line)]
    except (ValueError, TypeError, RecursionError) as error:
        raise DamagedError(f"{path} cannot be read: {error}") from error


def disk_error(path: Path, error: OSError, kept: str) -> RunError:
    """The error for the operator when the disk refuses: file, reason, free space, what is kept."""
    try:
        free = f"{shutil.disk_usage(path.parent).free / 1e6:.1f} MB free there"
    except OSError:
        free = "free space unknown"
    return RunError(
        f"cannot write {outside(path)}: {os.strerror(error.errno) if error.errno else error} ({free}); {kept}. "
        "Free some space, or record less (scenario key 'record': every, columns, nodes), and run again"
    )


def groups(paths: Sequence[Path], ids: pa.Array) -> Iterator[pa.Table]:
    """The rows of stream files of one signal as tables of about `GROUP_ROWS` rows; at least one table."""
    for path in paths:
        stream = read_stream(path)
        if stream is None:
            continue
        spec, parts = stream[0], list[Part]()
        rows, given = 0, False
        for part in stream[1]:
            parts.append(part)
            rows += part[0].num_rows
            if rows >= GROUP_ROWS:
                yield assemble(spec, parts, ids)
                parts, rows, given = [], 0, True
        if parts or not given:
            yield assemble(spec, parts, ids)


def _parquet_writer(sink: Any, schema: pa.Schema) -> Any:  # noqa: ANN401 - pyarrow has no types
    words = [f.name for f in schema if pa.types.is_dictionary(f.type) or pa.types.is_string(f.type)]
    split = [f.name for f in schema if pa.types.is_floating(f.type) and f.name != "time"]
    return pq.ParquetWriter(
        sink, schema, compression="zstd", compression_level=1, use_dictionary=["time", *words],
        use_byte_stream_split=split or False, dictionary_pagesize_limit=2**26,
    )  # fmt: skip


def _decoded(pieces: Sequence[NDArray[Any]], codes: tuple[str, ...]) -> pa.DictionaryArray:
    """Codes as words; a number that has no word becomes null."""
    index = np.concatenate(pieces).astype(np.int32) if pieces else np.empty(0, np.int32)
    wrong = (index < 0) | (index >= len(codes))
    return pa.DictionaryArray.from_arrays(numbers(np.where(wrong, 0, index).astype(np.int32), wrong), texts(codes))
