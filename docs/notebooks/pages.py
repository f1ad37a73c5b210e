"""The notebooks of this folder as pages of the documentation, and their execution without Jupyter.

mkdocs calls `on_files`. `python docs/notebooks/pages.py [NAME ...]` runs notebooks in an empty folder and
stores their outputs in them; the tests run them in the same way.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
_COMMAND, _FILE = "!cosim ", "%%writefile "
_LINK = re.compile(r"\]\((?!\w+:)([\w-]+)\.ipynb\)")
_STYLE = re.compile(r"<style scoped>.*?</style>\n?", re.S)  # pandas gives one to every table
_MAIN = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from cosim.cli.main import main; sys.exit(main())"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every notebook; the notebook itself stays a file to download."""
    from mkdocs.structure.files import File

    for path in sorted(FOLDER.glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=markdown(path)))
    return files


def markdown(path: Path) -> str:
    """A notebook as a page in Markdown, with the outputs that it holds."""
    parts = []
    for cell in _read(path)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else _code(source))
        parts += [_shown(output) for output in cell.get("outputs", ())]
    title, _, rest = "\n\n".join(parts).partition("\n")
    note = f"This page is a notebook: [download {path.name}]({path.name}) and run it in any folder."
    return f"{title}\n\n{note}\n" + _LINK.sub(r"](\1.md)", rest) + "\n"


def _code(source: str) -> str:
    """A code cell; files and commands as such."""
    first, _, rest = source.partition("\n")
    if first.startswith(_FILE):
        name = first.removeprefix(_FILE)
        word = {".py": "python", ".yaml": "yaml"}[Path(name).suffix]
        return f'```{word} title="{name}"\n{rest}\n```'
    return f"```console\n$ {source.removeprefix('!')}\n```" if source.startswith("!") else f"```python\n{source}\n```"


def _shown(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return f"```text\n{''.join(output['text']).rstrip()}\n```"
    data = {kind: "".join(text) for kind, text in output["data"].items()}
    if "image/svg+xml" in data:
        coded = base64.b64encode(data["image/svg+xml"].encode()).decode()
        return f'<img alt="{data["text/plain"]}" src="data:image/svg+xml;base64,{coded}" style="background: #fff">'
    if "text/html" in data:
        return f'<div class="md-typeset__scrollwrap">\n{data["text/html"]}\n</div>'
    return f"```text\n{data['text/plain']}\n```"


def execute(path: Path, folder: Path) -> list[list[dict[str, Any]]]:
    """Run the code cells of a notebook with `folder` as the present folder; the outputs of each, as nbformat has them.

    Raises what a cell raises, and `CalledProcessError` for a `!cosim` command that fails.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    found = []
    with _inside(folder):
        for number, cell in enumerate(one for one in _read(path)["cells"] if one["cell_type"] == "code"):
            found.append(_outputs("".join(cell["source"]), f"{path.name}:{number + 1}", names))
    return found


def _outputs(source: str, where: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run one cell; what it printed, and what its last expression shows."""
    if source.startswith(_FILE):
        name, _, text = source.removeprefix(_FILE).partition("\n")
        Path(name).write_text(f"{text}\n", "utf-8")
        return []
    commands = [line.startswith(_COMMAND) for line in source.splitlines()]
    written = io.StringIO()
    value = None
    if commands and all(commands):
        for line in source.splitlines():
            command = [sys.executable, "-c", _MAIN, *shlex.split(line.removeprefix(_COMMAND))]
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=900)
            written.write(done.stdout)
    else:
        body = ast.parse(source, where)
        last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(written):
            exec(compile(body, where, "exec"), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), where, "eval"), names)
    text = written.getvalue().replace(f"{Path.cwd()}/", "")
    outputs: list[dict[str, Any]] = []
    if text:
        outputs.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
    if value is not None:
        outputs.append({"output_type": "display_data", "metadata": {}, "data": _bundle(value)})
    return outputs


def _bundle(value: Any) -> dict[str, list[str]]:  # noqa: ANN401 - whatever a cell ends with
    """What a notebook shows of a value, by media type."""
    if hasattr(value, "savefig"):  # a matplotlib figure
        import matplotlib as mpl

        picture = io.StringIO()
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "cosim"}):
            value.savefig(picture, format="svg", metadata={"Date": None}, bbox_inches="tight")
        title = value.axes[0].get_title() if value.axes else ""
        return {"image/svg+xml": picture.getvalue().splitlines(keepends=True), "text/plain": [title or "figure"]}
    shown = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "_repr_html_"):
        shown = {"text/html": _STYLE.sub("", value._repr_html_()).splitlines(keepends=True), **shown}
    return shown


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """`folder` as the present one, from which modules are imported as well, as in Jupyter."""
    before, loaded, path = Path.cwd(), set(sys.modules), list(sys.path)
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        os.chdir(before)
        sys.path[:] = path  # a run adds the folder of its scenario
        for name in set(sys.modules) - loaded:  # modules that the notebook wrote itself
            if str(getattr(sys.modules[name], "__file__", None)).startswith(f"{folder}{os.sep}"):
                del sys.modules[name]


def _read(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return read


def main(names: list[str]) -> None:
    """Run notebooks, all of them without names, and store their outputs."""
    for path in [FOLDER / f"{name}.ipynb" for name in names] or sorted(FOLDER.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            outputs = iter(execute(path, Path(folder)))
        notebook = _read(path)
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                cell["outputs"], cell["execution_count"] = next(outputs), None
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
