"""XML as a small tree with line numbers; documents that define entities are refused.

Entities are what turns a file of a few hundred bytes into gigabytes or reads other files, and no
configuration needs them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from cosim.contract.errors import Problem, ScenarioError
from cosim.sources.importing.values import read_bytes

DEEPEST = 64  # levels


@dataclass(slots=True)
class Element:
    """An element: its name, where it stands, its attributes, children and text."""

    name: str
    line: int  # 1-based
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def all(self, name: str) -> list[Element]:
        """The children called `name`."""
        return [child for child in self.children if child.name == name]

    def first(self, name: str) -> Element | None:
        """The first child called `name`."""
        return next((child for child in self.children if child.name == name), None)


def read_xml(file: Path) -> Element:
    """The root element of `file`. Raises `ScenarioError` when it cannot be read or is no safe XML."""
    return parse_xml(read_bytes(file), file)


def parse_xml(content: bytes, file: Path | None = None) -> Element:
    """The root element of a document. Raises `ScenarioError` when it is malformed or defines entities."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    top = Element("", 0)
    stack = [top]

    def wrong(message: str, hint: str = "") -> ScenarioError:
        return ScenarioError(Problem(message, file=file, line=parser.CurrentLineNumber, hint=hint))

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(stack) > DEEPEST:
            raise wrong(f"elements are nested deeper than {DEEPEST}")
        element = Element(name, parser.CurrentLineNumber, attributes)
        stack[-1].children.append(element)
        stack.append(element)

    def end(_name: str) -> None:
        stack.pop()

    def characters(text: str) -> None:
        stack[-1].text += text

    def entity(*_parts: object) -> int:
        raise wrong("an entity is defined; such files are not read", "write the text itself where the entity is used")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    parser.EntityDeclHandler = entity
    parser.ExternalEntityRefHandler = entity
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        problem = Problem(f"is not well-formed XML: {expat.ErrorString(error.code)}", file=file, line=error.lineno)
        raise ScenarioError(problem) from None
    except (ValueError, LookupError) as error:  # an encoding that Python does not know or that does not fit
        raise wrong(f"cannot be decoded: {error}") from None
    return top.children[0]
