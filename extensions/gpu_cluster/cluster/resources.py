"""The resource file of a cluster: GPUs, NICs, switches and cables, with every port used once at most.

The same keys stand in a file (`cluster.json`, or YAML) and in a scenario. A file's mistakes are
reported with its name and line.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from cosim.contract.block import Block
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.trust import Words
from cosim.contract.units import BitRate, Bytes, Duration, Power

Count = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
_PORT = re.compile(r"(?P<id>[A-Za-z0-9_.-]+):(?P<side>up|p)(?P<number>\d+)")


class PowerBlock(Block):
    """Power of one unit, linear in its use."""

    idle: Power = Field(description="when nothing uses it")
    max: Power = Field(description="fully used")

    @model_validator(mode="after")
    def _ordered(self) -> PowerBlock:
        if self.max < self.idle:
            raise ValueError("'max' is less than 'idle'")
        return self


class GpuBlock(Block):
    """All GPUs, which are alike, and the servers that they are in."""

    count: Count = Field(description="in the whole cluster")
    per_server: Annotated[int, Field(ge=1, le=60, strict=True)] = Field(8, description="GPUs of a server")
    pcie_domains: Annotated[int, Field(ge=1, le=60, strict=True)] = Field(2, description="PCIe domains of a server")
    memory: Bytes = Field(80e9, description="of one GPU")
    power: PowerBlock = Field(PowerBlock(idle="60 W", max="400 W"), description="of one GPU")
    server_power: PowerBlock = Field(
        PowerBlock(idle="500 W", max="1200 W"),
        description="of a server without its GPUs",
    )


class NicBlock(Block):
    """Network interfaces."""

    per_gpu: Annotated[int, Field(ge=1, le=8, strict=True)] = Field(1, description="NICs of one GPU")
    rate: BitRate = Field(400e9, description="of one NIC, and of one uplink")


class LeafBlock(Block):
    """A packet switch with GPUs below."""

    id: Words = Field(min_length=1)
    down_ports: Count = Field(description="for GPUs, one NIC each")
    up_ports: Annotated[int, Field(ge=0, le=4096, strict=True)] = Field(description="uplinks")
    power: Power = Field(1300.0, description="of the switch with its optics")


class SpineBlock(Block):
    """A packet switch above the leaves."""

    id: Words = Field(min_length=1)
    ports: Count = Field(description="all of them")
    power: Power = Field(1300.0, description="of the switch with its optics")


class OcsBlock(Block):
    """An optical circuit switch: any two of its ports can be joined."""

    id: Words = Field(min_length=1)
    radix: Count = Field(description="ports")
    delay: Duration = Field(0.025, description="for which a circuit is down while it is set up; MEMS: 10 to 100 ms")
    power: Power = Field(110.0, description="of the switch")


class Inventory(Block):
    """A cluster: what there is, and which cable joins what."""

    gpus: GpuBlock
    nics: NicBlock = NicBlock()
    leaves: list[LeafBlock] = Field(min_length=1)
    spines: list[SpineBlock] | None = None
    ocs: list[OcsBlock] = []
    cables: list[Annotated[list[Words], Field(min_length=2, max_length=2)]] = Field(
        [], description="pairs of ports: leaf-0:up3 is an uplink of a leaf, ocs-1:p17 a port of another switch"
    )


class Resources(Inventory):
    """An inventory whose parts fit together: every port once."""

    @model_validator(mode="after")
    def _fits(self) -> Resources:
        found = list(port_problems(self))
        if found:
            raise ValueError("; ".join(text for _, text in found[:8]))
        return self


def port_problems(r: Inventory) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What does not fit together: where (keys from the top), and in words."""
    ids = Counter(one.id for one in (*r.leaves, *(r.spines or ()), *r.ocs))
    named = {
        "leaves": [one.id for one in r.leaves], "spines": [one.id for one in r.spines or ()],
        "ocs": [one.id for one in r.ocs],
    }  # fmt: skip
    for kind, names in named.items():
        for i, name in enumerate(names):
            if ids[name] > 1:
                yield (kind, i, "id"), f"the id '{name}' is taken by {ids[name]} switches"
    gpus = r.gpus
    if gpus.per_server % gpus.pcie_domains:
        yield ("gpus", "pcie_domains"), f"{gpus.per_server} GPUs do not divide into {gpus.pcie_domains} PCIe domains"
    for i, leaf in enumerate(r.leaves):
        if leaf.down_ports % (gpus.per_server * r.nics.per_gpu):
            yield (
                ("leaves", i, "down_ports"),
                (
                    f"{leaf.down_ports} ports of '{leaf.id}' do not take whole servers of "
                    f"{gpus.per_server * r.nics.per_gpu} NICs"
                ),
            )
    places = sum(leaf.down_ports for leaf in r.leaves) // r.nics.per_gpu
    if gpus.count != places:
        yield ("gpus", "count"), f"there are {gpus.count} GPUs, but the leaves have ports for {places}"
    yield from _cable_problems(r)


