"""Plans as plain data and back, for run folders, for workers of a sweep, for other hosts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosim.contract.errors import RunError
from cosim.scenario.plan.plan import Plan

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@cache
def _reader() -> TypeAdapter[Plan]:
    from pydantic import TypeAdapter

    return TypeAdapter(Plan)


def plan_from_dict(data: Mapping[str, Any], root: Path) -> Plan:
    """The plan whose `as_dict()` is `data`, with its scenario in the folder `root`.

    `data` may have travelled as JSON (lists for tuples) or msgpack. Raises `RunError` when it is
    not a plan of this version.
    """
    from pydantic import ValidationError

    try:
        return _reader().validate_python({**data, "root": root})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RunError(f"this is not a plan of this version of cosim: {where}: {first['msg']}") from None
