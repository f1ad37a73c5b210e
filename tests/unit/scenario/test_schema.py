import json
from pathlib import Path
from typing import Any

import pytest

from cosim.scenario.reading import read_text
from cosim.scenario.schema import schema, write
from cosim.scenario.tree import plain
from tests.unit.scenario import fakes

jsonschema = pytest.importorskip("jsonschema")


def data(text: str) -> Any:
    item = read_text(text, None, [])
    assert item is not None
    return plain(item)


def validate(scenario: Any) -> None:
    """Raise `ValidationError` unless the scenario follows the schema, which one test examines itself."""
    jsonschema.Draft202012Validator(schema()).validate(scenario)


def test_the_sample_follows_the_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    validate(data(fakes.FARM))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("delay: 20 ms", "delay: 20"),
        ("delay: 20 ms", "delay: 20 MB"),
        ("carrier: 3.5 GHz", "carrier: 3.5"),
        ("carrier: 3.5 GHz", "carier: 3.5 GHz"),
        ("work: 90 Mcycles", "work: 90"),
        ("poisson 2 Hz", "poisson 2"),
        ("4 x 1.8 GHz", "4 x 1.8"),
        ("22.95, 60 m]", "22.95, 60]"),
        ("scheduler: least-loaded", "scheduler: best"),
        ("  engine:", "  motor:"),
        ("seed: 7", "seed: x"),
        ("  edge-1:\n", "  edge-1:\n    colour: red\n"),
    ],
)
def test_what_the_loader_refuses_the_schema_refuses(old: str, new: str) -> None:
    assert old in fakes.FARM
    with pytest.raises(jsonschema.ValidationError):
        validate(data(fakes.FARM.replace(old, new, 1)))


def test_adapters_under_other_names_are_checked_by_their_kind() -> None:
    text = fakes.FARM.replace("  air:\n", "  radio-2:\n    use: air\n")
    validate(data(text))
    with pytest.raises(jsonschema.ValidationError):
        validate(data(text.replace("carrier:", "carier:")))


def test_a_file_that_includes_others_need_not_be_complete() -> None:
    validate({"include": ["base.yaml"], "run": {"duration": "1 s"}})


def test_defaults_are_written_as_an_author_would() -> None:
    properties = schema()["$defs"]["Cell"]["properties"]
    assert properties["power"]["default"] == "30 dBm"
    assert properties["carrier"]["examples"] == ["2 Hz"]
    assert properties["carrier"]["description"]


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path / "a" / "schema.json")
    write(tmp_path / "b.json")
    assert (tmp_path / "a" / "schema.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert json.loads((tmp_path / "b.json").read_text())["$id"] == "urn:continuum-cosim:scenario:v1"
