"""A protobuf message for each signal: its columns are fields, of which the comments give meaning and unit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from foxglove import Schema
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Field = descriptor_pb2.FieldDescriptorProto
TYPES = {"double": Field.TYPE_DOUBLE, "int64": Field.TYPE_INT64, "bool": Field.TYPE_BOOL, "string": Field.TYPE_STRING}
_MESSAGE_TYPE, _FIELD = 4, 2  # numbers of fields in a file's and in a message's descriptor: a path to a comment


class SignalMessage:
    """The message `cosim.NAME` of a signal.

    `columns` are pairs of a key of `TYPES` and a description, by the name of the column.
    """

    def __init__(self, signal: str, columns: Mapping[str, tuple[str, str]]) -> None:
        self.columns = tuple(columns)
        name = re.sub(r"\W", "_", signal, flags=re.ASCII)
        file = descriptor_pb2.FileDescriptorProto(name=f"cosim/{name}.proto", package="cosim", syntax="proto3")
        message = file.message_type.add(name=name)
        for index, (column, (kind, description)) in enumerate(columns.items()):
            message.field.add(name=column, number=index + 1, type=TYPES[kind], label=Field.LABEL_OPTIONAL)
            path = [_MESSAGE_TYPE, 0, _FIELD, index]
            file.source_code_info.location.add(path=path, span=[index, 0, 0], leading_comments=description)
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        self._class = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"cosim.{name}"))
        data = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
        self._schema = Schema(name=f"cosim.{name}", encoding="protobuf", data=data)

    def get_schema(self) -> Schema:
        """The description of the message, as the SDK's own types give theirs."""
        return self._schema

    def encode(self, values: Sequence[Any]) -> bytes:
        """A message with `values` of the columns; what is None is left out."""
        given = {name: value for name, value in zip(self.columns, values, strict=True) if value is not None}
        return bytes(self._class(**given).SerializeToString())
