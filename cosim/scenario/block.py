"""What all blocks of a scenario file have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

NAME = r"[A-Za-z][A-Za-z0-9_.-]{0,63}"
Name = Annotated[str, Field(pattern=rf"^{NAME}$")]


class Block(BaseModel):
    """A block of the file: unknown keys are errors, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants", defer_build=True)
