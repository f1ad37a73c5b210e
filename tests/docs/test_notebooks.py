"""Every notebook is valid, is up to date with what it stores, and runs."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
NEEDS = {
    "city-study": ["matplotlib"], "train-a-policy": ["torch", "gymnasium"], "twin": ["scipy"],
    "train-with-sb3": ["torch", "gymnasium", "stable_baselines3", "sb3_contrib"],
}  # fmt: skip
MARKS = {name: [pytest.mark.slow, pytest.mark.timeout(1200)] for name in ("train-a-policy", "train-with-sb3", "twin")}
MARKS["city-study"] = [pytest.mark.slow, pytest.mark.sumo]

found = importlib.util.spec_from_file_location("notebook_pages", ROOT / "docs/notebooks/pages.py")
pages = importlib.util.module_from_spec(found)
found.loader.exec_module(pages)


def kinds(outputs):
    return [sorted(output.get("data", {"stream": None})) for output in outputs]


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=MARKS.get(path.stem, [])) for path in NOTEBOOKS],
)
def test_a_notebook_runs_and_shows_what_it_stores(path, tmp_path):
    for module in ("pandas", *NEEDS.get(path.stem, ())):
        pytest.importorskip(module)
    outputs = pages.execute(path, tmp_path)
    stored = [cell["outputs"] for cell in pages._read(path)["cells"] if cell["cell_type"] == "code"]
    assert [kinds(now) for now in outputs] == [kinds(then) for then in stored], "python docs/notebooks/pages.py"
    assert str(tmp_path) not in sys.path


IDLE = {  # what switches training off, and makes less of the rest
    "train-a-policy": ((" optimiser.step()", " pass"), (" rate.step()", " pass"), ("RATE = 512, 30", "RATE = 512, 1")),
    "train-with-sb3": (
        ("1e-3}", "0.0}"),
        ("4_096", "512"),
        ("16_384", "1_536"),
        ("range(1, 6), range(201, 211)", "range(1, 3), range(201, 203)"),
    ),
}


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", IDLE)
def test_what_a_notebook_says_of_training_fails_without_it(tmp_path, name):
    for module in ("pandas", *NEEDS[name]):
        pytest.importorskip(module)
    text = (ROOT / f"docs/notebooks/{name}.ipynb").read_text("utf-8")
    for what, instead in IDLE[name]:
        assert what in text
        text = text.replace(what, instead)
    (tmp_path / "idle.ipynb").write_text(text, "utf-8")
    with pytest.raises(AssertionError, match=r"before (its|their) training"):
        pages.execute(tmp_path / "idle.ipynb", tmp_path)


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in NOTEBOOKS])
def test_a_notebook_is_valid_small_and_without_places_of_its_author(path):
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(nbformat.read(path, as_version=4))
    text = path.read_text("utf-8")
    assert len(text) < 100_000
    assert str(ROOT) not in text
    assert not re.search(r"/tmp/|/home/|/root/", text)


def test_a_page_has_files_commands_and_outputs_as_such():
    page = pages.markdown(ROOT / "docs/notebooks/twin.ipynb")
    assert page.startswith("# A twin\n\nThis page is a notebook: [download twin.ipynb](twin.ipynb)")
    assert '```yaml title="yard.yaml"\napiVersion' in page
    assert "```console\n$ cosim calibrate yard.yaml" in page
    assert "(train-a-policy.md)" in pages.markdown(ROOT / "docs/notebooks/own-policy.ipynb")


def test_a_cell_that_fails_is_told(tmp_path):
    path = tmp_path / "wrong.ipynb"
    path.write_text('{"cells": [{"cell_type": "code", "source": ["x = 1\\n", "x / 0"]}]}')
    with pytest.raises(ZeroDivisionError):
        pages.execute(path, tmp_path)
