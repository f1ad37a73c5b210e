"""What all blocks of a scenario file have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

NAME = r"[A-Za-z][A-Za-z0-9_.-]{0,63}"
Name = Annotated[str, Field(pattern=rf"^{NAME}$")]


class Block(BaseModel):
    """A block of the file: unknown keys are errors, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants", defer_build=True)


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
