"""Rows of the state arrays by address, for compiled code (see `cosim.engine.continuum.memory`)."""

from __future__ import annotations

import numpy as np

from cosim.compiled.compiling import entry
from cosim.compiled.rowtypes import rows_of
from cosim.extensions.edgecloudsim.offloading import layout

device = rows_of(layout.DEVICE)
task = rows_of(layout.TASK)
vm = rows_of(layout.VM)
centre = rows_of(layout.CENTRE)
place = rows_of(layout.PLACE)
app = rows_of(layout.APP)
tally = rows_of(layout.TALLY)
ended = rows_of(layout.ENDED)
battery = rows_of(layout.BATTERY)
real = rows_of(np.dtype([("v", "f8")]))  # a float64 array's element is real(address, i).v
whole = rows_of(np.dtype([("v", "i8")]))

# The kernels call functions of the continuum engine too.
kernel_entry = entry()
