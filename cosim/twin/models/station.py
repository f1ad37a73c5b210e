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
from numpy.typing import NDArray

from cosim.compiled.compiling import entry
from cosim.twin.fitting.nearest import REPEATS, Nearest, nearest, off, quantile, quantiles
from cosim.twin.search import Budget, Meter, cma_es
from cosim.twin.space import Parameter, Space
from cosim.twin.telemetry.quantities import spacings

Floats = NDArray[np.float64]
Recorded = tuple[Floats, Floats]  # (n,) s: when requests came, in order; when their answers were there

_SERVERS = (1, 2, 3, 4, 6, 8)  # tried: workers of a service on a machine of today
CLEARLY = 0.85  # of the misfit of a simpler station: then another is taken
_APART, _DEVIATIONS = 3.0, 2.5  # times as long as the first mode is the second one, and that apart
_AGAIN = 0.97  # of the misfit of fewer servers: below it more are tried
_RUNS = 160  # of a search
_WAY = 0.4  # of the median response, at most: a longer way looks like servers without end
_SEEDS, _FRESH = 3, 12  # of a search; of the choice between its answers
_LEVELS = (np.arange(40) + 0.5) / 40  # quantiles: one per request of the smallest table
_SPACED, _AHEAD = 40, 0.05  # times between answers that are needed; of logarithms, over which slopes are taken
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
    """The station that is nearest, and how near."""

    station: ServiceStation
    levels: ResponseLevels
    misfit: float  # mean distance of quantiles of the response over their mean
    others: tuple[tuple[ServiceStation, float], ...]  # what was tried, and by how many deviations it is off


def identify(recordings: Sequence[Recorded], *, seed: int = 1, servers: Sequence[int] = _SERVERS) -> Identified:
    """The station that makes all `recordings`. Raises `ValueError` for fewer than 20 requests in one of them."""
    if not recordings or min(len(created) for created, _ in recordings) < 20:
        raise ValueError("a recording needs 20 requests or more")
    figures = _Figures(recordings, seed)
    tried: list[_Trial] = []

    def fitted(servers: int, *, sharing: bool, contention: bool, modes: bool = False) -> _Trial:
        one, _ = _fitted(recordings, servers, sharing, contention=contention, seed=seed, modes=modes)
        found = figures.nearest(one)
        if modes:  # the modes of requests that met no other request are a second place to begin
            service, share, times, spread = _two(recordings)
            cut = replace(one, service=service, spread=spread, slow_share=share, slow_times=times)
            found = min(found, figures.nearest(cut), key=lambda each: each.misfit)
        tried.append(found)
        return found

    for sharing in (False, True):
        last = math.inf
        for count in servers:
            away = fitted(count, sharing=sharing, contention=False).off
            if count > 1:
                away = min(away, fitted(count, sharing=sharing, contention=True).off)
                if away > _AGAIN * last:
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
    others = tuple((one.station, one.off) for one in tried)
    return Identified(chosen, _levels(recordings, chosen, seed), _misfit(recordings, chosen, seed), others)


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


def _fitted(
    recordings: Sequence[Recorded], servers: int, sharing: bool, *, contention: bool, seed: int, modes: bool = False
) -> tuple[ServiceStation, float]:
    """The best station of a kind, and its misfit."""
    lone = min(float(np.median(ended - created)) for created, ended in recordings)
    middle, share, times, within = 0.8 * lone, 0.2, 5.0, 0.4
    if modes:
        middle, share, times, within = _two(recordings)
    most = (6.0 if modes else 1.6) * lone
    space = Space([
        Parameter("service", 0.1 * lone, most, scale="log", start=float(np.clip(middle, 0.1 * lone, most))),
        Parameter("spread", 0.02, 2.5, scale="log", start=float(np.clip(within, 0.02, 2.5))),
        Parameter("latency", 0.0, _WAY * lone, start=0.1 * lone),
        *([Parameter("share", 0.02, 0.6, scale="log", start=float(np.clip(share, 0.02, 0.6)))] if modes else []),
        *([Parameter("times", 1.5, 40.0, scale="log", start=float(np.clip(times, 1.5, 40.0)))] if modes else []),
        *([Parameter("contention", 0.02, 1.5, start=0.3)] if contention else []),
    ])  # fmt: skip
    random = np.random.default_rng(np.random.SeedSequence([seed, 0x73746174]))
    measured = _Measured(recordings, random, _SEEDS)

    def station(values: Floats) -> ServiceStation:
        service, spread, latency = (float(value) for value in values[:3])
        share, times = (float(values[3]), float(values[4])) if modes else (0.0, 1.0)
        slowed = float(values[-1]) if contention else 0.0
        return ServiceStation(servers, sharing, service, spread, latency, slowed, share, times)

    def misfits(units: Floats) -> Floats:
        return np.array([measured.misfit(station(values)) for values in space.values(units)])

    meter = Meter(misfits, Budget(_RUNS * (1 + contention)))
    found = cma_es(meter, space.units(space.start)[0], random, restarts=1)
    return station(space.values(found.units[None])[0]), found.loss


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """A station and how far the recordings are from what it makes."""

    station: ServiceStation
    off: float  # root mean square of the deviations, in those that it has by chance
    misfit: float  # under fresh draws
    nearest: Nearest


