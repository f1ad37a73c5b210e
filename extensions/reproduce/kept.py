"""Results that are kept as they come, so that what was interrupted goes on."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from cosim.contract.children import as_they_come
from cosim.contract.seals import SealedLines


def resumed(
    make: Callable[..., Any], cases: Mapping[str, tuple[Any, ...]], file: Path | None, code: Iterable[Path], *,
    workers: int = 1, notify: Callable[[str], None] | None = None,
) -> list[Any]:  # fmt: skip
    """`make` of every case, by its name, in their order; whatever `file` holds from the same code is not made again.

    Each answer is written there as it comes, as JSON, and reported to `notify`. `code` are the files, and folders of
    Python files, that the answers depend on.
    """
    files = [one for path in code for one in (path.rglob("*.py") if path.is_dir() else (path,))]
    read = (file.name.encode() + b"\0" + file.read_bytes() for file in sorted(set(files)))
    made_by, have = hashlib.sha256(b"".join(read)).hexdigest()[:16], dict[str, Any]()
    kept = None if file is None else SealedLines(file)
    if kept is not None:
        for number, (row, _) in enumerate(kept.read(), 1):
            if row.keys() != {"case", "code", "found"}:
                raise kept.damaged(number)
            if row["code"] == made_by:
                have[row["case"]] = row["found"]
    missing = [name for name in cases if name not in have]
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    for done, (k, found) in enumerate(as_they_come(make, [cases[name] for name in missing], workers), 1):
        have[missing[k]] = found
        if kept is not None:
            kept.append({"case": missing[k], "code": made_by, "found": found})
        if notify is not None:
            left = (time.monotonic() - begun) / done * (len(missing) - done)
            notify(f"{done}/{len(missing)}  {missing[k]}, some {left:.0f} s left")
    return [have[name] for name in cases]