def _cable_problems(r: Inventory) -> Iterator[tuple[tuple[str | int, ...], str]]:
    size = {leaf.id: ("up", leaf.up_ports) for leaf in r.leaves}
    size |= {one.id: ("p", one.ports) for one in r.spines or ()} | {one.id: ("p", one.radix) for one in r.ocs}
    used: dict[str, int] = {}
    on: dict[str, Counter[str]] = {leaf.id: Counter() for leaf in r.leaves}
    for i, cable in enumerate(r.cables):
        ends = []
        for end, port in enumerate(cable):
            found = _PORT.fullmatch(port)
            if found is None:
                yield ("cables", i, end), f"'{port}' is no port; write leaf-0:up3 or ocs-1:p17"
                continue
            side, count = size.get(found["id"], ("", 0))
            if not side:
                yield ("cables", i, end), f"there is no switch '{found['id']}'"
            elif side != found["side"] or int(found["number"]) >= count:
                last = f"{found['id']}:{side}{count - 1}" if count else "none"
                yield ("cables", i, end), f"there is no port '{port}'; the last one is {last}"
            elif port in used:
                yield ("cables", i, end), f"port '{port}' has a cable already, number {used[port]}"
            else:
                used[port] = i
                ends.append(found["id"])
        if len(ends) == 2:
            for a, b in (ends, ends[::-1]):
                if a in on:
                    on[a][b] += 1
    switches = {one.id for one in r.ocs}
    for i, leaf in enumerate(r.leaves):
        counts = [on[leaf.id][one.id] for one in r.ocs]
        if sum(counts) and max(counts) - min(counts) > 1:
            yield ("leaves", i), f"the uplinks of '{leaf.id}' are not spread evenly over the OCSes: {counts}"
        if switches and any(other not in switches for other in on[leaf.id]):
            yield ("leaves", i), f"'{leaf.id}' has cables to an OCS and elsewhere; uplinks go all to OCSes, or none"


def read_resources(path: str | Path) -> Resources:
    """The resource file at `path`, JSON or YAML. Raises `ScenarioError` with every mistake and its line."""
    data, text = document(path := Path(path))
    return parsed(data, path, text)


def document(path: Path) -> tuple[Any, str]:
    """What stands in a JSON file, or one of YAML, and its text. Raises `ScenarioError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(Problem(f"cannot be read: {error.strerror}", file=path)) from error
    except UnicodeDecodeError as error:
        raise ScenarioError(Problem(f"byte {error.start} is not UTF-8", file=path, hint="save it as UTF-8")) from error
    return (from_json(text, path) if path.suffix == ".json" else _yaml(text, path)), text


def from_json(text: str, path: Path | None = None) -> Any:  # noqa: ANN401 - whatever stands there
    """JSON data. Raises `ScenarioError`, also for a key that stands twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
        if twice:
            places = [text.count("\n", 0, found.start()) + 1 for found in re.finditer(re.escape(f'"{twice[0]}"'), text)]
            raise ScenarioError(Problem(f"the key '{twice[0]}' stands twice", file=path, line=places[-1]))
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        said = Problem(f"is not JSON: {error.msg}", file=path, line=error.lineno, column=error.colno)
        raise ScenarioError(said) from None
    except RecursionError:
        raise ScenarioError(Problem("is nested too deeply", file=path)) from None


def parsed(data: Any, path: Path | None, text: str, at: Sequence[str | int] = ()) -> Resources:  # noqa: ANN401
    """The resources in `data`, which stand at the keys `at` of a text. Raises `ScenarioError` with their lines."""
    try:
        return Resources.model_validate(data)
    except ValidationError as error:
        found: list[tuple[Sequence[str | int], str]] = said(error)
    if found == [((), "")]:  # each part is right, but they do not fit together
        found = list(port_problems(Inventory.model_validate(data)))
    raise ScenarioError(located([((*at, *where), what) for where, what in found], path, text))


def said(error: ValidationError) -> list[tuple[Sequence[str | int], str]]:
    """Where (keys) and what of each mistake; [((), "")] when only the whole does not hold."""
    whole = [one for one in error.errors() if not one["loc"] and one["type"] == "value_error"]
    if whole:
        return [((), "")]
    return [(one["loc"], _words(one["type"], one["msg"])) for one in error.errors()]


def _words(kind: str, message: str) -> str:
    """The message of pydantic in this package's terms."""
    own = {"missing": "is missing", "extra_forbidden": "is no key here", "model_type": "must be a mapping"}
    return own.get(kind) or message.removeprefix("Value error, ").replace("Input should", "must", 1)


def located(found: Sequence[tuple[Sequence[str | int], str]], path: Path | None, text: str) -> list[Problem]:
    """Mistakes with the lines of what they are about."""
    lines = _lines(text) if text else None
    return [Problem(what, ".".join(map(str, where)), path, line=_line(lines, where)) for where, what in found]


def _yaml(text: str, path: Path) -> Any:  # noqa: ANN401 - whatever stands there
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else None
        raise ScenarioError(Problem(f"is not YAML: {error.problem}", file=path, line=line)) from None
    except YAMLError as error:
        raise ScenarioError(Problem(f"is not YAML: {error}", file=path)) from None


def _lines(text: str) -> Any:  # noqa: ANN401 - a node of ruamel.yaml, which has no common base
    """The document with marks; JSON is YAML but for tabs."""
    from ruamel.yaml import YAML

    return YAML(pure=True).compose(text.replace("\t", " "))


def _line(node: Any, where: Sequence[str | int]) -> int | None:  # noqa: ANN401
    """The line (from 1) of what stands at the keys `where`, or of what it should stand in."""
    for key in where:
        value = getattr(node, "value", None)
        if isinstance(key, int) and isinstance(value, list) and key < len(value):
            node = value[key]
        elif isinstance(value, list) and value and isinstance(value[0], tuple):
            inner = [pair for pair in value if pair[0].value == key]
            if not inner:
                break
            node = inner[0][1]
        else:
            break
    return None if node is None else int(node.start_mark.line) + 1
