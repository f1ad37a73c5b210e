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

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from cosim.contract.units import Duration, Period

if TYPE_CHECKING:
    from cosim.contract.entities import Event, Node

NAME = r"[A-Za-z][A-Za-z0-9_.-]{0,63}"
Name = Annotated[str, Field(pattern=rf"^{NAME}$")]
Selector = str | list[str]
Model = TypeVar("Model", bound=BaseModel)


class Block(BaseModel):
    """A block of the file: unknown keys are errors, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants", defer_build=True)


def or_text(key: str) -> ConfigDict:
    """The configuration of a block that may also be written as the text of its `key`."""

    def both(schema: dict[str, Any]) -> None:
        block = {name: schema.pop(name) for name in list(schema)}
        schema["description"] = block.pop("description")
        schema["anyOf"] = [block["properties"][key], block]

    return ConfigDict(json_schema_extra=both)


class NodeKey(Block):
    """Base of what an adapter lets authors write at nodes, under the key `KEY`."""

    KEY: ClassVar[str] = ""

    @classmethod
    def of(cls, node: Node) -> Self | None:
        """What `node` (or the template of a fleet) says under this key; None: nothing."""
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
    TARGET: ClassVar[Literal["node", "link"]] = "node"  # what it happens to
    NEEDS: ClassVar[str] = ""  # the key of the nodes that it can happen to; "": any
    UNDO: ClassVar[str] = ""  # `do` of the event that ends one with `for`; "": it has no end

    at: Duration = Field(description="when")
    node: Selector | None = Field(None, description="the nodes that it happens to")
    link: str | None = Field(None, description="two selectors joined by a slash: uav-2/edge-1")
    duration: Period | None = Field(None, alias="for", description="after which it is undone")

    @classmethod
    def of(cls, event: Event) -> Self:
        """The keys of `event`, which is of this kind or ends one of this kind."""
        return _parsed(cls, event.keys)


def _parsed(model: type[Model], text: str) -> Model:
    found: Model = _cached(model, text)
    return found


@lru_cache(maxsize=4096)
def _cached(model: type[Model], text: str) -> Any:  # noqa: ANN401 - a cache forgets the type
    """The nodes of a range say the same, so there are few texts."""
    return model.model_validate_json(text)
