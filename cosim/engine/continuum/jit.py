"""How functions of this package are compiled: entry points, and parts of them that have no other caller."""

from __future__ import annotations

from cosim.compiled import compiling

entry = compiling.entry()
jit = compiling.inner
part = compiling.part
