"""The rules of the place-based models in plain Python, event by event, for comparison on small systems.

Nothing is shared with the kernel but the numbers drawn and the published tables: a list of future
events, remaining work per task, counters by counting. Quirks: those of the models' rules; processors
are continuous.
"""

import bisect
import heapq
import itertools
import math

from cosim.engine.continuum.throughput import WAN_KBPS, WLAN_KBPS

M = (1 << 64) - 1
STEP, SALT = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03
PURPOSES = ["gap", "upload", "download", "length", "application", "start", "home", "stay", "next", "tier", "pick"]


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M
    return z ^ (z >> 31)


def stream(seed, slot):
    key = mix((seed + STEP) & M)
    for number in (slot, 0, 0):
        key = mix(key ^ ((number * STEP + SALT) & M))
    return key


def uniform(key, n, purpose):
    p = PURPOSES.index(purpose) + 1
    return (mix(mix((key + n * STEP) & M) ^ ((p * SALT) & M)) >> 11) * 2.0**-53


def exponential(key, n, purpose):
    return -math.log1p(-uniform(key, n, purpose))


class Machine:
    def __init__(self, vm, tier, place):
        self.vm, self.tier, self.place = vm, tier, place
        self.left, self.since, self.version, self.reserved = {}, 0.0, 0, 0.0

    def speed(self):
        return self.vm.mips * min(1.0, self.vm.cores / len(self.left)) if self.left else self.vm.mips


