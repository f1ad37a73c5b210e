"""Which files a configuration names, wherever their keys are."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from cosim.contract.adapter import AdapterConfig, InputFile
from cosim.contract.trust import Words, files_in


class Part(BaseModel):
    trace: Annotated[str, InputFile()] | None = None
    name: Words = "x"


class Config(AdapterConfig):
    plain: Annotated[str, InputFile()] = "a"
    terrain: Annotated[str, InputFile()] | Literal["flat"] | None = None
    several: Annotated[list[str] | str, InputFile()] = []
    part: Part | None = Field(None, alias="jobs")
    parts: list[Part] = []
    by_name: dict[str, Annotated[str, InputFile()]] = {}


def test_files_in_unions_lists_and_blocks_are_found():
    written = {
        "terrain": "b", "several": ["c", "d"], "jobs": {"trace": "e", "name": "no file"},
        "parts": [{}, {"trace": "f"}], "by_name": {"k": "g"},
    }  # fmt: skip
    assert dict(files_in(Config, Config.model_validate(written))) == {
        ("plain",): "a", ("terrain",): "b", ("several", 0): "c", ("several", 1): "d", ("jobs", "trace"): "e",
        ("parts", 1, "trace"): "f", ("by_name", "k"): "g",
    }  # fmt: skip
    assert dict(files_in(Config, Config.model_validate({"terrain": "flat", "several": "h"}))) == {
        ("plain",): "a", ("several",): "h",
    }  # fmt: skip
