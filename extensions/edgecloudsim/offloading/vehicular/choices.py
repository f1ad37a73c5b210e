"""Routes of a vehicle's task: to the edge, or to the cloud by the road side or by cellular network.

Five policies, all for the three options EDGE, ROADSIDE, CELLULAR:

- random: 33, 33 and 34 %.
- predictive: shares in inverse proportion to recent failures or, while hardly any task fails, to
  recent service times.
- mab: the upper confidence bound of ALTO (Sun et al. 2019, doi 10.1109/TVT.2019.2895593): least of
  U_i - sqrt((1 - x) ln t / K_i), with U_i the mean service time per length, K_i the times that option
  i was tried, x the normalised length and t the rounds.
- game-theory: each vehicle's share for the cloud grows with what the edge would take longer, and
  shrinks with the load that the other vehicles' shares put there.
- ai-based: per option one small network predicts whether the task will succeed, and another how long it
  will take; the soonest of those that will succeed is taken, the likeliest to succeed if none will
  (`cosim.extensions.edgecloudsim.offloading.vehicular.learned`).

`cosim.extensions.edgecloudsim.offloading.vehicular.observed` keeps what they learn from.
"""

from __future__ import annotations

import math
from typing import Final

from cosim.compiled.compiling import codes
from cosim.engine.continuum.draw import uniform
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import Record
from cosim.extensions.edgecloudsim.offloading import rows
from cosim.extensions.edgecloudsim.offloading.draws import PICK, SPARE_1, SPARE_2
from cosim.extensions.edgecloudsim.offloading.vehicular.learned import SURE, answer
from cosim.extensions.edgecloudsim.offloading.vehicular.links import (
    GSM_DOWN,
    GSM_UP,
    MAN_UP,
    WAN_DOWN,
    WAN_UP,
    downlink,
    shared,
    uplink,
)
from cosim.extensions.edgecloudsim.offloading.vehicular.observed import (
    CELLULAR,
    EDGE,
    FAILING,
    OPTIONS,
    ROADSIDE,
    arm,
    failure_rate,
    mean_service,
    observe,
    player,
)

POLICIES: Final = ("random", "predictive", "mab", "game-theory", "ai-based")
RANDOM, PREDICTIVE, MAB, GAME, LEARNED = codes(5)
COIN, PRIOR = SPARE_1, SPARE_2  # purposes of draws
FAILING_WAN, FAILING_GSM = 7.0, 8.0  # s, of the quirk expected-skips-links


@jit
def _by_shares(u: float, first: float, second: float) -> int:
    """The option in which the uniform draw falls; the third gets the rest."""
    if u <= first:
        return int(EDGE)
    return int(ROADSIDE) if u <= first + second else int(CELLULAR)


@jit
def _predict(s: Record, u: float, now: float) -> int:
    if now < s.warm_up:
        return _by_shares(u, 0.34, 0.33)
    # Ten is the sum of the weights; 0.3 % the sum of three options without failures.
    scale = 1.0 if s.predictive_unnormalised != 0 else 10.0
    x0, x1, x2 = failure_rate(s, EDGE) / scale, failure_rate(s, ROADSIDE) / scale, failure_rate(s, CELLULAR) / scale
    if x0 + x1 + x2 <= 0.3 + 1e-9:
        x0, x1, x2 = mean_service(s, EDGE) / scale, mean_service(s, ROADSIDE) / scale, mean_service(s, CELLULAR) / scale
    total = 1.0 / x0 + 1.0 / x1 + 1.0 / x2
    return _by_shares(0.01 + 0.98 * u, 1.0 / x0 / total, 1.0 / x1 / total)


@jit
def _delay(row: Record, failing: float) -> float:
    """Seconds over a link now, `failing` for one that fails."""
    return float(row.delay) if row.delay > 0.0 else failing


@jit
def network(s: Record, option: int, place: int) -> float:
    """Seconds on the links of an option from this place, there and back, by present delays."""
    if s.expected_skips_links != 0:  # one kind of link per option
        if option == EDGE:
            return _delay(uplink(s, place), FAILING) + _delay(downlink(s, place), FAILING)
        if option == ROADSIDE:
            return _delay(shared(s, WAN_UP), FAILING_WAN) + _delay(shared(s, WAN_DOWN), FAILING_WAN)
        return _delay(shared(s, GSM_UP), FAILING_GSM) + _delay(shared(s, GSM_DOWN), FAILING_GSM)
    if option == CELLULAR:
        return _delay(shared(s, GSM_UP), FAILING) + _delay(shared(s, GSM_DOWN), FAILING)
    radio = _delay(uplink(s, place), FAILING) + _delay(downlink(s, place), FAILING)
    if option == EDGE:
        return radio + _delay(shared(s, MAN_UP), FAILING)
    return radio + _delay(shared(s, WAN_UP), FAILING) + _delay(shared(s, WAN_DOWN), FAILING)


