"""Continue a run that was killed: its ticks are made again, and what it had recorded is what they must give.

A purely simulated run is a function of its plan, so making it again from tick 0 gives the same bits as
if nothing had happened; no adapter, SUMO's process included, has to store its state. A paced run goes
as fast as possible up to where it had got. The rows of the killed run are kept aside meanwhile and
compared with the new ones; they are removed when all agree.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from cosim.contract.errors import RunError, SetupError
from cosim.contract.trust import distrust
from cosim.results.arrays import texts
from cosim.results.convert import groups, read_members, read_plan, read_stream, stream_files, survey, target
from cosim.results.folder import RunFolder
from cosim.results.recorder import describe
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.scenario.plan.plan import Plan

ASIDE = ".before"  # in a run's folder: what the killed run had left, while it is made again


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A killed run that can be made again."""

    folder: RunFolder
    plan: Plan
    reached: float  # s, of the last recorded row
    driver: Literal["mosaik", "loop"]


def interrupted(path: Path) -> Interrupted:
    """The killed run in `path`, ready to be made again.

    Raises `SetupError` when it is complete or cannot be repeated, as one with machines in it or one
    that was steered, `DamagedError` when plan or scenario are not as it wrote them, `RunError` while a
    process still writes it.
    """
    folder = RunFolder.open(path)
    manifest = folder.manifest
    if folder.alive:
        raise RunError(f"{folder.path} is being written by another process; wait until it has ended")
    if folder.status == "complete":
        raise SetupError(f"{folder.path} is complete; there is nothing to resume")
    if manifest["interactive"]:
        raise SetupError(f"{folder.path} was steered while it ran, so its plan alone does not repeat it")
    folder.verify("plan.json", "scenario.resolved.yaml")  # rows are compared when they have been made again
    before = folder.path / ASIDE
    found = survey(before if before.is_dir() else folder.path)
    real = {str(one["name"]) for one in manifest["adapters"] if one["origin"] != "simulated"}
    wrote = sorted({spec.adapter for spec, rows in found.specs if rows} & real)
    if wrote:
        raise SetupError(f"{folder.path} cannot be repeated: {', '.join(wrote)} did not only simulate")
    if manifest.get("untrusted"):
        distrust()
    plan = _plan_again(folder)
    if plan.hash != manifest["plan_hash"]:
        raise SetupError(
            f"the scenario of {folder.path} makes another plan now: its files or this version differ from then"
        )
    return Interrupted(folder, plan, max(found.reached, float(manifest["reached"])), manifest["driver"])


def _plan_again(folder: RunFolder) -> Plan:
    root = Path(folder.origin["root"])
    text = (folder.path / "scenario.resolved.yaml").read_text(encoding="utf-8")  # verified
    with scenario_in(root, text) as file:
        return compile_plan(load(file), force=True)


class scenario_in:  # noqa: N801 - used as a with statement
    """A scenario file with `text` in folder `root`, where its relative paths start, as long as it is needed."""

    def __init__(self, root: Path, text: str) -> None:
        self._root, self._text = root, text
        self._file: Path | None = None

    def __enter__(self) -> Path:
        try:
            handle, name = tempfile.mkstemp(".cosim.yaml", ".", self._root)
        except OSError as error:
            raise SetupError(f"cannot write a scenario into {self._root}: {error.strerror or error}") from error
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(self._text)
        self._file = Path(name)
        return self._file

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.unlink(missing_ok=True)


def set_aside(folder: RunFolder) -> None:
    """Move what a killed run has left out of the way of its repetition; an earlier one stays what is compared with."""
    before = folder.path / ASIDE
    fresh = not before.is_dir()
    before.mkdir(exist_ok=True)
    for name in (
        "frames",
        "plan.json",
        "scenario.resolved.yaml",
        "metrics.json",
        "events.jsonl",
        *[file.name for file in folder.path.glob("*.parquet")],
    ):
        path = folder.path / name
        if not path.exists():
            continue
        if fresh:
            path.rename(before / name)
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    shutil.rmtree(folder.path / "logs", ignore_errors=True)
    (folder.path / ".reserve").unlink(missing_ok=True)


def settle(folder: RunFolder) -> None:
    """Compare what was set aside with the repetition, and remove it when all agrees.

    Raises `RunError` and marks the run as partial when something differs.
    """
    before = folder.path / ASIDE
    found = list(_differences(before, folder.path)) if before.is_dir() else []
    if found:
        wrong = RunError(
            f"the run could not be repeated: {'; '.join(found[:3])}; the recorded rows are kept in {before}"
        )
        folder.update(status="partial", error=describe(wrong))
        raise wrong
    shutil.rmtree(before, ignore_errors=True)


def _differences(before: Path, now: Path) -> Iterator[str]:
    streams = stream_files(before)
    if streams:
        ids = texts([member.id for member in read_members(before, read_plan(before))])
        writers: dict[Path, int] = {}
        specs = [(path, found[0]) for path in streams if (found := read_stream(path)) is not None]
        for _, spec in specs:
            goal = target(now, spec)
            writers[goal] = writers.get(goal, 0) + 1
        for path, spec in specs:
            goal = target(now, spec)
            if writers[goal] == 1:  # rows of several adapters in one file stand one behind the other
                yield from _compare(goal, groups([path], ids), now)
    for file in sorted(before.glob("frames/*/*.parquet")):
        yield from _compare(now / file.relative_to(before), _parts_of(file), now)


def _parts_of(file: Path) -> Iterator[pa.Table]:
    with suppress(OSError, pa.ArrowException), pq.ParquetFile(file) as opened:
        for batch in opened.iter_batches():
            yield pa.Table.from_batches([batch])


def _compare(goal: Path, old: Iterator[pa.Table], now: Path) -> Iterator[str]:
    """Is what was recorded before the beginning of what is recorded now?"""
    from cosim.results.compare import decoded, first_difference  # loads what few runs need

    name = goal.relative_to(now)
    if not goal.exists():
        if any(table.num_rows for table in old):
            yield f"{name} is not there any more"
        return
    new = pq.read_table(goal)
    done = 0
    for table in old:
        part = new.slice(done, table.num_rows)
        if part.num_rows < table.num_rows:
            yield f"{name} has fewer rows than before"
            return
        if table.num_rows == 0:
            continue
        mine, other = (decoded(t).combine_chunks() for t in (table, part))
        for column in mine.column_names:
            a, b = (t.column(column).combine_chunks() for t in (mine, other))
            if (row := first_difference(a, b)) is not None:
                yield f"{name}: {column} differs from row {done + row} on"
                return
        done += table.num_rows
