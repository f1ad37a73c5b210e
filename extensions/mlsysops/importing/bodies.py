"""YAML files as bodies of descriptors, with the line of every field."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from cosim.contract.errors import Problem, ScenarioError
from cosim.sources.importing.imported import Level, Notice
from cosim.sources.importing.values import yaml_nodes

Kind = Literal["node", "cluster", "datacenter", "continuum", "app"]

_KINDS: dict[str, Kind] = {
    "mlsysopsnode": "node", "mlsysopscluster": "cluster", "mlsysopsdatacenter": "datacenter",
    "mlsysopscontinuum": "continuum", "mlsysopsapp": "app", "mlsysopsapplication": "app",
}  # fmt: skip
_FRAME = {"apiversion", "kind", "metadata", "status"}  # of a validated copy, beside its body
_NUMBER = re.compile(r"([+-]?(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(?:[eE][+-]?\d{1,2})?)\s*([A-Za-z%/]*)", re.ASCII)


def fold(key: str) -> str:
    """A key without case, underscores and hyphens: the one word that all spellings have in common."""
    return re.sub(r"[\s_\-]", "", key).lower()


@dataclass(frozen=True, slots=True)
class Value:
    """A field's value in a file."""

    node: Node
    file: Path
    path: str  # dotted, from the descriptor's kind on

    @property
    def line(self) -> int:
        """1-based."""
        return int(self.node.start_mark.line) + 1

    def text(self) -> str | None:
        """A scalar's text; None for anything else and for nothing."""
        if not isinstance(self.node, ScalarNode):
            return None
        text = str(self.node.value).strip()
        return None if text in ("", "~", "null") and self.node.style is None else text

    def number(self) -> tuple[float, str] | None:
        """A number and the unit behind it, "" for none."""
        match = _NUMBER.fullmatch(self.text() or "")
        return (float(match[1]), match[2]) if match else None

    def plain(self, *units: str) -> float | None:
        """A number with none of units but these, in lower case."""
        found = self.number()
        return found[0] if found is not None and found[1].lower() in ("", *units) else None

    def truth(self) -> bool | None:
        """Yes or no, in any of YAML's words."""
        word = (self.text() or "").lower()
        return {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}.get(word)

    def items(self) -> Iterator[Value]:
        """The items of a list; of anything else but nothing, itself."""
        if isinstance(self.node, SequenceNode):
            for number, item in enumerate(self.node.value):
                yield Value(item, self.file, f"{self.path}[{number}]")
        elif not isinstance(self.node, ScalarNode) or self.text() is not None:
            yield self

    def note(self, level: Level, text: str) -> Notice:
        """A notice about this field."""
        return Notice(level, self.file, self.line, self.path, text)


class Body:
    """A mapping whose fields are asked for by their names in the schema.

    What has not been asked for when `leftover` is called becomes a notice.
    """

    def __init__(self, value: Value, notices: list[Notice]) -> None:
        self.value, self._notices = value, notices
        self._fields: dict[str, tuple[str, Value]] = {}
        self._asked: set[str] = set()
        if not isinstance(value.node, MappingNode):
            if value.text() is not None or isinstance(value.node, SequenceNode):
                notices.append(value.note("ignored", "is not a mapping"))
            return
        for key, field in value.node.value:
            name = str(key.value).strip() if isinstance(key, ScalarNode) else "?"
            found = Value(field, value.file, f"{value.path}.{name}" if value.path else name)
            if fold(name) in self._fields:
                notices.append(found.note("ignored", "is there twice; the first one counts"))
            else:
                self._fields[fold(name)] = (name, found)

    def get(self, name: str, *also: str) -> Value | None:
        """The field `name`, in any spelling or under the names `also` that files use for it."""
        for wanted in (name, *also):
            if fold(wanted) in self._fields:
                written, value = self._fields[fold(wanted)]
                if fold(wanted) not in self._asked and written != name:
                    self._notices.append(value.note("misspelt", f"the schema calls this '{name}'; taken as that"))
                self._asked.add(fold(wanted))
                return value
        return None

    def body(self, name: str, *also: str) -> Body:
        """The mapping `name`, an empty one when it is not there."""
        value = self.get(name, *also)
        if value is None:
            return Body(Value(MappingNode("", [], *self._marks()), self.value.file, f"{self.value.path}.{name}"), [])
        return Body(value, self._notices)

    def _marks(self) -> tuple[Any, Any]:
        return self.value.node.start_mark, self.value.node.end_mark

    def __bool__(self) -> bool:
        return bool(self._fields)

    def ignore(self, *names: str, why: str = "has no counterpart in a scenario") -> None:
        """Add notices about fields of the schema that a scenario cannot express."""
        for name in names:
            value = self.get(name)
            if value is not None and (value.text() is not None or not isinstance(value.node, ScalarNode)):
                self._notices.append(value.note("ignored", why))

    def leftover(self, *, besides: frozenset[str] = frozenset()) -> None:
        """Add notices about the fields that were not read."""
        for folded, (_, value) in self._fields.items():
            if folded not in self._asked and folded not in besides:
                self._notices.append(value.note("ignored", "is not in the schema of MLSysOps"))


