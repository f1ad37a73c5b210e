"""Delays of the links between devices, edge places and the cloud.

Three families: queues whose load follows the devices present (`app1`, `tutorial5`), measured
throughput by the transfers under way (`app2`, `app3`, `app4`, `app6`), and the metropolitan network
between edge places, a queue whose load is estimated from what came in the last five seconds (`app2`,
`app4`). A negative or zero delay means that the link has no capacity left.
"""

from __future__ import annotations

import math

from cosim.compiled.compiling import codes
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.queue import put
from cosim.engine.continuum.throughput import WAN_KBPS, WLAN_GAIN, WLAN_KBPS
from cosim.extensions.edgecloudsim.offloading.layout import ESTIMATE, Record
from cosim.extensions.edgecloudsim.offloading.rows import place, real

APP1, APP2, APP3, APP4, APP6, TUTORIAL5 = codes(6)  # models
MODELS = ("app1", "app2", "app3", "app4", "app6", "tutorial5")

ESTIMATE_INTERVAL = 5.0  # s
MAN_LIMIT = 15.0  # s, a longer delay is a failure
QUEUE_LIMIT = 5.0  # s, same for WLAN and WAN
PROBE = 128.0  # kB, size of the transfer that policies ask about
NO_WAY = -1.0


@jit
def queue(s: Record, services: float, requests: float, propagation: float, limit: float) -> float:
    """Mean response time of M/M/1, 1 / (services - requests), plus propagation; s."""
    if s.unstable_queue_passes == 0 and services <= requests:
        return NO_WAY
    delay = 1.0 / (services - requests) + propagation
    return float(NO_WAY if delay > limit else delay)


@jit
def two_servers(s: Record, services: float, requests: float) -> float:
    """Mean response time of M/M/2, 4 mu / ((2 mu - lambda) (2 mu + lambda)); s."""
    if s.unstable_queue_passes == 0 and 2.0 * services <= requests:
        return NO_WAY
    return float(4.0 * services / ((2.0 * services - requests) * (2.0 * services + requests)))


@jit
def _requests(s: Record, p: int, rate: float) -> float:
    """Requests/s at the place's queue: of the devices there, or of their mean number (`tutorial5`)."""
    if s.model == TUTORIAL5:
        return float((s.device_count // s.place_count) * rate)
    return float(place(s.places, p).devices * rate)


@jit
def wlan_delay(s: Record, p: int, kb: float, up: bool) -> float:
    """s that `kb` take between a device at place p and its access point; zero or less: no capacity."""
    if s.model == APP1 or s.model == TUTORIAL5:
        services = s.wlan_in if up else s.wlan_out
        requests = _requests(s, p, s.wlan_rate)
        if s.servers == 2:
            return two_servers(s, services, requests)
        return queue(s, services, requests, 0.0, s.limit)
    n = place(s.places, p).wlan
    if n >= len(WLAN_KBPS):
        return NO_WAY
    return float(8.0 * kb / (WLAN_KBPS[n] * WLAN_GAIN))


@jit
def wan_delay(s: Record, p: int, kb: float, up: bool) -> float:
    """s that `kb` take between place p and the cloud; zero or less: no capacity."""
    if s.model == APP1 or s.model == TUTORIAL5:
        services = s.wan_in if up else s.wan_out
        return queue(s, services, _requests(s, p, s.wan_rate), s.wan_propagation, s.limit)
    n = place(s.places, p).wan
    if n >= len(WAN_KBPS):
        return NO_WAY
    return float(8.0 * kb / WAN_KBPS[n])


@jit
def man_delay(s: Record, up: bool, kb: float, counts: bool) -> float:
    """s between two edge places, noting the request for the estimator if it `counts`."""
    if counts:
        if up:
            s.man_in_count += 1
            s.man_in_sum += kb
        else:
            s.man_out_count += 1
            s.man_out_sum += kb
    if up:
        return queue(s, s.man_kbps / (8.0 * s.man_in), s.man_in_rate, s.lan_delay, MAN_LIMIT)
    return queue(s, s.man_kbps / (8.0 * s.man_out), s.man_out_rate, s.lan_delay, MAN_LIMIT)


@jit
def estimate(s: Record, now: float) -> None:
    """Take the last interval's requests to the MAN for the next one's."""
    if s.man_in_count > 0 or s.man_idle_keeps_estimate == 0:
        s.man_in_rate = s.man_in_count / ESTIMATE_INTERVAL
    if s.man_out_count > 0 or s.man_idle_keeps_estimate == 0:
        s.man_out_rate = s.man_out_count / ESTIMATE_INTERVAL
    if s.man_sizes_never_measured == 0:
        if s.man_in_count > 0:
            s.man_in = s.man_in_sum / s.man_in_count
        if s.man_out_count > 0:
            s.man_out = s.man_out_sum / s.man_out_count
    s.man_in_count = 0
    s.man_out_count = 0
    s.man_in_sum = 0.0
    s.man_out_sum = 0.0
    put(s, ESTIMATE, now + ESTIMATE_INTERVAL)


@jit
def sample_access(s: Record, now: float) -> None:
    """Note the WLAN delay of every place for a reference transfer."""
    row = s.access_sampled * (1 + 2 * s.place_count)
    real(s.access_samples, row).v = now
    for p in range(s.place_count):
        up, down = wlan_delay(s, p, PROBE, True), wlan_delay(s, p, PROBE, False)
        real(s.access_samples, row + 1 + p).v = up if up > 0.0 else math.nan
        real(s.access_samples, row + 1 + s.place_count + p).v = down if down > 0.0 else math.nan
    s.access_sampled += 1
