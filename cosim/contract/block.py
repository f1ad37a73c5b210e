"""What all blocks of a scenario file have in common, and the bases of blocks that adapters bring.

An adapter that needs a key of its own at nodes, or an event of its own, declares one class for it:

    class Lora(NodeKey):
        '''A LoRa radio.'''
        KEY = "lora"
        role: Literal["device", "gateway"] = Field("device", description="who it is")

    ADAPTER = AdapterKind(name="lora", ..., node={"lora": "lora.keys:Lora"})

The class is the model that the scenario is checked with, its documentation in the schema and in
`cosim adapters`, and the record that the adapter reads: `Lora.of(node)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import from_json

from cosim.contract.trust import PlainText, Words
from cosim.contract.units import Duration, Period

if TYPE_CHECKING:
    from pathlib import Path

    from cosim.contract.entities import Event, Node, Scene

NAME = r"[A-Za-z][A-Za-z0-9_.-]{0,63}"
Name = Annotated[str, Field(pattern=rf"^{NAME}$"), PlainText()]
Selector = Words | list[Words]
Model = TypeVar("Model", bound=BaseModel)


class Block(BaseModel):
    """A block of the file: unknown keys are errors, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants", defer_build=True)

    @classmethod
    def si(cls, **values: Any) -> Self:  # noqa: ANN401 - whatever the fields hold
        """A block from values as its fields hold them: SI numbers instead of text with units, nothing checked.

        Raises `TypeError` for keys that it has not, and for those that are missing.
        """
        wrong = values.keys() - cls.model_fields.keys()
        missing = [name for name, one in cls.model_fields.items() if one.is_required() and name not in values]
        if wrong or missing:
            raise TypeError(f"{cls.__name__} has no {sorted(wrong)}" if wrong else f"{cls.__name__} needs {missing}")
        return cast("Self", cls.model_construct(**values))


def _or_text(schema: dict[str, Any], model: type[Any]) -> None:
    block = {name: schema.pop(name) for name in list(schema)}
    schema["description"] = block.pop("description")
    schema["anyOf"] = [block["properties"][model.TEXT], block]


class TextBlock(Block):
    """Base of a block that may also be written as the text of its key `TEXT`."""

    model_config = ConfigDict(json_schema_extra=_or_text)
    TEXT: ClassVar[str] = ""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, found: object) -> object:
        return {cls.TEXT: found} if isinstance(found, str) else found


class NodeKey(Block):
    """Base of what an adapter lets authors write at nodes, under the key `KEY`."""

    KEY: ClassVar[str] = ""

    @classmethod
    def of(cls, node: Node) -> Self | None:
        """The block that `node` (or the template of a fleet) has under this key; None if it has none."""
        for key, text in node.keys:
            if key == cls.KEY:
                return _parsed(cls, text)
        return None

    def written(self) -> tuple[str, str]:
        """As it stands in `Node.keys`."""
        return self.KEY, self.model_dump_json(by_alias=True, exclude_unset=True)


class EventKey(Block):
    """Base of an event that an adapter brings; a subclass adds ``do: Literal["name"]`` and keys of its own."""

    model_config = ConfigDict(populate_by_name=True)
    TARGET: ClassVar[Literal["node", "link", ""]] = "node"  # what an author has to name; "": it may be everywhere
    NEEDS: ClassVar[str] = ""  # the key of the nodes that it can happen to; "": any
    UNDO: ClassVar[str] = ""  # `do` of the event that ends one with `for`; "": it has no end

    at: Duration = Field(description="when")
    node: Selector | None = Field(None, description="the nodes that it happens to")
    link: Words | None = Field(None, description="two selectors joined by a slash: uav-2/edge-1")
    duration: Period | None = Field(None, alias="for", description="after which it is undone")

    @classmethod
    def of(cls, event: Event) -> Self | None:
        """The keys of `event` if it is of this kind or ends one of this kind, else None."""
        do = from_json(event.keys)["do"] if event.keys else None
        return _parsed(cls, event.keys) if do in get_args(cls.model_fields["do"].annotation) else None

    def refusal(self, config: Any, nodes: Sequence[str]) -> str:  # noqa: ANN401 - the adapter's own
        """Why an adapter with this configuration cannot carry it out at `nodes`, ""; `cosim check` reports it."""
        return ""

    def unfit(self, config: Any, scene: Scene, nodes: Sequence[str], root: Path) -> str:  # noqa: ANN401
        """Why it cannot happen in `scene`, "": asked where `refusal` has no reason. Relative paths start at `root`."""
        return ""


