"""Datacentres whose virtual machines are consolidated period by period.

    model = Datacentres(hosts, kinds, machines, utilisation, Settings(detector="mad"))
    model.advance(86400.0)
    model.ledger().cost

Every period: foresee the demand, set operating points, find over- and under-loaded hosts, select and
place machines, let them migrate, and account for what the period brings. Between two calls hosts may
fail and recover; that takes effect at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy

import numpy as np

from cosim.compiled.compiling import ready
from cosim.contract.branching import Figures
from cosim.contract.records import Floats, Ints
from cosim.engine.continuum.price import Bill, PlaceTariff, StepSeries, constant
from cosim.extensions.extcloudsim.datacentre import compatible, control, decide
from cosim.extensions.extcloudsim.datacentre.account import Period, PeriodOutcome, account
from cosim.extensions.extcloudsim.datacentre.books import DatacentreLedger, Open, PeriodCounts, Sums
from cosim.extensions.extcloudsim.datacentre.cooling import Cooling
from cosim.extensions.extcloudsim.datacentre.layout import HISTORY, LAN, Bools, Hosts, Kinds, Machines, Wan, owned
from cosim.extensions.extcloudsim.datacentre.quirks import SMALL
from cosim.extensions.extcloudsim.datacentre.settings import DatacentreSettings, DatacentreState
from cosim.extensions.extcloudsim.datacentre.sla import RULES, DeliveredService

Happening = tuple[float, int, Ints]  # s, 0 recover or 1 fail, hosts
_FIXED = (
    "settings", "hosts", "kinds", "machines", "tariffs", "caps", "cooling", "wan", "_utilisation", "_gpu_utilisation",
    "_life",
)  # fmt: skip


def local(places: int = 1) -> Wan:
    """Places joined as if by their own networks: 1 Gbit/s, no distance, no transfer cost."""
    shape = (places, places)
    return Wan(np.full(shape, LAN), np.zeros(shape), np.ones(shape), np.zeros(shape))


class Datacentres:
    """Hosts at one or several places, and the virtual machines on them."""

    def __init__(
        self,
        hosts: Hosts,
        kinds: Kinds,
        machines: Machines,
        utilisation: Floats,  # (machines, periods) of each machine's capacity; the last one holds on
        settings: DatacentreSettings | None = None,
        tariffs: Sequence[PlaceTariff] = (),  # per place
        *,
        wan: Wan | None = None,
        life: Floats | None = None,  # (machines, 2) s of arrival and departure
        at: Ints | None = None,  # (machines,) hosts to begin with, -1: to be placed
        gpu_utilisation: Floats | None = None,  # (machines, periods) of each machine's GPUs; default: `utilisation`
        caps: Sequence[StepSeries] = (),  # per place, W that its hosts may draw together; (): as much as they like
        cooling: Sequence[Cooling] = (),  # per place; (): nothing draws power but the hosts
    ) -> None:
        self.settings = settings or DatacentreSettings()
        hosts, kinds, machines = Hosts(*owned(hosts)), Kinds(*owned(kinds)), Machines(*owned(machines))
        self.hosts, self.kinds, self.machines = hosts, kinds, machines
        self.places = int(hosts.place.max()) + 1
        n, n_hosts = len(machines.mips), len(hosts.kind)
        if utilisation.ndim != 2 or len(utilisation) != n or utilisation.shape[1] == 0:
            raise ValueError(f"utilisation must have a row for each of {n} machines; its shape is {utilisation.shape}")
        if not (np.isfinite(utilisation).all() and utilisation.min() >= 0.0):
            raise ValueError("utilisation must be finite and not negative")
        self.tariffs = tuple(tariffs) or (PlaceTariff(),) * self.places
        if len(self.tariffs) != self.places:
            raise ValueError(f"there are {self.places} places and {len(self.tariffs)} tariffs")
        self.caps = tuple(caps) or (constant(math.inf),) * self.places
        if len(self.caps) != self.places:
            raise ValueError(f"there are {self.places} places and {len(self.caps)} caps")
        self.cooling = tuple(cooling)
        if len(self.cooling) not in (0, self.places):
            raise ValueError(f"there are {self.places} places, and {len(self.cooling)} are cooled")
        quirks = self.settings.quirks
        flat = wan is None or "wan-like-lan" in quirks
        self.wan = local(self.places) if flat or wan is None else Wan(*owned(wan))
        if "instant-off" in quirks:
            none = np.zeros(len(kinds.points))
            self.kinds = kinds._replace(resting=none, waking=none, waking_power=none)
        self._utilisation = np.ascontiguousarray(utilisation, np.float64)
        self._gpu_utilisation = self._utilisation if gpu_utilisation is None else gpu_utilisation
        if self._gpu_utilisation.shape != utilisation.shape:
            raise ValueError(f"gpu_utilisation must have the shape of utilisation, {utilisation.shape}")
        self._life = np.tile([0.0, math.inf], (n, 1)) if life is None else life
        self.time = 0.0
        self.period = 0  # number of the period that is under way
        self.up: Bools = np.ones(n_hosts, np.bool_)
        self.at: Ints = np.full(n, -1, np.int64) if at is None else np.array(at, np.int64)
        self.source: Ints = np.full(n, -1, np.int64)
        self.arrival: Floats = np.zeros(n)  # s, time at which a machine that is on its way arrives
        self.came: Ints = np.arange(n)  # order in which machines came to their hosts
        self._arrivals = n
        self.point: Ints = self.kinds.points[hosts.kind] - 1
        self.alive: Bools = np.zeros(n, np.bool_)
        self.backlog: Floats = np.zeros(n)  # capacity x s
        self._owed: Floats = np.zeros(n)  # of it what the present period is asked for, spread evenly over it
        self.crashed: Bools = np.zeros(n, np.bool_)  # without a host since theirs failed
        self.seen: list[Floats] = []  # capacity wanted in past periods, (machines,) each
        self.sums = Sums.none(n_hosts, n, self.places)
        self.counts = PeriodCounts(point_periods=np.zeros((n_hosts, self.kinds.frequency.shape[1]), np.int64))
        self._open = Open(n_hosts, n)
        self.bills = [Bill() for _ in range(self.places)]
        self.moves: list[tuple[int, int, int]] = []  # machine, from, to: of the present period
        self.power: Floats = np.zeros(n_hosts)  # W, mean of the last stretch
        self._gpu_power: Floats = np.zeros(n_hosts)  # W of it
        self.random = np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.settings.seed)))

    def copy(self) -> Datacentres:
        """The same present, to be continued apart; what does not change is shared, functions of one's own too."""
        return deepcopy(self, {id(one): one for one in (getattr(self, name) for name in _FIXED)})

    def quirk(self, name: str) -> bool:
        """Whether a defect of the peer is wanted."""
        return name in self.settings.quirks

    def utilisation(self, period: int) -> Floats:
        """(machines,) of each machine's capacity in a period; 0 for those that are not there."""
        column = min(period, self._utilisation.shape[1] - 1)
        return np.where(self.alive, self._utilisation[:, column], 0.0)

    def advance(self, until: float) -> None:
        """Simulate up to `until` s."""
        while self.time < until:
            # as a multiple, and nowhere as a sum: the two differ in the last bit, and the next period begins here
            over = (self.period + 1) * self.settings.period
            if self.time <= self.period * self.settings.period:
                self._begin()
                self._owed = self.backlog.copy()
            end = min(until, over)
            self._run(end)
            if end >= over:
                self._open.count(self.counts)
                self._open = Open(len(self.hosts.kind), len(self.machines.mips))
                self.seen.append(self.utilisation(self.period) * self.machines.mips)
                self.period += 1

    def fail(self, hosts: Ints) -> None:
        """Hosts fail now: their machines lose them and are placed anew at the next period."""
        self.up[hosts] = False
        hit = np.isin(self.at, hosts) & self.alive
        coming = hit & (self.arrival > self.time) & (self.source >= 0) & self.up[self.source]
        self.at[coming] = self.source[coming]  # its copy there is lost, the original still runs
        self.arrival[coming] = self.time
        self.source[coming] = -1
        hit &= ~coming
        gone = (self.source >= 0) & ~self.up[self.source] & (self.arrival > self.time)
        hit |= gone
        self.at[hit] = -1
        self.source[hit] = -1
        self.crashed[hit] = True
        if self.settings.recovery == "restart":
            self.sums.dropped += float(self.backlog[hit].sum())
            self.backlog[hit] = self._owed[hit] = 0.0

    def recover(self, hosts: Ints) -> None:
        """Hosts are repaired; they may take machines from the next period on."""
        self.up[hosts] = True

    def state(self, demand: Floats) -> DatacentreState:
        """What policies may look at."""
        there = self.at >= 0
        load = np.bincount(self.at[there], demand[there], len(self.hosts.kind)) / self.hosts.mips
        return DatacentreState(
            self.period, self.time, self.hosts, self.kinds, self.machines, self.at, demand, self.history(), load,
            self.point, self.up, self.prices(), self.cap(), self.random,
        )  # fmt: skip

    def history(self) -> Floats:
        """(HISTORY, machines) capacity wanted in the periods that can be looked back at, newest first."""
        made = np.zeros((HISTORY, len(self.machines.mips)))
        past = self.seen[-HISTORY:][::-1]
        if past:
            made[: len(past)] = past
        return made

    def prices(self) -> Floats:
        """(places,) currency/J of one more W of the hosts now, with what it takes to cool them."""
        drawn = np.bincount(self.hosts.place, self.power, self.places)
        factor = [1.0 + self._beside(place, 1.0, self.time) for place in range(self.places)]
        made = zip(self.tariffs, factor, drawn, strict=True)
        return np.array([f * one.marginal(f * float(w), self.time) for one, f, w in made])

    def _beside(self, place: int, joule: float, end: float) -> float:
        """J of cooling and power supply beside `joule` of a place's hosts, from now to `end` s."""
        return self.cooling[place].extra(joule, self.time, end) if self.cooling else 0.0

    def cap(self) -> Floats:
        """(places,) W, the least that each place may draw until the next period begins, less its GPUs; inf without."""
        end = (self.period + 1) * self.settings.period
        least = np.array([float(one.at(one.cuts(self.time, end)[:-1]).min(initial=math.inf)) for one in self.caps])
        worst = self.hosts.gpus * (self.hosts.gpu_idle + self.hosts.gpu_span)
        gpus = worst if self.settings.capping == "worst-case" else self._gpu_power
        return np.asarray(least - np.bincount(self.hosts.place, gpus, self.places), np.float64)

    def _begin(self) -> None:
        """The decisions at the beginning of a period."""
        alive = (self._life[:, 0] <= self.time) & (self.time < self._life[:, 1])
        left = self.alive & ~alive
        self.at[left] = self.source[left] = -1
        self.crashed[left] = False
        self.sums.dropped += float(self.backlog[left].sum())
        self.backlog[left] = 0.0
        new = alive & ~self.alive
        self.alive = alive
        self.moves = []
        homeless = np.flatnonzero(new & (self.at < 0))
        if self.settings.peer:
            compatible.begin(self, homeless)
            return
        if new.any():
            decide.admit(self, homeless)
        decide.consolidate(self, compatible.plainly)

    def move(self, machine: int, host: int, fresh: bool = False) -> None:
        """Send a machine to a host; `fresh` machines appear there at once."""
        origin = int(self.at[machine])
        here = self.hosts.place[origin] if origin >= 0 else self.hosts.place[host]
        there = self.hosts.place[host]
        empty = not np.any((self.at == host) & self.alive)
        kind = self.hosts.kind[host]
        seconds = 0.0
        if empty and not fresh:
            seconds += float(self.kinds.waking[kind])
            self._book_waking(host, seconds * float(self.kinds.waking_power[kind]))
        self.at[machine] = host
        self._arrivals += 1
        self.came[machine] = self._arrivals
        if fresh:
            return
        ram = float(self.machines.ram[machine])
        stake = float(self.machines.rate[machine] * self.machines.price[machine])
        self.moves.append((machine, origin, host))
        copied = ram / float(self.wan.bandwidth[here, there])
        if origin < 0 and self.crashed[machine]:
            seconds += self.settings.restart if self.settings.recovery == "restart" else copied
            self.sums.restarts += 1
            self.crashed[machine] = False
            self.arrival[machine] = self.time + seconds
            return
        self.sums.moves[machine] += 1
        self.sums.moved_mb += ram
        self.sums.link_energy += ram * self.settings.energy_per_mb
        self.sums.transfer[machine] += ram * float(self.wan.transfer_cost[here, there])
        self.sums.inter += int(here != there)
        if self.quirk("vanishing-migrants"):
            copied = self.settings.slot * (math.floor(math.floor(ram / LAN) / self.settings.slot) + 1)
        else:
            self.source[machine] = origin
        self.arrival[machine] = self.time + seconds + copied
        self.sums.migration[machine] += stake * copied * float(self.wan.factor[here, there])

    def _run(self, end: float) -> None:
        """Account for the stretch up to `end`, in which nothing is decided."""
        span = end - self.time
        machines, settings = self.machines, self.settings
        fresh = self.utilisation(self.period) * machines.mips * span
        only = self.quirk("request-only")
        wanted = fresh if only else fresh + self._owed * (span / settings.period)
        late = np.maximum(0.0, self.arrival - self.time)
        period = Period(
            at=self.at, source=np.where(late > 0.0, self.source, -1), arrival=late, work=wanted / span,
            degradation=settings.degradation, point=self.point, up=self.up,
            slots=max(1, math.ceil(span / settings.slot - 1e-9)), seconds=span, bounded=int(not only),
            fixed=int(self.quirk("fixed-allocation")), small=SMALL if self.quirk("small-loads") else 0.0,
        )  # fmt: skip
        outcome = account(self.hosts, self.kinds, machines, period)
        self._drive_gpus(outcome, period)
        self._book(outcome, wanted, fresh, span, end)
        self.backlog = np.zeros(len(wanted)) if only else np.maximum(0.0, fresh + self.backlog - outcome.done)
        self.source[self.arrival <= end] = -1
        self.time = end

    def _drive_gpus(self, o: PeriodOutcome, p: Period) -> None:
        """Add what GPUs draw to the energy of their hosts: idle + span u, as CloudSim's extension for GPUs has it.

        The law: Siavashi and Momtazpour 2019, doi 10.1007/s11227-018-2636-7. A GPU works for its machine where that
        runs, until it has moved; hosts that sleep have theirs off.
        """
        if not self.hosts.gpus.any():
            return
        column = min(self.period, self._gpu_utilisation.shape[1] - 1)
        used = np.where(self.alive, self.machines.gpus * np.clip(self._gpu_utilisation[:, column], 0.0, 1.0), 0.0)
        there = np.clip(p.seconds - p.arrival, 0.0, p.seconds)
        busy, awake = np.zeros(len(p.up)), o.active.copy()
        for host, seconds in ((p.at, there), (p.source, p.seconds - there)):
            on = (host >= 0) & (used > 0.0) & p.up[host]
            busy += np.bincount(host[on], (used * seconds)[on], len(busy))
            np.maximum.at(awake, host[on], seconds[on])
        joule = awake * self.hosts.gpus * self.hosts.gpu_idle + busy * self.hosts.gpu_span
        o.energy[:] += joule
        self.sums.gpu_energy += joule
        self.sums.gpu_busy += busy
        self._gpu_power = joule / p.seconds

    def _book_waking(self, host: int, joule: float) -> None:
        """Energy that a host uses now, to wake up."""
        place = int(self.hosts.place[host])
        price = self.tariffs[place].marginal(0.0, self.time)
        bill = self.tariffs[place].bill(1.0, self.time, self.time + 1e-9)
        extra = self._beside(place, joule, self.time)
        part = (joule + extra) / bill.energy
        self.bills[place] += Bill(joule + extra, bill.green * part, (joule + extra) * price, bill.carbon * part)
        self.sums.cooling[place] += extra
        self.sums.energy[host] += joule
        self.sums.wake_energy[host] += joule
        self.sums.energy_cost[host] += (joule + extra) * price

    def _book(self, o: PeriodOutcome, wanted: Floats, fresh: Floats, span: float, end: float) -> None:
        s, machines, settings = self.sums, self.machines, self.settings
        s.energy += o.energy
        self.power = o.energy / span
        by_place = np.bincount(self.hosts.place, o.energy, self.places)
        for place, energy in enumerate(by_place):
            extra = self._beside(place, float(energy), end)
            bill = self.tariffs[place].bill((float(energy) + extra) / span, self.time, end)
            self.bills[place] += bill
            s.cooling[place] += extra
            self._hold_to_cap(place, float(energy) / span, end)
            here = self.hosts.place == place
            if energy > 0.0:
                s.energy_cost[here] += o.energy[here] * (bill.cost / energy)
            elif extra > 0.0:
                s.energy_cost[here] += bill.cost / here.sum()
        if self.quirk("repriced-energy"):
            price = np.array([float(one.price.at(self.time)) for one in self.tariffs])
            s.energy_cost[:] = s.energy * price[self.hosts.place]
        s.busy += o.busy
        s.active += o.active
        s.short += o.short
        s.down += np.where(self.up, 0.0, span)
        away = np.where(self.alive, o.away, 0.0)
        s.away += away
        self._open.note(o, away, self.alive, self.source >= 0, self.point)
        stake = machines.rate * machines.price
        if not self.quirk("vanishing-migrants"):
            s.crash += stake * away
        s.paid += machines.price * np.where(self.alive, span - away, 0.0)
        service = DeliveredService(
            machines.rate, machines.price, np.where(self.alive, span, 0.0), o.overload, o.shortfall, o.headroom,
            wanted, o.done,
        )  # fmt: skip
        s.cramped += o.cramped
        s.memory += stake * (o.cramped if settings.penalty == "flat" else o.memory)
        rule = settings.penalty if callable(settings.penalty) else RULES[settings.penalty]
        s.overload += rule(service)
        s.asked += float(o.asked.sum())
        s.given += float(o.given.sum())
        s.wanted += float(fresh.sum())
        s.done += float(o.done.sum())
        if self.quirk("request-only"):
            s.dropped += float((wanted - o.done).sum())

    def _hold_to_cap(self, place: int, watts: float, end: float) -> None:
        """Note by how much a place's mean power from now to `end` s is above its cap."""
        cuts = self.caps[place].cuts(self.time, end)
        over = watts - self.caps[place].at(cuts[:-1])
        over = np.where(over > 1e-9 * watts, over, 0.0)
        self.sums.above[place] += float(np.diff(cuts)[over > 0.0].sum())
        self.sums.excess[place] += float(over @ np.diff(cuts))

    def ledger(self) -> DatacentreLedger:
        """The books at the present time; a period that is under way counts as one."""
        counts = deepcopy(self.counts)
        if self.time > self.period * self.settings.period:
            self._open.count(counts)
        kept = {**vars(deepcopy(self.sums)), **vars(counts)}
        return DatacentreLedger(**kept, bills=tuple(self.bills), waiting=float(self.backlog.sum()))


