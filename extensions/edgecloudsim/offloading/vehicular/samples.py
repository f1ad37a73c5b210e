"""Samples at regular times, for the peer's log files and the mean loads."""

from __future__ import annotations

from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import Record
from cosim.engine.continuum.memory import real
from cosim.engine.continuum.queue import put
from cosim.extensions.edgecloudsim.offloading import rows
from cosim.extensions.edgecloudsim.offloading.layout import ACCESS_SAMPLE, LOAD_SAMPLE, LOCATION_SAMPLE
from cosim.extensions.edgecloudsim.offloading.vehicular.links import link
from cosim.extensions.edgecloudsim.offloading.vehicular.road import serving


@jit
def sample_load(s: Record, now: float) -> None:
    """Note the mean loads of edge and cloud."""
    k = 4 * s.loads_sampled
    s.loads_sampled += 1
    real(s.load_samples, k).v = now
    real(s.load_samples, k + 1).v = s.edge_load / s.edge_vms
    real(s.load_samples, k + 2).v = s.cloud_load / s.cloud_vms
    put(s, LOAD_SAMPLE, now + s.load_interval)


@jit
def sample_location(s: Record, now: float) -> None:
    """Note how many vehicles each access point serves."""
    k = (1 + s.place_count) * s.locations_sampled
    s.locations_sampled += 1
    real(s.location_samples, k).v = now
    for d in range(s.device_count):
        real(s.location_samples, k + 1 + serving(s, rows.device(s.devices, d), now)).v += 1.0
    put(s, LOCATION_SAMPLE, now + s.location_interval)


@jit
def sample_access(s: Record, now: float) -> None:
    """Note the delays of the access points; 0 where they fail."""
    k = (1 + 2 * s.place_count) * s.access_sampled
    s.access_sampled += 1
    real(s.access_samples, k).v = now
    for n in range(2 * s.place_count):  # uplinks, then downlinks, as they are numbered
        real(s.access_samples, k + 1 + n).v = link(s.links, n).delay
    put(s, ACCESS_SAMPLE, now + s.access_interval)