class _Figures:
    """Quantiles of responses and of the times between answers, and what stations make of them by the same draws."""

    def __init__(self, recordings: Sequence[Recorded], seed: int) -> None:
        self._recordings, self._seed = recordings, seed
        random = np.random.default_rng(np.random.SeedSequence([seed, 0x66696775]))
        self._draws = [[_draws(len(created), random) for created, _ in recordings] for _ in range(2 * REPEATS)]
        self._spaced = [_spaced(created, ended - created).size >= _SPACED for created, ended in recordings]
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
        found = nearest(made, self._real, start, low, high, ahead=_AHEAD)
        # Quantiles of a law of two narrow modes jump: steps may lead astray from where the search has been.
        misfit = _misfit(self._recordings, at(found.point), self._seed)
        if CLEARLY * misfit > (before := _misfit(self._recordings, station, self._seed)):
            found, misfit = nearest(made, self._real, start, low, high, ahead=_AHEAD, steps=0), before
        there = at(found.point)
        return _Trial(there, off(self._made(there), self._real, found.roots), misfit, found)


def _spaced(created: Floats, responses: Floats) -> Floats:
    apart = spacings(created, responses)
    return np.asarray(apart[np.isfinite(apart) & (apart > 0.0)])


class _Measured:
    """Reference for stations: quantiles and rates of answers of all recordings, with the same draws."""

    def __init__(self, recordings: Sequence[Recorded], random: np.random.Generator, seeds: int) -> None:
        self._recordings = recordings
        self._draws = [[_draws(len(created), random) for created, _ in recordings] for _ in range(seeds)]
        self._quantiles = [quantile(ended - created, _LEVELS) for created, ended in recordings]
        self._flow = [_flow(created, ended) for created, ended in recordings]

    def misfit(self, station: ServiceStation) -> float:
        total = 0.0
        for draws in self._draws:
            for (created, _), drawn, real, rates in zip(
                self._recordings, draws, self._quantiles, self._flow, strict=True
            ):
                responses = _responses(created, drawn, station)
                total += float(np.abs(quantile(responses, _LEVELS) - real).mean() / real.mean())
                total += _apart(_flow(created, created + responses), rates)
        return total / (len(self._draws) * len(self._recordings))


def _misfit(recordings: Sequence[Recorded], station: ServiceStation, seed: int) -> float:
    """The misfit under draws that no search has seen."""
    random = np.random.default_rng(np.random.SeedSequence([seed, 0x66726573]))
    return _Measured(recordings, random, _FRESH).misfit(station)


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
        made = np.empty((24, 2, _WINDOWS))
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


_STATES = np.array([1, 2, 3, 4, 6, 9, 14, 22, 10**9])  # requests under way, in groups


def _flow(created: Floats, ended: Floats) -> Floats:
    """(2, groups) how many answers came while so many requests were under way, and s that so many were."""
    times = np.concatenate([created, ended])
    step = np.repeat([1, -1], len(created))
    order = np.argsort(times, kind="stable")
    under_way = np.cumsum(step[order])[:-1]
    lengths = np.diff(times[order])
    group = np.searchsorted(_STATES, under_way, side="right") - 1
    groups = len(_STATES) - 1
    busy = group >= 0
    answered = busy & (step[order][1:] < 0)
    spent = np.bincount(group[busy], lengths[busy], groups)
    return np.stack([np.bincount(group[answered], minlength=groups).astype(np.float64), spent])


def _apart(made: Floats, real: Floats) -> float:
    """How far rates of answers are apart, by how many requests are under way; weighted by how many were answered."""
    kept = (real[0] >= 5) & (made[0] >= 5)
    if not kept.any():
        return 0.0
    off = np.abs(np.log(made[0, kept] / made[1, kept]) - np.log(real[0, kept] / real[1, kept]))
    return float((off * real[0, kept]).sum() / real[0].sum())


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
