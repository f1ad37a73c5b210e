"""Rows of record arrays by address, as types of compiled code.

Passing twenty arrays from function to function costs numba most of its compile time and the kernel
most of its run time (measured: 108 s and a tenth of the speed). So compiled functions get one
record, `META`, which holds the addresses of all others; `task(s.tasks, i)` is row i, a plain pointer.

Integers of a row may be of 1, 2 or 4 bytes in memory: fewer of them fill a cache line. In compiled
code they are all of 8 bytes, so that no function is compiled twice because of them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numba
import numba.core.cgutils
import numba.core.datamodel
import numba.core.imputils
import numba.core.types
import numba.extending
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numpy.typing import NDArray

from cosim.compiled.compiling import jitted, records, view

# numba's stubs cover neither intrinsics nor pointers
types: Any = numba.core.types
intrinsic: Any = numba.extending.intrinsic
imputils: Any = numba.core.imputils
datamodel: Any = numba.core.datamodel
cgutils: Any = numba.core.cgutils

Record = Any  # one row of a record array: mypy cannot see through numpy's void
Row = Callable[[int, int], Record]


class _Packed(types.Record):  # type: ignore[misc]  # numba has no types
    """A record whose integers are of 8 bytes wherever they are not in memory."""

    def __init__(self, record: Any) -> None:  # noqa: ANN401
        fields = [
            (name, {"type": field.type, "offset": field.offset, "alignment": field.alignment, "title": field.title})
            for name, field in record.fields.items()
        ]
        super().__init__(fields, record.size, record.aligned)
        self.name: str = f"Packed({self.name})"

    @property
    def key(self) -> str:
        return self.name

    def typeof(self, key: str) -> Any:  # noqa: ANN401
        kept = self.kept(key)
        return types.int64 if isinstance(kept, types.Integer) and kept.bitwidth < 64 else kept

    def kept(self, key: str) -> Any:  # noqa: ANN401
        """The type of a field in memory."""
        return super().typeof(key)


datamodel.register_default(_Packed)(datamodel.models.RecordModel)


@imputils.lower_getattr_generic(_Packed)  # type: ignore[untyped-decorator]
def _get(context: Any, builder: Any, row: Any, value: Any, name: str) -> Any:  # noqa: ANN401 - numba's protocol
    kept = row.kept(name)
    place = cgutils.get_record_member(builder, value, row.offset(name), context.get_data_type(kept))
    found = context.unpack_value(builder, kept, place, None if row.aligned else 1)
    return context.cast(builder, found, kept, row.typeof(name))


@imputils.lower_setattr_generic(_Packed)  # type: ignore[untyped-decorator]
def _set(context: Any, builder: Any, signature: Any, arguments: Any, name: str) -> None:  # noqa: ANN401
    row, given = signature.args
    target, value = arguments
    kept = row.kept(name)
    place = cgutils.get_record_member(builder, target, row.offset(name), context.get_data_type(kept))
    packed = context.cast(builder, value, given, kept)
    context.pack_value(builder, kept, packed, place, align=None if row.aligned else 1)


def rows_of(dtype: np.dtype[Any]) -> Row:
    """A compiled function (address, i) -> record i of the array of `dtype` at the address."""
    if not jitted():
        return lambda address, i: records(view(dtype, address, 1, i))[0]
    record = numba.from_dtype(dtype)
    if any(isinstance(field.type, types.Integer) and field.type.bitwidth < 64 for field in record.fields.values()):
        record = _Packed(record)
    size = dtype.itemsize

    def row(typing_context: object, address: object, i: object) -> Any:  # noqa: ANN401, ARG001 - numba's protocol
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401, ARG001
            start, number = arguments
            place = builder.add(start, builder.mul(number, ir.Constant(ir.IntType(64), size)))
            return builder.inttoptr(place, context.get_value_type(record))

        return record(types.int64, types.int64), generate

    compiled: Row = intrinsic(row)
    return compiled


def _prefetch() -> Callable[[int], None]:
    """A compiled function that asks for the cache line at an address, without waiting for it."""
    if not jitted():
        return lambda address: None  # noqa: ARG005

    def line(typing_context: object, address: object) -> Any:  # noqa: ANN401, ARG001
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401, ARG001
            pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
            settings = [ir.Constant(number, value) for value in (1, 3, 1)]  # to write, keep, data
            builder.call(function, [builder.inttoptr(arguments[0], pointer), *settings])
            return context.get_dummy_value()

        return types.void(types.int64), generate

    compiled: Callable[[int], None] = intrinsic(line)
    return compiled


def _copier() -> Callable[[int, int, int], None]:
    """A compiled function (target, source, B) that copies memory."""
    if not jitted():

        def plain(target: int, source: int, size: int) -> None:
            ctypes.memmove(int(target), int(source), int(size))

        return plain

    def copy(typing_context: object, target: object, source: object, size: object) -> Any:  # noqa: ANN401, ARG001
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401, ARG001
            pointer = ir.IntType(8).as_pointer()
            to, of = (builder.inttoptr(address, pointer) for address in arguments[:2])
            cgutils.raw_memcpy(builder, to, of, arguments[2], 1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    compiled: Callable[[int, int, int], None] = intrinsic(copy)
    return compiled


prefetch = _prefetch()
copy_memory = _copier()
LINE = 64  # B


def aligned(count: int | tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Zeros that begin at a cache line: a row of 64 B then needs one line, not two."""
    shape = count if isinstance(count, tuple) else (count,)
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.zeros(size + 2 * LINE, np.uint8)
    start = -raw.ctypes.data % (2 * LINE)
    return raw[start : start + size].view(dtype).reshape(shape)
