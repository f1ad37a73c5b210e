"""Values of blocks as they would be written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel


def leaf(value: object, keys: Sequence[str | int]) -> object:
    """The value at `keys` of a model, as it would be written; None when there is none."""
    for index, key in enumerate(keys):
        if isinstance(value, BaseModel):
            names = {info.alias or name: name for name, info in type(value).model_fields.items()}
            name = names.get(str(key), str(key))
            if index == len(keys) - 1:
                return value.model_dump(mode="json", include={name}).get(name)
            value = getattr(value, name, None)
        elif isinstance(value, Mapping):
            value = value.get(str(key))
        elif isinstance(value, (list, tuple)) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            return None
    return value if isinstance(value, (str, int, float, bool)) else None