class Oracle:
    def __init__(self, study, seed):
        self.s, self.queue, self.serial = study, [], itertools.count()
        self.now, self.rows, self.machines = 0.0, [], []
        for p, place in enumerate(study.places):
            self.machines += [Machine(vm, "edge", p) for host in place.hosts for vm in host]
        self.edge = list(self.machines)
        self.cloud = [Machine(vm, "cloud", None) for host in study.cloud for vm in host]
        self.cursor, self.cursors = -1, [-1] * len(study.places)
        self.wlan, self.wan = [0] * len(study.places), [0] * len(study.places)
        self.trips = []
        self.own = {}
        self.keys = [stream(seed, d) for d in range(study.devices)]
        for d in range(study.devices):
            self.trips.append(self.trip(d))
            self.at(10.0, self.first, d)
        if self.basic():
            return
        self.man_count = [0, 0]
        rates = [a.usage / 100 / a.interarrival * a.active / (a.active + a.idle) for a in study.applications]
        total = sum(rates)
        self.man_rate = [study.devices * total] * 2
        self.man_kb = [
            sum(r * getattr(a, what) for r, a in zip(rates, study.applications, strict=True)) / total
            for what in ("upload", "download")
        ]
        self.man_sum = [0.0, 0.0]
        self.at(15.0, self.estimate)

    def basic(self):
        return self.s.model in ("app1", "tutorial5")

    def at(self, time, what, *arguments):
        heapq.heappush(self.queue, (time, next(self.serial), what, arguments))

    def run(self):
        while self.queue and self.queue[0][0] <= self.s.duration:
            self.now, _, what, arguments = heapq.heappop(self.queue)
            what(*arguments)
        return self.rows

    # devices

    def trip(self, d):
        """(time, place) of every move up to well after the end."""
        key, places = self.keys[d], self.s.places
        p = int(uniform(key, 0, "home") * len(places))
        stays, time, n = [(0.0, p)], 10.0, 0
        while time < self.s.duration + 60 and len(places) > 1:
            time += self.s.dwell[places[p].attractiveness] * exponential(key, n, "stay")
            q = int(uniform(key, n, "next") * (len(places) - 1))
            p = q + 1 if q >= p else q
            stays.append((time, p))
            n += 1
        return stays

    def where(self, d, time):
        return self.trips[d][bisect.bisect_right(self.trips[d], (time, math.inf)) - 1][1]

    def present(self, p):
        return sum(self.where(d, self.now) == p for d in range(self.s.devices))

    def first(self, d):
        x = 100 * uniform(self.keys[d], 0, "application")
        shares = itertools.accumulate(a.usage for a in self.s.applications)
        chosen = next((a for a, share in enumerate(shares) if x < share), None)
        if chosen is not None:
            a = self.s.applications[chosen]
            begin = 10.0 + (10.0 + a.active - 10.0) * uniform(self.keys[d], 0, "start")
            self.arrivals(d, chosen, begin)

    def arrivals(self, d, chosen, begin):
        a, n, count, at = self.s.applications[chosen], 0, 0, begin
        while at <= self.s.duration:
            at += a.interarrival * exponential(self.keys[d], n, "gap")
            n += 1
            if at > begin + a.active:
                begin += a.active + a.idle
                at = begin
                continue
            self.at(at, self.submit, d, chosen, count)
            count += 1

    # links

    def mm1(self, services, requests, extra, limit):
        if services <= requests:
            return -1.0
        delay = 1 / (services - requests) + extra
        return -1.0 if delay > limit else delay

    def link(self, which, p, kb, up):
        s = self.s
        if not self.basic():
            table, gain = (WLAN_KBPS, 3.0) if which == "wlan" else (WAN_KBPS, 1.0)
            n = (self.wlan if which == "wlan" else self.wan)[p]
            return 8 * kb / (table[n] * gain) if n < len(table) else -1.0
        rates = [a.usage / 100 / a.interarrival * a.active / (a.active + a.idle) for a in s.applications]
        what = "upload" if up else "download"
        mean = sum(r * getattr(a, what) for r, a in zip(rates, s.applications, strict=True)) / sum(rates)
        if which == "wan":
            rates = [r * a.cloud_probability / 100 for r, a in zip(rates, s.applications, strict=True)]
        n = self.present(p) if s.model == "app1" else s.devices // len(s.places)
        services = getattr(s.links, which) / (8000 * mean)
        return self.mm1(services, n * sum(rates), s.links.wan_propagation if which == "wan" else 0.0, 5.0)

    def man(self, kb, up):
        k = 0 if up else 1
        self.man_count[k] += 1
        self.man_sum[k] += kb
        kbps = self.s.links.man / 1e3 or 1300 * 1024
        return self.mm1(kbps / (8 * self.man_kb[k]), self.man_rate[k], self.s.links.lan_delay, 15.0)

    def estimate(self):
        for k in range(2):
            self.man_rate[k] = self.man_count[k] / 5
            if self.man_count[k]:
                self.man_kb[k] = self.man_sum[k] / self.man_count[k]
        self.man_count, self.man_sum = [0, 0], [0.0, 0.0]
        self.at(self.now + 5, self.estimate)

    # machines

    def need(self, task, machine):
        return getattr(task["app"], f"load_{machine.tier}")

    def load(self, machine):
        return sum(self.need(task, machine) for task, _ in machine.left.values())

    def free(self, machine):
        return 100 - self.load(machine) - machine.reserved

    def fits(self, task, machine):
        return self.need(task, machine) <= self.free(machine) + 1e-9

    def emptiest(self, task, machines):
        best = max(machines, key=self.free, default=None)
        return best if best and self.fits(task, best) else None

    def next_fit(self, task, p):
        here = [m for m in self.edge if m.place == p]
        for _ in here:
            self.cursors[p] = (self.cursors[p] + 1) % len(here)
            if self.fits(task, here[self.cursors[p]]):
                return here[self.cursors[p]]
        return None

    def choose_edge(self, task):
        everywhere = self.s.architecture == "two-tier-with-eo"
        candidates = [m for m in self.edge if everywhere or m.place == task["place"]]
        fitting = [m for m in candidates if self.fits(task, m)]
        policy = self.s.policy
        if policy == "next-fit" and not everywhere:
            return self.next_fit(task, task["place"])
        if policy == "next-fit":
            for _ in self.s.places:
                self.cursor = (self.cursor + 1) % len(self.s.places)
                found = self.next_fit(task, self.cursor)
                if found:
                    return found
            return None
        if policy == "random-fit":
            return fitting[int(uniform(task["key"], task["number"], "pick") * len(fitting))] if fitting else None
        if policy == "worst-fit":
            return max(fitting, key=self.free, default=None)
        if policy == "best-fit":
            return min(fitting, key=self.free, default=None)
        return fitting[0] if fitting else None

    def elapse(self, machine):
        gone = machine.speed() * (self.now - machine.since)
        machine.left = {k: (task, left - gone) for k, (task, left) in machine.left.items()}
        machine.since = self.now

    def enter(self, task, machine):
        task["arrived"], task["vm"] = self.now, machine
        self.elapse(machine)
        machine.left[task["id"]] = (task, task["length"])
        self.predict(machine)

    def predict(self, machine):
        machine.version += 1
        if machine.left:
            soonest = min(left for _, left in machine.left.values())
            self.at(self.now + max(soonest, 0.0) / machine.speed(), self.done, machine, machine.version)

    def done(self, machine, version):
        if version != machine.version:
            return
        self.elapse(machine)
        first = min(machine.left, key=lambda k: machine.left[k][1])
        task, _ = machine.left.pop(first)
        self.predict(machine)
        self.back(task)

    # tasks

    def submit(self, d, chosen, number):
        a, key = self.s.applications[chosen], self.keys[d]
        task = {
            "id": next(self.serial), "device": d, "app": a, "key": key, "number": number, "created": self.now,
            "place": self.where(d, self.now), "wlan": 0.0, "man": 0.0, "wan": 0.0, "vm": None,
            **{what: getattr(a, what) * exponential(key, number, what) for what in ("upload", "download", "length")},
        }  # fmt: skip
        if self.basic():
            x = 100 * uniform(key, number, "tier")
            away = self.s.architecture != "single-tier" and x < a.cloud_probability
            return self.leave(task, "cloud" if away else "edge", None)
        if self.s.model in ("app3", "app6"):
            own = self.own.setdefault(d, Machine(self.s.device_vm[0], "mobile", None))
            if self.s.policy != "only-edge" and (self.s.policy == "only-mobile" or self.fits(task, own)):
                if self.fits(task, own):
                    return self.enter(task, own)
                return self.end(task, "capacity")
            return self.leave(task, "edge", self.emptiest(task, self.edge))
        probe = self.link("wan", task["place"], 128.0, True)
        busy = sum(map(self.load, self.edge)) / len(self.edge)
        wide, full = probe > 0 and 1 / probe > 6, busy > 80
        away = {"network-based": wide, "utilization-based": full, "hybrid": wide and full}[self.s.policy]
        return self.leave(task, "cloud" if away else "edge", self.emptiest(task, self.cloud if away else self.edge))

    def hop(self, task, up, tier):
        """Delays of the radio hop; None and the lost link when there is no capacity."""
        p = task["place"] if up else self.where(task["device"], self.now)
        kb = task["upload" if up else "download"]
        wlan = self.link("wlan", p, kb, up) if tier == "edge" or self.basic() else 0.0
        wan = self.link("wan", p, kb, up) if tier == "cloud" else 0.0
        lost = (
            "wan" if tier == "cloud" and wan <= 0 else "wlan" if (tier == "edge" or self.basic()) and wlan <= 0 else ""
        )
        return p, wlan, wan, lost

    def leave(self, task, tier, machine):
        p, wlan, wan, lost = self.hop(task, True, tier)
        if lost:
            return self.end(task, lost)
        if not self.basic():
            if machine is None:
                return self.end(task, "capacity")
            machine.reserved += self.need(task, machine)
        task["wlan"], task["wan"] = wlan, wan
        (self.wan if tier == "cloud" else self.wlan)[p] += 1
        return self.at(self.now + wlan + wan, self.arrive, task, tier, machine, p)

    def arrive(self, task, tier, machine, p):
        (self.wan if tier == "cloud" else self.wlan)[p] -= 1
        if self.basic():
            machine = self.emptiest(task, self.cloud) if tier == "cloud" else self.choose_edge(task)
            if machine is None:
                return self.end(task, "capacity")
            machine.reserved += self.need(task, machine)
        delay = 0.0
        if tier == "edge" and machine.place != task["place"]:
            if self.basic():
                delay = self.s.links.lan_delay
            elif self.s.model in ("app2", "app4"):
                delay = self.man(task["upload"], True)
                if delay <= 0:
                    machine.reserved -= self.need(task, machine)
                    return self.end(task, "man")
        task["man"] += delay
        return self.at(self.now + delay, self.begin, task, machine)

    def begin(self, task, machine):
        machine.reserved -= self.need(task, machine)
        self.enter(task, machine)

    def stays(self, task, delay):
        return self.where(task["device"], self.now + delay) == task["place"]

    def back(self, task):
        machine = task["vm"]
        if machine.tier == "mobile":
            return self.end(task, "completed")
        if self.s.model in ("app2", "app4") and machine.tier == "edge" and machine.place != task["place"]:
            delay = self.man(task["download"], False)
            if delay <= 0:
                return self.end(task, "man")
            if not self.stays(task, delay):
                return self.end(task, "mobility")
            task["man"] += delay
            return self.at(self.now + delay, self.last, task)
        return self.last(task)

    def last(self, task):
        machine = task["vm"]
        p, wlan, wan, lost = self.hop(task, False, machine.tier)
        if lost:
            return self.end(task, lost)
        elsewhere = self.basic() and machine.tier == "edge" and machine.place != self.where(task["device"], self.now)
        man = self.s.links.lan_delay if elsewhere else 0.0
        delay = wlan + man + wan
        if not self.stays(task, delay):
            return self.end(task, "mobility")
        task["wlan"] += wlan
        task["man"] += man
        task["wan"] += wan
        counter = self.wan if machine.tier == "cloud" else self.wlan
        counter[p] += 1
        return self.at(self.now + delay, self.received, task, counter, p)

    def received(self, task, counter, p):
        counter[p] -= 1
        self.end(task, "completed")

    def end(self, task, cause):
        self.rows.append((self.now, task["device"], cause, task))