class OnlyWith:
    """Marks a field that has an effect only beside another one of its block: where that is given, or one of `values`.

        price_step: Annotated[Period, OnlyWith("prices")] = Field(3600.0, description="time between two values")

    A value without effect is a warning of `cosim check`, see `no_effect`.
    """

    def __init__(self, key: str, *values: object) -> None:
        self.key, self.values = key, values

    def holds(self, block: BaseModel) -> bool:
        """Whether the other field is as it must be; a function of the author's own may look at anything."""
        other = getattr(block, self.key)
        if not self.values:
            return other is not None and other is not False and other not in ((), [], {})
        parts = list(other.values()) if isinstance(other, Mapping) else [other]
        return any(part in self.values or (isinstance(part, str) and ":" in part) for part in parts)

    def warning(self, key: str) -> str:
        """The warning about a field `key` that has no effect."""
        if self.values == (None,):
            return f"'{key}' has no effect beside '{self.key}'"
        words = " or ".join("true" if one is True else str(one) for one in self.values)
        return f"'{key}' has no effect without '{self.key}{f': {words}' if words else ''}'"


def no_effect(block: BaseModel, at: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], OnlyWith]]:
    """What is written in `block` and below and has no effect: where, and why."""
    for name in _marked(type(block)):
        field, value = type(block).model_fields[name], getattr(block, name)
        key = (*at, field.alias or name)
        if name in block.model_fields_set and value != field.default:
            marks = (mark for mark in field.metadata if isinstance(mark, OnlyWith))
            yield from ((key, mark) for mark in marks if not mark.holds(block))
        inner: list[tuple[Any, Any]] = [((), value)]
        if isinstance(value, Mapping):
            inner = [((word,), child) for word, child in value.items()]
        elif isinstance(value, list | tuple):
            inner = [((number,), child) for number, child in enumerate(value)]
        for word, child in inner:
            if isinstance(child, BaseModel):
                yield from no_effect(child, (*key, *word))


@cache
def _marked(model: type[BaseModel]) -> tuple[str, ...]:
    """The fields of `model` that are marked, or hold blocks in which fields are."""
    return tuple(
        name
        for name, field in model.model_fields.items()
        if any(isinstance(mark, OnlyWith) for mark in field.metadata)
        or any(
            isinstance(part, type) and issubclass(part, BaseModel) and _marked(part)
            for part in parts_of(field.annotation)
        )
    )


def parts_of(annotation: Any) -> Iterator[Any]:  # noqa: ANN401 - a type, or what stands in its brackets
    """`annotation` and everything inside its brackets."""
    yield annotation
    for part in get_args(annotation):
        yield from parts_of(part)


def as_plain(value: Any, rule: Callable[[Any], Any] | None = None) -> Any:  # noqa: ANN401 - whatever records hold
    """Records, blocks, and collections of them as mappings, lists and values that travel as JSON or msgpack.

    `rule` returns what replaces a value, None to keep the usual form.
    """
    if rule is not None and (found := rule(value)) is not None:
        return found
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if is_dataclass(value):
        return {field.name: as_plain(getattr(value, field.name), rule) for field in fields(value)}
    if isinstance(value, tuple | list):
        if named := getattr(value, "_asdict", None):
            return as_plain(named(), rule)
        return [as_plain(item, rule) for item in value]
    if isinstance(value, Mapping):
        return {key: as_plain(item, rule) for key, item in value.items()}
    return value


def _parsed(model: type[Model], text: str) -> Model:
    found: Model = _cached(model, text)
    return found


@lru_cache(maxsize=4096)
def _cached(model: type[Model], text: str) -> Any:  # noqa: ANN401 - a cache forgets the type
    """Parse `text`, with a cache: the nodes of a range have the same text, so there are few."""
    return model.model_validate_json(text)
