"""What every verb shares: output as text or JSON, and errors with the exit code they stand for."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from cosim.contract.errors import AdapterError, CosimError, RunError, ScenarioError, SetupError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def emit(data: object, as_json: bool, text: Callable[[], str] | str) -> None:
    """Print `data` as JSON, or `text` for people."""
    said = json.dumps(_strict(data), indent=2, default=str, allow_nan=False) if as_json else text
    with errors():  # the disk that it is written to may be full
        typer.echo(said if isinstance(said, str) else said())


def _strict(data: object) -> object:
    """`data` with null for NaN, and with infinities, which JSON does not have either, as text."""
    if isinstance(data, float) and not math.isfinite(data):
        return None if math.isnan(data) else str(data)
    if isinstance(data, Mapping):
        return {str(key): _strict(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_strict(value) for value in data]
    return data


def count(number: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def beside(head: str, text: str) -> str:
    """`head` with `text` to its right; at a terminal in lines that fit, below `head` where too little is left."""
    if not sys.stdout.isatty():
        return head + text
    width = shutil.get_terminal_size().columns
    if width - len(head) < 30:
        return f"{head.rstrip()}\n{beside('    ', text)}"
    return textwrap.fill(text, width, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False)


def note(text: str) -> None:
    """Something for the person at the terminal that is not the result."""
    typer.echo(text, err=True)


_NO_MEMORY = "there is not enough memory; raise the limit (ulimit -v), or simulate fewer nodes or a shorter time"
_LIMITS = {
    errno.EFBIG: ": a file has reached the limit of its size (ulimit -f); what was written before is kept",
    errno.ENOSPC: "; free some space, or write to another disk with --out",
    errno.EDQUOT: "; free some space, or write to another disk with --out",
    errno.EMFILE: "; raise the limit of open files (ulimit -n)",
    errno.ENOMEM: "; raise the limit of memory (ulimit -v), or simulate fewer nodes",
}
_REMEDIES = {
    errno.ENOTDIR: "; a part of this path is a file: name a folder",
    errno.EISDIR: "; name a file",
    errno.EEXIST: "; remove it, or name another one",
    errno.EACCES: "; name a place that this user may use",
    errno.EROFS: "; name a place that can be written",
}


def _has_folder() -> bool:
    """Whether the working directory is there."""
    try:
        Path.cwd()
    except OSError:
        return False
    return True


@contextmanager
def errors(as_json: bool = False) -> Iterator[None]:
    """Turn the errors of the library into a message and the exit code that shows who must act."""
    try:
        yield
    except CosimError as error:
        fail(error, as_json)
    except KeyboardInterrupt:
        text = "stopped by Ctrl-C (SIGINT); what was written until then is kept"
        said = json.dumps({"error": {"type": "KeyboardInterrupt", "message": text}}, indent=2)
        typer.echo(said if as_json else f"error: {text}", err=not as_json)
        raise typer.Exit(128 + signal.SIGINT) from None
    except OSError as error:  # of a file that the user has named, or of a limit; anything else is a fault of ours
        if error.errno in _LIMITS:
            fail(RunError(f"{os.strerror(error.errno)}{_LIMITS[error.errno]}"), as_json)
        file = re.search(r"Failed to open local file '([^']+)'", str(error))  # pyarrow's way to name it
        if error.filename is None and file and error.errno:
            fail(SetupError(f"{file[1]}: {os.strerror(error.errno)}"), as_json)
        if isinstance(error, FileNotFoundError) and not _has_folder():
            fail(SetupError("the folder that this was started in is gone; change to another"), as_json)
        if error.filename is None:
            raise
        fail(SetupError(f"{error.filename}: {error.strerror}{_REMEDIES.get(error.errno or 0, '')}"), as_json)
    except SystemExit as error:  # typer's own ways to leave are none
        fail(RunError(f"code of others asked to end this process (SystemExit: {error.code})"), as_json)
    except MemoryError:
        fail(RunError(_NO_MEMORY), as_json)
    except Exception as error:
        if str(error).startswith("Symlink loop"):  # of Path.resolve, which has no OSError for it
            fail(SetupError(f"{error}; name a file or a folder"), as_json)
        # a library's own words for a limit: DuckDB, LLVM and threads have errors of their own
        if not re.search(r"out of memory|cannot allocate|can't start new thread|failed to allocate", str(error), re.I):
            raise
        fail(RunError(f"{_NO_MEMORY} ({error})"), as_json)


def fail(error: CosimError, as_json: bool) -> None:
    """Print `error` and leave with its exit code."""
    if as_json:
        typer.echo(json.dumps({"error": describe(error)}, indent=2, default=str))
    elif isinstance(error, ScenarioError):
        count = len(error.problems)
        for problem in error.problems:
            typer.echo(str(problem), err=True)
        typer.echo(f"{count} problem{'s' if count > 1 else ''} found; nothing was started", err=True)
    else:
        typer.echo(f"error: {error}", err=True)
        if isinstance(error, AdapterError) and error.remote_traceback:
            typer.echo(error.remote_traceback.rstrip(), err=True)
    raise typer.Exit(error.exit_code)


def describe(error: CosimError) -> dict[str, Any]:
    """An error as JSON data."""
    data: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, ScenarioError):
        data["problems"] = [
            {
                "message": problem.message,
                "path": problem.path,
                "file": str(problem.file) if problem.file else None,
                "line": problem.line,
                "column": problem.column,
                "hint": problem.hint,
            }
            for problem in error.problems
        ]
    if isinstance(error, AdapterError):
        data |= {"adapter": error.adapter, "phase": error.phase, "time": error.time}
    return data


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as aligned lines."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def interactive() -> bool:
    """Whether a person looks at the error stream, so that a progress bar makes sense."""
    return sys.stderr.isatty()
