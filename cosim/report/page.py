"""Renders a page: one HTML file with its style, its script and its data inside."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from cosim.contract.errors import SetupError

_TEMPLATES = Path(__file__).parent / "templates"


def embed(data: object) -> Markup:
    """`data` as JSON that is safe inside a script element, whatever strings it holds."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


@cache
def _environment(folder: Path) -> Environment:
    environment = Environment(
        loader=FileSystemLoader([folder, _TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["embed"] = embed
    return environment


@cache
def _asset(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def render(template: str | Path, **context: object) -> str:
    """The whole page as text, by a template's name or path. Its policy admits its own script and no network at all."""
    script = _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    path = _TEMPLATES / template
    page = _environment(path.parent).get_template(path.name)
    return page.render(style=Markup(_asset("report.css")), script=Markup(script), policy=policy, **context)


def save(text: str, out: Path) -> Path:
    """Write the page atomically, so that no reader opens half of it. Raises `SetupError` when `out` is a folder."""
    if out.is_dir():
        raise SetupError(f"'{out}' is a folder; name a file, for example {out / 'report.html'}")
    out.parent.mkdir(parents=True, exist_ok=True)
    half = out.with_name(f".{out.name}.part")
    half.write_text(text, encoding="utf-8")
    half.replace(out)
    return out
