"""Keys of a block from the quantities that a record of the scene declares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

from cosim.contract.block import OnlyWith
from cosim.contract.quantity import DeclaredQuantity, marks, quantities
from cosim.contract.units import Unit

B = TypeVar("B", bound=BaseModel)


def keys_of(record: type, inside: str = "") -> Callable[[type[B]], type[B]]:
    """A decorator of a block that gives it a key for each quantity of `record`, or for those under the key `inside`.

    A key is written with the quantity's unit and refused outside its bounds. One that may be left out is None then.
    One whose default is infinite, which no file can write, must be given.
    """

    def decorated(block: type[B]) -> type[B]:
        defaults = (
            {field.name: field.default for field in fields(record)}
            if is_dataclass(record)
            else getattr(record, "_field_defaults", {})
        )
        kinds, only = get_type_hints(record), marks(record, OnlyWith)
        for name, one in quantities(record).items():
            outer, _, key = (one.key or name).rpartition(".")
            if outer == inside:
                kind, field = _key(one, kinds[name], defaults.get(name), only.get(name))
                block.__annotations__[key] = kind  # for the classes below it
                block.__pydantic_fields__[key] = FieldInfo.from_annotated_attribute(kind, field)
        if block.__pydantic_complete__:  # most are built when they are needed
            block.model_rebuild(force=True)
        return block

    return decorated


def _key(quantity: DeclaredQuantity, of: type, default: object, only: OnlyWith | None) -> tuple[Any, Any]:
    bounds: dict[str, Any] = {"gt" if quantity.above else "ge": quantity.least}
    if quantity.most < float("inf"):
        bounds["le"] = quantity.most
    if of is int:
        bounds = {name: int(bound) for name, bound in bounds.items()} | {"strict": True}
    written = Unit(quantity.dimension, **bounds) if quantity.dimension else Field(**bounds)
    kind: Any = Annotated[of, written, quantity]
    if quantity.optional:
        kind, default = kind | None, None
    elif quantity.usual is not None:
        default = quantity.usual
    if only is not None:
        kind = Annotated[kind, only]
    return kind, Field(... if default in (MISSING, float("inf")) else default, description=quantity.meaning)
