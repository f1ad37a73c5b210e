"""Identify a service from the times of requests and answers: servers, discipline, service time, latency.

    found = identify([(created, ended), ...])      # s; a pair per recording, each under another load
    found.station, found.levels.deviation

A station of `servers` serves requests in order of arrival, or all at once (`sharing`). A request occupies a server for
a log-normal time, or for one of two (a cache that hits or misses). Besides that, `latency` occupies no server: it is
the way there and back, and the time until a process wakes up. Busy servers may slow one another down (`contention`, as
in the continuum). All of this shows in how responses grow with the load, so two loads identify it. The simplest station
is taken unless another is clearly nearer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cosim.compiled.compiling import entry
from cosim.contract.records import Floats
from cosim.twin.fitting.nearest import REPEATS, Nearest, nearest, off, quantiles, root
from cosim.twin.judgement.course import LEAST
from cosim.twin.judgement.subject import SURE
from cosim.twin.telemetry.quantities import spacings

Recorded = tuple[Floats, Floats]  # (n,) s: when requests came, in order; when their answers were there

_SERVERS = (1, 2, 3, 4, 6, 8)  # tried: workers of a service on a machine of today
CLEARLY = 0.85  # of the misfit of a simpler station: then another is taken
_APART = 3.0  # times the first mode, at which another one may be of its own
_DEVIATIONS = 2.5  # apart; two modes are seen at 2 (K. Ashman et al., AJ 108, 1994)
_FROM = (0.2, 0.1), (0.2, 0.35), (0.8, 0.1)  # to begin with: spread, latency over the median response
_WAY = 0.4  # of the median response, at most: a longer way looks like servers without end
_WINDOWS = 4  # of a recording, between which the level of service times is compared


@dataclass(frozen=True, slots=True)
class ServiceStation:
    """A service of one kind of request."""

    servers: int
    sharing: bool  # all requests at once; else in order of arrival
    service: float  # s, the mean with no other request there
    spread: float  # standard deviation over mean
    latency: float  # s
    contention: float = 0.0  # slow-down of a busy server by each other one
    slow_share: float = 0.0  # of the requests, in a second mode, which takes
    slow_times: float = 1.0  # times as long; the mean is of both modes, the spread that of each

    def responses(self, arrivals: Floats, random: np.random.Generator) -> Floats:
        """(n,) s for requests that come at `arrivals` (n,)."""
        return _responses(arrivals, _draws(len(arrivals), random), self)

    @property
    def capacity(self) -> float:
        """Requests per s that it can serve."""
        return self.servers / (1.0 + self.contention * (self.servers - 1)) / self.service


@dataclass(frozen=True, slots=True)
class ResponseLevels:
    """How much the service time varies from one time to another, beyond chance."""

    deviation: float  # of the logarithm, between windows of the recordings
    windows: tuple[float, ...]  # each window's level over the mean


@dataclass(frozen=True, slots=True)
class Identified:
    """The station that is nearest, and how steady it was."""

    station: ServiceStation
    levels: ResponseLevels


def identify(recordings: Sequence[Recorded], *, seed: int = 1, servers: Sequence[int] = _SERVERS) -> Identified:
    """The station that makes all `recordings`. Raises `ValueError` for fewer than 20 requests in one of them."""
    if not recordings or min(len(created) for created, _ in recordings) < 20:
        raise ValueError("a recording needs 20 requests or more")
    figures = _Figures(recordings, seed)
    lone = min(float(np.median(ended - created)) for created, ended in recordings)
    cut = _two(recordings)
    tried: list[_Trial] = []

    def fitted(servers: int, *, sharing: bool, contention: bool, modes: bool = False) -> _Trial:
        """The nearest of a kind, from several places to begin with."""
        slowed = 0.3 if contention else 0.0
        begin = [ServiceStation(servers, sharing, 0.8 * lone, spread, way * lone, slowed) for spread, way in _FROM]
        if modes:  # one of them is how requests that met no other request fall in two
            service, *law = cut
            begin = [replace(begin[0], spread=0.4, slow_share=0.2, slow_times=5.0)]
            begin.append(replace(begin[0], service=service, slow_share=law[0], slow_times=law[1], spread=law[2]))
        tried.append(min(map(figures.nearest, begin), key=lambda one: one.nearest.deviance))
        return tried[-1]

    for sharing in (False, True):
        last = math.inf
        for count in servers:
            away = fitted(count, sharing=sharing, contention=False).off
            if count > 1:
                away = min(away, fitted(count, sharing=sharing, contention=True).off)
                if away > last:
                    break
            last = min(last, away)
    chosen = _simplest(tried, figures)
    # Where two modes were taken for one, one server may have been taken for several.
    for like in dict.fromkeys([(1, False, False), (chosen.servers, chosen.sharing, chosen.contention > 0.0)]):
        two = fitted(like[0], sharing=like[1], contention=like[2], modes=True)
        metric = min(tried, key=lambda one: one.nearest.deviance)
        of_two = figures.off(two.station, metric)
        if of_two < CLEARLY * figures.off(chosen, metric) and distinct(two.station.spread, two.station.slow_times):
            chosen = two.station
    return Identified(chosen, _levels(recordings, chosen, seed))


def agreeing(recordings: Sequence[Recorded], fitted: int, *, seed: int = 1) -> tuple[Identified, int | None]:
    """The station that makes the first `fitted` recordings, and None.

    Where it does not make the others, one of those may lie. So another is taken that makes all but one, and that one's
    place, because a lie bends what is identified by it: contention, say, looks like a slower recording.
    """
    found, lying = identify(recordings[:fitted], seed=seed), None
    figures = _Figures(recordings, seed)
    away = max(figures.each_off(found.station))
    if len(recordings) < 3 or away < SURE:
        return found, None
    for k in range(fitted):
        kept = [j for j in range(len(recordings)) if j != k]
        other = identify([recordings[j] for j in kept], seed=seed)
        offs = figures.each_off(other.station)
        if (rest := max(offs[j] for j in kept)) < CLEARLY * away:
            found, away, lying = other, rest, k
    return found, lying


def written(usual: float, spread: float, modes: tuple[float, float] | None) -> str:
    """The law of work as scenarios have it; `usual` is the mean of the first mode in cycles."""
    second = "" if modes is None else f", {100 * modes[0]:.3g} % x {modes[1]:.4g}"
    return f"log-normal {usual / 1e6:.6g} Mcycles +- {100 * spread:.3g} %{second}"


def distinct(spread: float, times: float) -> bool:
    """Whether a second mode, `times` the first, is one of its own: else both make one wide law."""
    return times > _APART and math.log(times) > _DEVIATIONS * math.sqrt(math.log1p(spread**2))


def _simplest(tried: Sequence[_Trial], figures: _Figures) -> ServiceStation:
    """The simplest station unless another is clearly nearer; all are compared by the deviations of the likeliest."""
    metric = min(tried, key=lambda one: one.nearest.deviance)
    offs = [(one.station, figures.off(one.station, metric)) for one in tried]
    best = min(away for _, away in offs)
    return next(one for one, away in sorted(offs, key=_plainness) if CLEARLY * away <= best)


def _plainness(tried: tuple[ServiceStation, float]) -> tuple[float, float]:
    station, misfit = tried
    return station.servers + 0.5 * (station.contention > 0.0) + 0.25 * station.sharing, misfit


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """A station and how far the recordings are from what it makes."""

    station: ServiceStation
    off: float  # root mean square of the deviations, in those that it has by chance
    nearest: Nearest


class _Figures:
    """Quantiles of responses and of the times between answers, and what stations make of them by the same draws."""

    def __init__(self, recordings: Sequence[Recorded], seed: int) -> None:
        self._recordings = recordings
        random = np.random.default_rng(np.random.SeedSequence([seed, 0x66696775]))
        self._draws = [[_draws(len(created), random) for created, _ in recordings] for _ in range(2 * REPEATS)]
        self._spaced = [_spaced(created, ended - created).size >= LEAST for created, ended in recordings]
        self._real = [self._of(k, ended - created) for k, (created, ended) in enumerate(recordings)]
        self._lone = min(float(np.median(ended - created)) for created, ended in recordings)

    def _of(self, k: int, responses: Floats) -> Floats:
        if not self._spaced[k]:
            return quantiles(responses)
        apart = _spaced(self._recordings[k][0], responses)
        return np.concatenate([quantiles(responses), quantiles(apart if apart.size else responses)])

    def _made(self, station: ServiceStation, *, fresh: bool = False) -> list[Floats]:
        """(repeats, figures) of each recording; `fresh` ones are of draws that no station was fitted to."""
        draws = self._draws[REPEATS:] if fresh else self._draws[:REPEATS]
        return [
            np.array([self._of(k, _responses(created, drawn[k], station)) for drawn in draws])
            for k, (created, _) in enumerate(self._recordings)
        ]

    def off(self, station: ServiceStation, metric: _Trial) -> float:
        """How far the recordings are from `station` under fresh draws, in the deviations of `metric`."""
        return off(self._made(station, fresh=True), self._real, metric.nearest.roots)

    def each_off(self, station: ServiceStation) -> list[float]:
        """How far each recording is from `station`, in the deviations that it has by chance."""
        pairs = zip(self._made(station, fresh=True), self._real, strict=True)
        return [off([some], [real], [root(some)]) for some, real in pairs]

    def nearest(self, station: ServiceStation) -> _Trial:
        """The station of the same kind that is nearest."""
        names = ["service", "spread", "latency"]
        names += ["contention"] * (station.contention > 0.0) + ["slow_share", "slow_times"] * (station.slow_share > 0.0)
        ends = {
            "service": (0.05 * self._lone, 8.0 * self._lone), "spread": (0.002, 2.5),
            "latency": (1e-4 * self._lone, _WAY * self._lone), "contention": (0.01, 2.0), "slow_share": (0.01, 0.6),
            "slow_times": (1.3, 50.0),
        }  # fmt: skip
        low, high = (np.log([ends[name][k] for name in names]) for k in (0, 1))

        def at(logs: Floats) -> ServiceStation:
            return replace(station, **dict(zip(names, np.exp(logs).tolist(), strict=True)))

        def made(logs: Floats) -> list[Floats]:
            return self._made(at(logs))

        start = np.log(np.maximum([getattr(station, name) for name in names], np.exp(low)))
        found = nearest(made, self._real, start, low, high)
        there = at(found.point)
        return _Trial(there, off(self._made(there), self._real, found.roots), found)


def _spaced(created: Floats, responses: Floats) -> Floats:
    apart = spacings(created, responses)
    return np.asarray(apart[np.isfinite(apart) & (apart > 0.0)])


def _two(recordings: Sequence[Recorded]) -> tuple[float, float, float, float]:
    """Where to look for two modes: mean of both, share and factor of the slow one, spread within.

    The responses of requests that met no other request are cut in two where the logarithms on both sides spread least.
    """
    alone = []
    for created, ended in recordings:
        last = np.maximum.accumulate(ended)
        alone.append((ended - created)[np.concatenate([[True], last[:-1] <= created[1:]])])
    logs = np.sort(np.log(np.concatenate(alone)))
    n = len(logs)
    cuts = np.arange(max(n // 50, 1), n - max(n // 50, 1))
    if not len(cuts):
        return float(np.exp(logs).mean()), 0.2, 5.0, 0.4
    sums, squares = np.cumsum(logs), np.cumsum(logs**2)
    below = squares[cuts - 1] - sums[cuts - 1] ** 2 / cuts
    above = squares[-1] - squares[cuts - 1] - (sums[-1] - sums[cuts - 1]) ** 2 / (n - cuts)
    cut = int(cuts[np.argmin(below + above)])
    usual, slow = float(np.exp(logs[:cut]).mean()), float(np.exp(logs[cut:]).mean())
    within = float(np.sqrt((below + above).min() / n))
    return float(np.exp(logs).mean()), 1.0 - cut / n, slow / usual, within


def _levels(recordings: Sequence[Recorded], station: ServiceStation, seed: int) -> ResponseLevels:
    """The level of the service time in each window, from mean responses and how they follow it.

    The variance between levels beyond that of chance is DerSimonian and Laird's (Controlled Clinical Trials 7, 1986).
    """
    random = np.random.default_rng(np.random.SeedSequence([seed, 0x6C766C73]))
    level, chance = [], []
    step = 0.05
    for created, ended in recordings:
        cuts = np.array_split(np.arange(len(created)), _WINDOWS)
        made = np.empty((REPEATS, 2, _WINDOWS))
        for k in range(len(made)):
            drawn = _draws(len(created), random)
            for side, factor in enumerate((1.0 - step, 1.0 + step)):
                rows = _responses(created, drawn, station, factor)
                made[k, side] = [np.log(rows[cut].mean()) for cut in cuts]
        slope = np.maximum((made[:, 1] - made[:, 0]).mean(axis=0) / (2.0 * step), 0.5)
        middle = made.mean(axis=1)
        real = np.log([(ended - created)[cut].mean() for cut in cuts])
        level += ((real - middle.mean(axis=0)) / slope).tolist()
        chance += (middle.var(axis=0, ddof=1) / slope**2).tolist()
    found, weight = np.array(level), 1.0 / np.maximum(np.array(chance), 1e-8)
    mean = float((weight * found).sum() / weight.sum())
    excess = float((weight * (found - mean) ** 2).sum()) - (len(found) - 1)
    variance = max(0.0, excess / float(weight.sum() - (weight**2).sum() / weight.sum()))
    return ResponseLevels(math.sqrt(variance), tuple(np.exp(found - mean).tolist()))


def _draws(count: int, random: np.random.Generator) -> Floats:
    """(4, count) random numbers: normal ones of services, even ones of both ways and of the mode."""
    modes = random.spawn(1)[0].random(count)
    return np.stack([random.standard_normal(count), random.random(count), random.random(count), modes])


def _responses(arrivals: Floats, draws: Floats, station: ServiceStation, factor: float = 1.0) -> Floats:
    variance = math.log1p(station.spread**2)
    mean = factor * station.service
    services = mean * np.exp(math.sqrt(variance) * draws[0] - 0.5 * variance)
    if station.slow_share > 0.0:
        slow = draws[3] < station.slow_share
        services *= np.where(slow, station.slow_times, 1.0) / (1.0 + station.slow_share * (station.slow_times - 1.0))
    there = arrivals + station.latency * draws[1]
    order = np.argsort(there, kind="stable")
    ends = np.empty(len(arrivals))
    ends[order] = _departures(there[order], services, station.servers, station.sharing, station.contention)
    return np.asarray(ends - arrivals + station.latency * draws[2])


@entry()
def _departures(arrivals: Floats, services: Floats, servers: int, sharing: bool, contention: float) -> Floats:
    """(n,) s when requests end that come at `arrivals` (n,), in order, and take `services` (n,) alone."""
    n = len(arrivals)
    ends = np.empty(n)
    left = services.copy()
    there = np.empty(n, np.int64)  # in service, or at a server in turn; the waiting ones follow
    count, came, now = 0, 0, 0.0
    while came < n or count > 0:
        busy = min(count, servers)
        served = count if sharing else busy
        rate = 0.0
        if count > 0:
            rate = 1.0 / (1.0 + contention * (busy - 1))
            if sharing:
                rate *= busy / count
        first, least = -1, np.inf
        for k in range(served):
            if left[there[k]] < least:
                first, least = k, left[there[k]]
        end = now + least / rate if first >= 0 else np.inf
        if came < n and arrivals[came] <= end:
            for k in range(served):
                left[there[k]] -= rate * (arrivals[came] - now)
            now = arrivals[came]
            there[count] = came
            count += 1
            came += 1
            continue
        for k in range(served):
            left[there[k]] -= least
        now = end
        ends[there[first]] = end
        for k in range(first, count - 1):
            there[k] = there[k + 1]
        count -= 1
    return ends