@jit
def processing(s: Record, option: int, length: float) -> float:
    """Seconds that the task takes on an idle machine of an option."""
    if option == EDGE:
        return length / float(s.edge_mips)
    seconds = length / float(s.cloud_mips)
    return math.floor(seconds) if s.cloud_time_in_whole_seconds != 0 else seconds


@jit
def expected(s: Record, option: int, place: int, length: float) -> float:
    """Seconds that a task from this place would take by present delays and idle machines."""
    return network(s, option, place) + processing(s, option, length)


@jit
def _least_bound(s: Record, place: int, length: float) -> int:
    """The arm with the least lower confidence bound of its cost."""
    if s.rounds == 0.0:
        s.rounds = 1.0
        for option in range(OPTIONS):
            a = arm(s.arms, option)
            a.tried = 1.0
            a.mean = expected(s, option, place, length) / length
            if s.mab_per_instruction == 0:
                a.mean *= s.mean_length
    first, last = rows.app(s.apps, 0).length, rows.app(s.apps, s.app_count - 1).length
    x = 0.0
    if last != first:
        x = min(1.0, max(0.0, (length - first) / (last - first)))
    best, least = 0, math.inf
    for option in range(OPTIONS):
        a = arm(s.arms, option)
        bound = a.mean - math.sqrt((1.0 - x) * math.log(s.rounds) / a.tried)
        if bound < least:
            best, least = option, bound
    return best


@jit
def _play(s: Record, d: int, place: int, length: float, max_delay: float, coin: float, u: float) -> int:
    """Draw by the vehicle's share for the cloud, after moving it to where its two costs balance."""
    cloud_option = CELLULAR if coin < 0.5 else ROADSIDE
    slow = 100.0 / max(1e-9, 100.0 - s.edge_load / s.edge_vms)
    edge = network(s, EDGE, place) + processing(s, EDGE, length) * slow
    slow = 100.0 / max(1e-9, 100.0 - s.cloud_load / s.cloud_vms)
    cloud = network(s, cloud_option, place) + processing(s, cloud_option, length) * slow
    p = player(s.players, d)
    if s.game_earlier_players_only != 0:
        idle = 1.0
        for other in range(d):
            idle *= 1.0 - player(s.players, other).share * player(s.players, other).rate
            if idle < 1e-17:  # 1 - idle is 1
                break
    else:
        idle = math.exp(s.log_idle - math.log1p(-p.share * p.rate))
    busy = 1.0 - idle
    share = 0.0
    if busy > 0.0:
        share = (edge - cloud) / (2.0 * 0.6 * 6.0 * max_delay * busy)
    elif edge > cloud:
        share = 1.0
    if share <= 0.0:
        share = 0.01
    elif share >= 1.0:
        share = 0.99
    before = math.log1p(-p.share * p.rate)
    p.share, p.rate = share, _rate(s, d)
    s.log_idle += math.log1p(-p.share * p.rate) - before
    if u < share:
        return int(cloud_option)
    return int(EDGE)


@jit
def _soonest(s: Record, place: int, length: float) -> int:
    """The option that is predicted to take least of those predicted to succeed; else the likeliest to succeed."""
    observe(s, place, length)
    best, least = -1, math.inf
    likeliest, most = 0, -math.inf
    for option in range(OPTIONS):
        odds = answer(s, option, 0)
        if odds > most:
            likeliest, most = option, odds
        if odds > SURE:
            seconds = answer(s, option, 1)
            if seconds < least:
                best, least = option, seconds
    return best if best >= 0 else likeliest


@jit
def _rate(s: Record, d: int) -> float:
    """The rate at which device d makes tasks, against the highest of all."""
    dv = rows.device(s.devices, d)
    if dv.app < 0:
        return 0.0
    interval = float(rows.app(s.apps, dv.app).interarrival)
    if s.game_interval_as_rate != 0:
        return min(interval / 20.0, 1.0)
    return float(s.shortest_interval) / interval


@jit
def seat(s: Record, d: int) -> None:
    """Device d joins the game, with a share drawn from U(0.25, 0.5)."""
    p = player(s.players, d)
    if s.game_begins_alike != 0:
        p.share, p.rate = 0.33, 0.5
    else:
        p.share, p.rate = 0.25 + 0.25 * uniform(rows.device(s.devices, d).key, 0, PRIOR), _rate(s, d)
    s.log_idle += math.log1p(-p.share * p.rate)


@jit
def choose(s: Record, d: int, place: int, app: int, length: float, n: int, now: float) -> int:
    """The option for task n of device d."""
    key = rows.device(s.devices, d).key
    u = uniform(key, n, PICK)
    if s.policy == PREDICTIVE:
        return _predict(s, u, now)
    if s.policy == MAB:
        return _least_bound(s, place, length)
    if s.policy == GAME:
        coin = uniform(key, n, COIN)
        return _play(s, d, place, length, rows.app(s.apps, app).max_delay, coin, u)
    if s.policy == LEARNED:
        return _soonest(s, place, length)
    return _by_shares(u, 0.33, 0.33)
