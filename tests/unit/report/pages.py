"""A page, parsed so that tests can look at what a reader sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path


@dataclass
class Page(HTMLParser):
    """The page's elements with their attributes, and its visible text."""

    path: Path
    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    tables: dict[str, list[list[tuple[str, dict[str, str | None]]]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()
        self._hidden, self._rows, self._cell = "", None, None
        self.source = self.path.read_text(encoding="utf-8")
        self.feed(self.source)

    __hash__ = object.__hash__

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.elements.append((tag, values))
        if tag in ("script", "style"):
            self._hidden = tag
        elif tag == "table":
            self._rows = self.tables.setdefault(values.get("id") or f"#{len(self.tables)}", [])
        elif tag == "tr" and self._rows is not None:
            self._rows.append([])
        elif tag in ("td", "th") and self._rows:
            self._rows[-1].append(("", values))

    def handle_endtag(self, tag):
        if tag == self._hidden:
            self._hidden = ""
        elif tag == "table":
            self._rows = None

    def handle_data(self, data):
        if self._hidden:
            return
        self.words.append(data)
        if self._rows and self._rows[-1]:
            text, values = self._rows[-1][-1]
            self._rows[-1][-1] = (text + data, values)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).replace("\u00a0", " ").split())

    def table(self, name: str) -> list[list[str]]:
        return [[text.strip() for text, _ in row] for row in self.tables[f"t-{name}"]]
