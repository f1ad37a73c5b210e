"""The three files while they are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cosim.extensions.edgecloudsim.importing.properties import Property
from cosim.extensions.edgecloudsim.importing.xml import Element
from cosim.sources.importing.values import Findings, Values


def unread(findings: Findings, file: Path, line: int | None, key: str, value: str) -> None:
    """Report a key that is not known. One that asks for GPUs is refused: its tasks would run without them."""
    if "gpu" in key.rpartition(".")[2].lower() and value.strip().lower() not in ("", "0", "0.0", "false", "no", "none"):
        hint = (
            "leave it out, or write the scenario for 'continuum': 'accelerators' of nodes, 'accelerator' of workloads"
        )
        findings.wrong(file, line, key, "asks for GPUs, which the model 'offloading' does not have", hint)
    else:
        findings.report("ignored", file, line, key, "EdgeCloudSim does not read it, and nothing here does")


@dataclass(slots=True)
class PropertySettings(Values):
    """A property file; remembers which keys were asked for."""

    file: Path
    properties: dict[str, Property]
    findings: Findings
    asked: set[str] = field(default_factory=set)

    def line(self, key: str) -> int | None:
        entry = self.properties.get(key)
        return entry.line if entry else None

    def value(self, key: str) -> tuple[str, int] | None:
        self.asked.add(key)
        entry = self.properties.get(key)
        return None if entry is None else (entry.value.strip(), entry.line)

    def absent(self, key: str) -> None:
        self.findings.wrong(self.file, None, key, "is missing", "EdgeCloudSim does not start without it either")

    def words(self, key: str) -> list[str]:
        """The comma list of `key`."""
        found = [word.strip() for word in self.text(key).split(",") if word.strip()]
        if not found and key in self.properties:
            self.findings.wrong(self.file, self.line(key), key, "names nothing", "list one or more, with commas")
        return found


@dataclass(slots=True)
class Branch(Values):
    """An XML element whose children are single values."""

    file: Path
    element: Element
    path: str
    findings: Findings
    known: set[str] = field(default_factory=set)

    def value(self, key: str) -> tuple[str, int] | None:
        self.known.add(key)
        child = self.element.first(key)
        return None if child is None else (child.text.strip(), child.line)

    def absent(self, key: str) -> None:
        self.findings.wrong(self.file, self.element.line, self.path_of(key), "is missing")

    def path_of(self, key: str) -> str:
        return f"{self.path}.{key}"

    def branches(self, key: str) -> list[Branch]:
        """The children `key`, numbered in their paths."""
        self.known.add(key)
        return [
            Branch(self.file, child, f"{self.path}.{key}[{at}]", self.findings)
            for at, child in enumerate(self.element.all(key))
        ]

    def finish(self) -> None:
        """Report the children that are never read, and those given twice."""
        seen: set[str] = set()
        for child in self.element.children:
            if child.name not in self.known:
                unread(self.findings, self.file, child.line, f"{self.path}.{child.name}", child.text)
            elif child.name in seen and not child.children:
                text = "is given twice; the first one holds"
                self.findings.report("ignored", self.file, child.line, f"{self.path}.{child.name}", text)
            seen.add(child.name)