@dataclass(frozen=True, slots=True)
class Descriptor:
    """One descriptor in a file."""

    kind: Kind
    body: Body
    name: str  # "" when it has none


def read_bodies(files: Sequence[Path], notices: list[Notice]) -> list[Descriptor]:
    """All descriptors in the files, in their order. Raises `ScenarioError` for files that cannot be read."""
    found: list[Descriptor] = []
    problems: list[Problem] = []
    for file in _expanded(files, problems):
        try:
            documents = yaml_nodes(file)
        except ScenarioError as error:
            problems += error.problems
            continue
        for document in documents:
            descriptors = list(_descriptors(Value(document, file, ""), notices))
            if not descriptors:
                notices.append(Notice("ignored", file, document.start_mark.line + 1, "", "is no MLSysOps descriptor"))
            found += descriptors
    if problems:
        raise ScenarioError(problems)
    return found


def _expanded(files: Sequence[Path], problems: list[Problem]) -> list[Path]:
    listed: list[Path] = []
    for file in files:
        if file.is_dir():
            inside = sorted(path for path in file.iterdir() if path.suffix in (".yaml", ".yml"))
            if not inside:
                problems.append(Problem("holds no .yaml file", file=file))
            listed += inside
        elif file.is_file():
            listed.append(file)
        else:
            problems.append(Problem("there is no such file", file=file))
    return listed


def _descriptors(document: Value, notices: list[Notice]) -> Iterator[Descriptor]:
    """The descriptors of a document: keys that are kinds, or a body beside `apiVersion` and `kind`."""
    if not isinstance(document.node, MappingNode):
        return
    fields: dict[str, tuple[str, Node]] = {}
    for written, value in [(str(key.value), one) for key, one in document.node.value if isinstance(key, ScalarNode)]:
        if fold(written) in fields:
            notices.append(Value(value, document.file, written).note("ignored", "is there twice; the last one counts"))
        fields[fold(written)] = (written, value)
    kind = fields.get("kind")
    if kind is not None and isinstance(kind[1], ScalarNode) and fold(str(kind[1].value)) in _KINDS:
        own = Value(document.node, document.file, str(kind[1].value))
        spec = fields.get("spec")
        metadata = Body(Value(fields["metadata"][1], document.file, "metadata"), []) if "metadata" in fields else None
        name = metadata.get("name") if metadata else None
        if spec is not None:
            own = Value(spec[1], document.file, str(kind[1].value))
        body = Body(own, notices)
        yield _named(_KINDS[fold(str(kind[1].value))], body, name)
        return
    for folded, (written, value) in fields.items():
        if folded in _KINDS:
            yield _named(_KINDS[folded], Body(Value(value, document.file, written), notices), None)


def _named(kind: Kind, body: Body, name: Value | None) -> Descriptor:
    own = body.get("name")
    text = (own.text() if own else None) or (name.text() if name else None) or ""
    return Descriptor(kind, body, text)


def leftovers(descriptor: Descriptor) -> None:
    """Add notices about the fields of a descriptor that were not read."""
    descriptor.body.leftover(besides=frozenset(_FRAME))
