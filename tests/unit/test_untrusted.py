"""What a scenario of somebody else may hold: every field is marked, and what reaches further is refused at its line."""

from __future__ import annotations

import datetime
import os
import re
import sys
from importlib.metadata import EntryPoint, EntryPoints
from typing import Annotated, Any, get_args, get_origin

import pytest
from pydantic import BaseModel, Field

from cosim.contract import registry, trust
from cosim.contract.errors import ScenarioError
from cosim.contract.functions import function
from cosim.scenario.load import load
from cosim.scenario.schema import full_model
from tests.extensions import needs_all, scenarios

HEAD = """apiVersion: cosim/v1
kind: Scenario
name: guest
title: "kind of /etc: a title"
run: {duration: 10 s, seed: 7}
kinds:
  server: {tier: edge, cpu: 2 x 2 GHz}
nodes:
  a: {kind: server}
"""


@pytest.fixture(autouse=True)
def distrusting(monkeypatch):
    for name in ("COSIM_UNTRUSTED", "PYTHONSAFEPATH"):
        monkeypatch.setenv(name, "1")


def write(tmp_path, more):
    (tmp_path / "inside").mkdir(exist_ok=True)
    path = tmp_path / "inside/scenario.cosim.yaml"
    path.write_text(HEAD + more)
    return path


def leaves(annotation, marks=()):
    """Every type in `annotation` that has no parts, with the marks around it."""
    parts = get_args(annotation)
    if get_origin(annotation) is Annotated:
        yield from leaves(parts[0], (*marks, *parts[1:]))
    elif parts and not isinstance(parts[0], str | bool | int):  # those of a literal are values
        for part in parts:
            yield from leaves(part, marks)
    elif not parts:
        yield annotation, marks


def blocks(model, seen):
    """`model` and every model in its fields."""
    if model not in seen:
        seen.add(model)
        for field in model.model_fields.values():
            for part, _ in leaves(field.annotation):
                if isinstance(part, type) and issubclass(part, BaseModel):
                    blocks(part, seen)
    return seen


def unmarked(model):
    """The fields of `model` and below whose text has no mark."""
    return [
        f"{block.__name__}.{name}"
        for block in blocks(model, set())
        for name, field in block.model_fields.items()
        for part, marks in leaves(field.annotation, tuple(field.metadata))
        if not (isinstance(part, type) and issubclass(part, BaseModel))
        and trust.may_name(part)
        and not any(isinstance(mark, trust.PlainText) for mark in marks)
    ]


def models():
    return [full_model(), *(registry.adapter_kind(name).load_config() for name in registry.adapter_names())]


@needs_all
def test_every_field_that_could_name_something_is_marked():
    assert [name for model in models() for name in unmarked(model)] == []


def test_a_field_without_a_mark_is_found_and_its_text_refused(tmp_path):
    class Block(BaseModel):
        known: dict[trust.Words, list[trust.Words]] = {}
        free: list[dict[str, Any]] | None = None
        when: Annotated[datetime.date | None, Field(description="a date")] = None

    assert unmarked(Block) == ["Block.free", "Block.free", "Block.when"]
    given = {"known": {"a": ["b"]}, "free": [{"c": 1.0}, {"d": "e"}]}
    found = [keys for keys, _ in trust.refused(Block, given, tmp_path)]
    assert found == [("free", 0, "c"), ("free", 1, "d"), ("free", 1, "d")]


@needs_all
def test_what_marks_rely_on_holds_for_every_block():
    """Unknown keys are errors, aliases are plain, and blocks with a short form state the key that it is for."""
    for block in {block for model in models() for block in blocks(model, set())}:
        assert block.model_config["extra"] == "forbid", block
        assert all(field.validation_alias in (None, field.alias) for field in block.model_fields.values()), block
        validators = block.__pydantic_decorators__.model_validators.values()
        if any(one.info.mode != "after" for one in validators):
            assert block.TEXT in block.model_fields


@needs_all
def test_numbers_that_are_ports_are_marked():
    word = re.compile(r"(.*_)?(ports?|udp|tcp|listen|bind|prometheus)")
    every = {block for model in models() for block in blocks(model, set())}
    named = {(block, name) for block in every for name in block.model_fields if word.fullmatch(name)}
    for block, name in {one for one in named if one[0].__module__.split(".")[1] != "extensions"}:  # ports of switches
        field = block.model_fields[name]
        marks = [mark for _, marks in leaves(field.annotation, tuple(field.metadata)) for mark in marks]
        assert any(isinstance(mark, trust.Trusted) for mark in marks), (block, name)
    assert len(named) > 4


@pytest.mark.parametrize(
    ("more", "line", "said"),
    [
        ("adapters:\n  x:\n    use: evil:ADAPTER\n", 12, "'evil:ADAPTER' is code"),
        ("adapters:\n  continuum:\n    connect: tcp://10.0.0.1:5555\n", 12, "connects to a program elsewhere"),
        ("adapters:\n  continuum:\n    scheduler: evil:choose\n", 12, "'evil:choose', which is code"),
        ("adapters:\n  replay:\n    file: link.csv\n", 12, "outside the scenario's folder"),
    ],
)
def test_what_reaches_beyond_the_scenario_is_refused_at_its_line(tmp_path, monkeypatch, more, line, said):
    monkeypatch.setattr(sys, "path", [str(tmp_path / "inside"), *sys.path])
    path = write(tmp_path, more)
    (tmp_path / "secret.csv").write_text("x")
    (tmp_path / "inside/link.csv").symlink_to(tmp_path / "secret.csv")
    (tmp_path / "inside/evil.py").write_text("raise SystemExit('it was imported')\n")
    with pytest.raises(ScenarioError, match=said) as caught:
        load(path)
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == (path, line)
    assert "evil" not in sys.modules


def test_the_importer_takes_functions_of_packages_alone(monkeypatch):
    assert callable(function("cosim.contract.functions:function"))
    for target in ("os:getcwd", "cosimo:f", "tests.canary:watch", "typer.cli:main"):
        with pytest.raises(ValueError, match="code of a scenario that is not trusted"):
            function(target)
    points = EntryPoints([EntryPoint("own", "os:getcwd", "cosim.schedulers")])
    monkeypatch.setattr("cosim.contract.plugins.settle", lambda: points)
    assert callable(function("os:getcwd"))
    monkeypatch.delenv("COSIM_UNTRUSTED")
    assert function("os:getcwd")() == os.getcwd()  # noqa: PTH109


@pytest.mark.parametrize("name", scenarios("hello", "offloading", "convoy", "disaster", "freeway", "gpu-philly"))
def test_scenarios_of_data_alone_pass(name):
    load(name)
