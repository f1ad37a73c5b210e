"""An image that holds some folders of the checkout only: everything that its programs import must be among them."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
# Image -> the modules that its containers start.
PROGRAMS = {
    "vedgenode": ["cosim.testbed.inference.node", "cosim.testbed.inference.__main__", "cosim.testbed.live.__main__"],
}


def copied(image: str) -> set[Path]:
    """Files of the checkout that the last stage of an image has below /opt/cosim, by their place there."""
    found: set[Path] = set()
    text = (ROOT / "containers" / image / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    for words in re.findall(r"^COPY (?!--)(.*)$", text, flags=re.MULTILINE):
        *sources, target = words.split()
        if not target.startswith("/opt/cosim/"):
            continue
        place = Path(target.removeprefix("/opt/cosim/"))
        for source in map(ROOT.joinpath, sources):
            if source.is_dir():
                found.update(place / path.relative_to(source) for path in source.rglob("*.py"))
            else:
                found.add(place / source.name if target.endswith("/") else place)
    return found


def file_of(module: str) -> Path | None:
    """The file of a module of ours, from the root; None for a name inside a module."""
    path = Path(*module.split("."))
    for found in (path.with_suffix(".py"), path / "__init__.py"):
        if (ROOT / found).is_file():
            return found
    return None


def imported(path: Path) -> set[str]:
    """Names of ours that a file imports when it is imported itself: not those inside functions or for type checkers."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse((ROOT / path).read_text("utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update({node.module, *(f"{node.module}.{alias.name}" for alias in node.names)})
        waiting += ast.iter_child_nodes(node)
    return {name for name in found if name.split(".")[0] == "cosim"}


@pytest.mark.parametrize("image", sorted(PROGRAMS))
def test_an_image_has_what_its_programs_import(image):
    there, waiting, seen = copied(image), list(PROGRAMS[image]), set()
    while waiting:
        name = waiting.pop()
        parents = [".".join(name.split(".")[:end]) for end in range(1, name.count(".") + 1)]
        path = file_of(name)
        if path is None or path in seen:
            continue
        seen.add(path)
        assert path in there, f"containers/{image}/Dockerfile does not copy {path}"
        waiting += [*parents, *imported(path)]
    assert len(seen) > 5


@pytest.mark.parametrize("file", ["requirements.txt", "sumo.txt"])
def test_packages_of_images_have_a_version_each(file):
    lines = (ROOT / "containers" / "cosim" / file).read_text("utf-8").splitlines()
    assert lines
    for line in lines:
        assert re.fullmatch(r"[\w.-]+==[\w.]+", line), line
