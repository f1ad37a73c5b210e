"""The text of a scenario from its sections, and names that it accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping


def plain_name(text: str, taken: set[str], prefix: str = "node") -> str:
    """A name that a scenario accepts and that is not in `taken` yet."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:48].strip("-.") or prefix
    if not re.match(r"[A-Za-z]", name):
        name = f"{prefix}-{name}"
    base, number = name, 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    taken.add(name)
    return name


def text_of(document: Mapping[str, object]) -> str:
    """The document in YAML: blocks down to the entries of a section, one line each; text always quoted."""
    lines = []
    for key, value in document.items():
        if isinstance(value, dict) and key in ("kinds", "nodes", "workloads") and value:
            lines.append(f"{key}:")
            lines += [f"  {_inline(name)}: {_inline(entry)}" for name, entry in value.items()]
        elif isinstance(value, list) and value:
            lines.append(f"{key}:")
            lines += [f"  - {_inline(entry)}" for entry in value]
        else:
            lines.append(f"{key}: {_inline(value)}")
    return "\n".join(lines) + "\n"


def _inline(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