def branch(model: Datacentres, candidates: Sequence[Sequence[Happening]], horizon: float) -> Figures:
    """What becomes of the present within `horizon` s under what happens to hosts, to the bit as in a run.

    Figures are sums of `DatacentreLedger`: `energy` in J, `cost` and its part `penalty` in the currency of the prices,
    `migrations` and `restarts`, and capacity x s of work `done`, `dropped` and `waiting`. Raises `ValueError` for what
    happens at another time.
    """
    end, before, rows = model.time + horizon, _sums(model), []
    for course in candidates:
        one = model.copy()
        for at, fails, hosts in sorted(course, key=lambda happening: happening[:2]):
            if not model.time <= at <= end:
                raise ValueError(f"a candidate changes at {at:g} s, outside of {model.time:g} to {end:g} s")
            one.advance(at)
            (one.fail if fails else one.recover)(hosts)
        one.advance(end)
        rows.append({name: value - before[name] for name, value in _sums(one).items()})
    return Figures.of(rows)


def _sums(model: Datacentres) -> dict[str, float]:
    ledger = model.ledger()
    names = ("cost", "penalty", "migrations", "restarts", "done", "dropped", "waiting")
    energy = float(ledger.energy.sum() + ledger.cooling.sum())
    return {"energy": energy, **{name: float(getattr(ledger, name)) for name in names}}


def compiled() -> bool:
    """Whether the model starts without compiling (some 30 s once per version and machine)."""
    return ready(control.consolidate, account)
