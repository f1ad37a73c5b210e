"""The rules of the interval model once more, written for reading: objects, lists, no cleverness.

Nothing here comes from `cosim.extensions.cosco.interval` but the names of the quirks. The containers to come
are given as rows; hosts and profiles as plain records.
"""

import math
from dataclasses import dataclass, field


@dataclass
class Host:
    number: int
    mips: float
    ram: float
    disk: float
    rates: tuple  # MB/s: memory read, write, disk read, write
    up: float
    down: float
    latency: float
    price: float
    power: list
    on: bool = True
    used: float = 0.0
    joules: float = 0.0
    energy: float = 0.0


@dataclass
class Profile:
    samples: list  # of (MIPS, RAM, RAM read, RAM write, disk read, disk write)
    peak: float
    disk: float


@dataclass
class Container:
    number: int
    created: int
    profile: Profile
    work: float
    deadline: float
    start: int = 0
    host: Host | None = None
    done: float = 0.0
    running: float = 0.0
    transfer: float = 0.0
    left: float = 0.0
    finish: float | None = None
    rate: float = 0.0


@dataclass
class Reference:
    hosts: list
    profiles: list
    rows: list  # (interval of creation, profile, work, deadline), by interval
    quirks: frozenset
    length: float
    router: float
    slot_count: int
    overhead: float = 0.0
    switch_off: bool = False
    boot: float = 0.0
    interval: int = 0
    made: int = 0
    queue: list = field(default_factory=list)
    ended: list = field(default_factory=list)  # (container, finish, response, late)

    def __post_init__(self):
        self.slots = [None] * self.slot_count
        self.open()

    # -- what containers want and hosts have ----------------------------------------------------

    def sample(self, c):
        return c.profile.samples[(self.interval - c.start) % len(c.profile.samples)]

    def base(self, c):
        return self.sample(c)[0] if c.done < c.work else 0.0

    def on(self, host):
        return [c for c in self.slots if c is not None and c.host is host]

    def load(self, host):
        if "first-task-load" in self.quirks:
            first = next((c for c in self.slots if c is not None), None)
            return self.base(first) * len(self.on(host)) if first else 0.0
        return sum((self.base(c) for c in self.on(host)), 0.0)

    def fits(self, c, host):
        there = self.on(host)
        good = self.base(c) <= host.mips - self.load(host)
        good &= self.sample(c)[1] <= host.ram - sum((self.sample(o)[1] for o in there), 0.0)
        good &= c.profile.disk <= host.disk - sum((o.profile.disk for o in there), 0.0)
        if "rates-unchecked" not in self.quirks:
            for k, limit in enumerate(host.rates):
                good &= sum((self.sample(o)[2 + k] for o in there), self.sample(c)[2 + k]) <= limit
        return good

    def rates(self, host, members):
        """MIPS of each of `members`, who are on the host and may run."""
        if not members:
            return []
        total = sum((self.base(c) for c in members), 0.0)
        if "first-task-load" in self.quirks:
            total = self.load(host)
        spare = host.mips - total
        if spare < 0:
            if "overload-stops" in self.quirks:
                return [0.0 for _ in members]
            return [min(c.profile.peak, self.base(c) * host.mips / total) for c in members]
        if "lost-spare" in self.quirks:
            return [min(c.profile.peak, self.base(c) + spare / len(members)) for c in members]
        # the smallest wishes are met first, each at most with an equal part of what is left
        extra = {}
        for count, c in enumerate(sorted(members, key=lambda c: c.profile.peak - self.base(c))):
            extra[c.number] = min(max(0.0, c.profile.peak - self.base(c)), spare / (len(members) - count))
            spare -= extra[c.number]
        return [min(c.profile.peak, self.base(c) + extra[c.number]) for c in members]

    def watts(self, host, utilisation):
        at = min(max(utilisation, 0.0), 1.0) * 10
        low = min(int(at), 9)
        return host.power[low] + (at - low) * (host.power[low + 1] - host.power[low])

    # -- one interval ---------------------------------------------------------------------------

    def open(self):
        created = self.interval
        self.interval += 1
        self.row = dict.fromkeys(("arrived", "completed", "late", "response", "wait", "transfer"), 0.0)
        self.row |= dict.fromkeys(("started", "migrated", "refused", "energy", "cost", "utilisation"), 0.0)
        if "whole-intervals" in self.quirks:
            self.retire()
        while self.made < len(self.rows) and self.rows[self.made][0] <= created:
            _, profile, work, deadline = self.rows[self.made]
            if "deadline-twice" in self.quirks:
                deadline += created
            self.queue.append(Container(self.made, created, self.profiles[int(profile)], work, deadline))
            self.made += 1
            self.row["arrived"] += 1
        for k, held in enumerate(self.slots):
            if held is None and self.queue:
                self.slots[k] = self.queue.pop(0)
                self.slots[k].start = self.interval

    def step(self, decisions):
        pairs = [(self.slots[s], self.hosts[h]) for s, h in decisions if self.slots[s].host is not self.hosts[h]]
        for host in self.hosts:
            host.used = host.joules = 0.0
        if "order-dependent" in self.quirks:
            self.in_order(pairs)
        else:
            self.at_once(pairs)
        back = [c for c in self.slots if c is not None and c.host is None]
        self.queue = sorted(back, key=lambda c: c.number) + self.queue
        self.slots = [None if c is None or c.host is None else c for c in self.slots]
        self.meter()
        self.to_come = {}
        if not self.quirks:
            self.to_come = {"present": self.present(), "ahead": sum(self.ahead(host) for host in self.hosts)}
        if "whole-intervals" not in self.quirks:
            self.retire()
        self.row["active"] = sum(c is not None for c in self.slots)
        self.row["waiting"] = len(self.queue)
        row = self.row | self.to_come
        self.open()
        return row

    def source(self, c):
        if c.host is None and "last-host-source" in self.quirks:
            return self.hosts[-1]
        return c.host

    def transfer(self, c, source, target, moves):
        bandwidth = min(target.down / sum(t is target for _, t in moves), self.router / len(moves))
        latency = target.latency
        if source is not None:
            bandwidth = min(bandwidth, source.up / sum(s is source for s, _ in moves))
            latency = abs(source.latency - target.latency)
        return self.sample(c)[1] / bandwidth + latency + self.overhead

    def move(self, c, target):
        self.row["started" if c.host is None else "migrated"] += 1
        c.host = target

    def leaving(self, c, counted):
        """How many of the counted pairs leave where container c comes from, c included."""
        anew, apart = "moves-recounted" in self.quirks, "new-counted-apart" in self.quirks

        def origin(other, before):
            host = other.host if anew else before
            return host if apart else (self.hosts[-1] if host is None and "last-host-source" in self.quirks else host)

        mine = next(origin(other, before) for other, _, before in counted if other is c)
        return sum(origin(other, before) is mine for other, _, before in counted)

    def in_order(self, pairs):
        counts = "refused-moves-count" in self.quirks
        counted = [(c, t, c.host) for c, t in pairs if counts or self.fits(c, t)]
        ran = set()
        for c, target in pairs:
            if not self.fits(c, target):
                self.row["refused"] += 1
                continue
            source = self.source(c)
            if all(other is not c for other, _, _ in counted):
                counted.append((c, target, c.host))
            bandwidth = min(target.down / sum(t is target for _, t, _ in counted), self.router / len(counted))
            latency = target.latency
            if source is not None:
                bandwidth = min(bandwidth, source.up / self.leaving(c, counted))
                latency = abs(source.latency - target.latency)
            seconds = self.sample(c)[1] / bandwidth + latency + self.overhead
            self.move(c, target)
            ran.add(c.number)
            self.run_alone(c, seconds)
        for c in self.slots:
            if c is not None and c.host is not None and c.number not in ran:
                self.run_alone(c, 0.0)

    def run_alone(self, c, seconds):
        if "negative-run-time" in self.quirks:
            spent = seconds
        else:
            c.left += seconds
            spent = min(c.left, self.length)
            c.left -= spent
        c.transfer += spent
        span = self.length - spent
        keeps = "finished-keeps-share" in self.quirks
        members = [o for o in self.on(c.host) if keeps or o.done < o.work]
        c.rate = dict(zip([o.number for o in members], self.rates(c.host, members), strict=True)).get(c.number, 0.0)
        time = min(span, (c.work - c.done) / c.rate if c.rate > 0 else 0.0)
        open_before = c.done < c.work
        c.running += time
        c.done += c.rate * time
        if open_before and c.done >= c.work:
            c.finish = (self.interval - 1) * self.length + (self.length - span) + time
        c.host.used += c.rate * time / self.length

    def at_once(self, pairs):
        counts = "refused-moves-count" in self.quirks
        moves, accepted = [], []
        for c, target in sorted(pairs, key=lambda pair: pair[0].number):
            source = self.source(c)
            fit = self.fits(c, target)
            if fit or counts:
                moves.append((source, target))
            if fit:
                self.move(c, target)
                accepted.append((c, source, target))
            else:
                self.row["refused"] += 1
        for c, source, target in accepted:
            c.left += self.transfer(c, source, target, moves)
        for host in self.hosts:
            self.run_host(host)

    def run_host(self, host):
        there = self.on(host)
        if not there:
            host.joules = 0.0 if self.switch_off else self.watts(host, 0.0) * self.length
            return
        boot = 0.0 if host.on else self.boot
        begin = (self.interval - 1) * self.length
        offset, beyond = {}, {}
        for c in there:
            offset[c.number] = min(max(boot, c.left), self.length)
            spent = c.left if "negative-run-time" in self.quirks else min(c.left, self.length)
            c.left -= spent
            c.transfer += spent
            beyond[c.number] = max(0.0, spent - self.length)
        time = 0.0
        while time < self.length:
            members = [c for c in there if offset[c.number] <= time and c.done < c.work]
            rates = self.rates(host, members)
            later = [offset[c.number] - time for c in there if offset[c.number] > time]
            ends = [(c.work - c.done) / rate for c, rate in zip(members, rates, strict=True) if rate > 0]
            span = min([self.length - time, *later, *ends])
            host.joules += self.watts(host, sum(rates) / host.mips) * span
            host.used += sum(rates) * span / self.length
            for c, rate in zip(members, rates, strict=True):
                c.running += span
                if rate > 0 and (c.work - c.done) / rate <= span:
                    c.done, c.finish = c.work, begin + time + span
                else:
                    c.done += rate * span
            time += span
        for c in there:
            if beyond[c.number]:
                members = [o for o in there if o.done < o.work]
                rates = dict(zip([o.number for o in members], self.rates(host, members), strict=True))
                c.running -= beyond[c.number]
                c.done -= rates.get(c.number, 0.0) * beyond[c.number]

    def meter(self):
        for host in self.hosts:
            there = self.on(host)
            if "finished-keeps-share" in self.quirks:
                host.used = sum(self.rates(host, there))
            if "truncated-mips" in self.quirks:
                host.used = float(int(host.used))
            if self.quirks & {"finished-keeps-share", "truncated-mips", "order-dependent"}:
                host.joules = self.watts(host, host.used / host.mips) * self.length
            host.on = bool(there) or not self.switch_off
            if not host.on:
                host.joules = 0.0
            host.energy += host.joules
            self.row["energy"] += host.joules
            self.row["utilisation"] += host.used / host.mips / len(self.hosts)
            self.row["cost"] += host.on * host.price * self.length / 3600.0

    def present(self):
        """Container seconds of the interval that has passed."""
        begin = (self.interval - 1) * self.length
        spans = [
            self.length if c.done < c.work or c.finish is None else max(0.0, c.finish - begin)
            for c in self.slots if c is not None
        ]  # fmt: skip
        return sum(spans) + len(self.queue) * self.length

    def ahead(self, host):
        """J from now on at the rates of the end: the load's, and the idle power of a host that will be off."""
        there = [c for c in self.on(host) if c.done < c.work]
        begun = [c for c in there if c.left == 0]
        rates = {c.number: rate for c, rate in zip(begun, self.rates(host, begun), strict=True) if rate > 0}
        known = [(c, rates.get(c.number, self.base(c))) for c in there if rates.get(c.number, self.base(c)) > 0]
        if not known:
            return 0.0
        total = sum(rate for _, rate in known)
        joules = self.watts(host, total / host.mips) - self.watts(host, 0.0)
        joules *= sum(c.work - c.done for c, _ in known) / total
        longest = max((c.work - c.done) / rate + c.left for c, rate in known)
        return joules + self.watts(host, 0.0) * longest * self.switch_off

    def retire(self):
        for k, c in enumerate(self.slots):
            if c is None or c.host is None:
                continue
            if not (self.base(c) == 0 if "zero-retires" in self.quirks else c.done >= c.work):
                continue
            finish = (self.interval - 1) * self.length if c.finish is None else c.finish
            response = finish - c.created * self.length
            late = response > c.deadline * self.length
            wait = c.start - 1 - c.created
            if "whole-intervals" in self.quirks:
                late = self.interval > c.created + c.deadline
                wait += 1
            if "execution-only-response" in self.quirks:
                response = c.running + c.transfer
            for name, value in (("completed", 1), ("late", late), ("response", response), ("wait", wait)):
                self.row[name] += value
            self.row["transfer"] += c.transfer
            self.ended.append((c.number, finish, response, bool(late)))
            self.slots[k] = None


def jain(values):
    return sum(values) ** 2 / (len(values) * math.fsum(v * v for v in values))
