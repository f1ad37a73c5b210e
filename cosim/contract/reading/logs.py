"""Lines of logs as programs wrote them, however the log was kept: packed, with colours, by compose or journald."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from cosim.contract.delimited import CellsError, StrPath, content, fault

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|#033\[[0-9;]*m|\^\[\[[0-9;]*m")  # as syslog and cat -v write them too
_BEFORE = re.compile(
    r"^(?:[\w.-]+\s+\|\s"  # docker compose: the service
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? \S+ [^\s\[]+(?:\[\d+\])?: "  # journald, syslog
    r"|\d{4}-\d\d-\d\dT\S+ (?:\S+ [^\s\[]+(?:\[\d+\])?: |(?:stdout|stderr) [FP] )?)"  # -o short-iso, -t, kubernetes
)


def log_lines(path: StrPath) -> list[str]:
    """The lines of a log without colours. Raises `CellsError` for a file that cannot be read."""
    return [_COLOUR.sub("", line) for line in content(path, errors="replace").splitlines()]


@contextmanager
def understood(path: StrPath, number: int) -> Iterator[None]:
    """Turns a `ValueError` into the error for a line (from 1) that cannot be read."""
    try:
        yield
    except CellsError:
        raise
    except ValueError as error:
        raise fault(path, f"cannot be read: {error}", line=number) from None


def without_prefix(line: str) -> str:
    """A line without what the keeper of a log has put before it."""
    return _BEFORE.sub("", line, count=1)
