"""The vehicular model once more: plain Python, one heap, one object per task, straight from its rules.

Only the draws are shared, by their definition (`cosim.engine.continuum.draw`). Machines keep what every task
on them still has to get and subtract it at each change. There is no processing-tick.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field

import numpy as np

from cosim.extensions.edgecloudsim.offloading.vehicular.learn import decide
from cosim.extensions.edgecloudsim.offloading.vehicular.learned import load

MASK = 2**64 - 1
STEP, SALT = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03
GAP, UPLOAD, DOWNLOAD, LENGTH, APPLICATION, START, HOME, PICK, COIN, PRIOR = 0, 1, 2, 3, 4, 5, 6, 10, 15, 16
EDGE, ROADSIDE, CELLULAR = range(3)
UP, DOWN = range(2)


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def stream(seed, device):
    key = mix((seed + STEP) & MASK)
    for part in (device, 0, 0):
        key = mix(key ^ ((part * STEP + SALT) & MASK))
    return key


def uniform(key, n, purpose):
    bits = mix(mix((key + n * STEP) & MASK) ^ ((purpose + 1) * SALT & MASK))
    return (bits >> 11) * 2.0**-53


class Link:
    """Load by windows of half a second."""

    def __init__(self, rate, lag, gap, size, messages=0.0, kilobytes=0.0):
        self.rate, self.lag, self.gap, self.size = rate, lag, gap, size
        self.kept = gap, size
        self.background = messages, kilobytes
        self.sizes = []

    def delay(self):
        """None: it fails."""
        mu, arrivals = self.rate / (self.size * 8000.0), 1.0 / self.gap if self.gap else math.inf
        if mu <= arrivals or 1.0 / (mu - arrivals) > 7.5:
            return None
        return 1.0 / (mu - arrivals) + self.lag

    def ask(self, size):
        self.sizes.append(size)
        return self.delay()

    def close(self, restoring, slowly):
        messages, kilobytes = len(self.sizes) + self.background[0], sum(self.sizes) + self.background[1]
        if restoring and not self.sizes:
            self.gap, self.size = self.kept
        elif messages == 0:
            self.gap = math.inf
        else:
            gap = 0.5 / messages
            self.gap = (gap + 3 * self.gap) / 4 if slowly and gap > self.gap else gap
            self.size = kilobytes / messages
        self.sizes = []
        if self.delay() is not None:
            self.kept = self.gap, self.size


@dataclass
class Machine:
    """Processor sharing by what each task has left."""

    cores: int
    mips: float
    place: int | None
    left: dict[int, float] = field(default_factory=dict)
    load: float = 0.0
    since: float = 0.0
    version: int = 0

    def speed(self):
        return self.mips * min(1.0, self.cores / len(self.left))

    def touch(self, now):
        if self.left:
            got = self.speed() * (now - self.since)
            self.left = {task: rest - got for task, rest in self.left.items()}
        self.since = now


@dataclass
class Task:
    serial: int
    device: int
    app: int
    place: int
    created: float
    upload: float
    download: float
    length: float
    option: int = -1
    machine: int = -1
    ended: float = math.nan
    cause: str = ""
    wlan: float = 0.0
    man: float = 0.0
    wan: float = 0.0
    gsm: float = 0.0


class Oracle:
    def __init__(self, study, seed):
        self.study, self.quirks = study, study.quirks
        self.now, self.heap, self.number = 0.0, [], 0
        self.tasks = []
        self.machines = [Machine(vm.cores, vm.mips, k) for k, p in enumerate(study.places) for g in p.hosts for vm in g]
        self.edge = len(self.machines)
        self.machines += [Machine(vm.cores, vm.mips, None) for group in study.cloud for vm in group]
        self.turn = [0, 0]
        self.keys = [stream(seed, d) for d in range(study.devices)]
        self.apps = [self.application(key) for key in self.keys]
        self.segment = 2.0 * study.places[0].x
        self.speeds = [(20.0, 40.0, 60.0)[p.attractiveness] / 3.6 for p in study.places]
        road = self.segment * len(study.places)
        self.homes = [road * uniform(key, 0, HOME) for key in self.keys]
        if "starts-on-whole-metres" in self.quirks:
            self.homes = [math.floor(x) for x in self.homes]
        self.make_links()
        self.windows = [[[0, 0, 0, 0.0] for _ in range(3)] for _ in range(8)]  # by age: sent, completed, failed, s
        self.arms, self.rounds = [[0.0, 0.0] for _ in range(3)], 0
        self.players = [self.seat(d) for d in range(study.devices)]
        self.weights = load()
        for d in range(study.devices):
            if self.apps[d] is not None:
                self.schedule_arrivals(d)
        self.at(10.5, self.close_windows)
        self.at(10.125, self.turn_window)

    def at(self, time, action, *arguments):
        heapq.heappush(self.heap, (time, self.number, action, arguments))
        self.number += 1

    def run(self, until):
        while self.heap and self.heap[0][0] <= until:
            self.now, _, action, arguments = heapq.heappop(self.heap)
            action(*arguments)
        return self.tasks

    def application(self, key):
        x, total = 100.0 * uniform(key, 0, APPLICATION), 0.0
        for k, app in enumerate(self.study.applications):
            total += app.usage
            if x < total:
                return k
        return None

    def schedule_arrivals(self, d):
        """All tasks of the device at once, as the peer does."""
        key, app = self.keys[d], self.study.applications[self.apps[d]]
        begin = 10.0 + 10.0 * uniform(key, 0, START)
        time, n, made = begin, 0, 0
        while True:
            time += -app.interarrival * math.log1p(-uniform(key, n, GAP))
            n += 1
            if time > begin + app.active:
                begin += app.active + app.idle
                time = begin
                if time > self.study.duration:
                    return
                continue
            if time > self.study.duration:
                return
            self.at(time, self.submit, d, made)
            made += 1

    def serving(self, d):
        """The segment of the device now, driven through from the beginning."""
        k = min(int(self.homes[d] / self.segment), len(self.speeds) - 1)
        left = self.now - ((k + 1) * self.segment - self.homes[d]) / self.speeds[k]
        while left >= 0.0:
            k = (k + 1) % len(self.speeds)
            left -= self.segment / self.speeds[k]
        return k

    def make_links(self):
        study, given, count = self.study, self.study.links, len(self.study.places)
        usage = np.array([app.usage / 100.0 for app in study.applications])
        rate = float((usage / [app.interarrival for app in study.applications]).sum())
        size = [
            usage @ [getattr(app, name) for app in study.applications] / usage.sum() for name in ("upload", "download")
        ]
        near = study.devices // count if "links-begin-by-whole-devices" in self.quirks else study.devices / count

        def pair(bits, lag, share, devices, *background):
            arrivals = rate * devices * share
            gap = 1.0 / arrivals if arrivals else math.inf
            return [Link(bits, lag, gap, size[way], *background) for way in (UP, DOWN)]

        self.wlan = [pair(given.wlan, 0.0, 0.40, near) for _ in range(count)]
        messages = study.devices * 10.0 * 0.5
        self.man = pair(given.man, given.lan_delay, 0.35, study.devices, messages, 5.0 * messages)
        self.wan = pair(given.wan, given.wan_propagation, 0.15, study.devices)
        self.gsm = pair(given.gsm, given.gsm_propagation, 0.10, study.devices)

    def close_windows(self):
        slowly = "links-fall-slowly" in self.quirks and self.now > self.study.warm_up
        for link in [link for pair in [*self.wlan, self.man, self.wan, self.gsm] for link in pair]:
            link.close("links-restore-last" in self.quirks, slowly)
        self.at(self.now + 0.5, self.close_windows)

    def turn_window(self):
        self.windows = [[[0, 0, 0, 0.0] for _ in range(3)], *self.windows[:7]]
        self.at(self.now + 0.125, self.turn_window)

    def around(self, mean, u):
        if "integer-sizes" in self.quirks:
            tenth = math.floor(mean / 10.0)
            return mean - tenth + math.floor((2 * tenth + 1) * u)
        return mean * (0.9 + 0.2 * u)

    def submit(self, d, n):
        app, key = self.study.applications[self.apps[d]], self.keys[d]
        sizes = (self.around(mean, uniform(key, n, purpose)) for mean, purpose in
                 ((app.upload, UPLOAD), (app.download, DOWNLOAD), (app.length, LENGTH)))  # fmt: skip
        task = Task(len(self.tasks), d, self.apps[d], self.serving(d), self.now, *sizes)
        self.tasks.append(task)
        task.option = getattr(self, self.study.policy.replace("-", "_"))(task, n, uniform(key, n, PICK))
        self.windows[0][task.option][0] += 1
        if task.option == CELLULAR:
            network, link = "gsm", self.gsm[UP]
        else:
            network, link = "wlan", self.wlan[task.place][UP]
        if link.delay() is not None:
            tier = int(task.option != EDGE)
            count = self.edge if tier == 0 else len(self.machines) - self.edge
            task.machine = tier * self.edge + self.turn[tier]
            self.turn[tier] = (self.turn[tier] + 1) % count
        self.travel(task, network, link, task.upload, self.uploaded)

    def travel(self, task, network, link, size, then):
        delay = link.ask(size)
        if delay is None:
            self.end(task, network)
            return
        setattr(task, network, getattr(task, network) + delay)
        self.at(self.now + delay, then, task)

    def uploaded(self, task):
        if task.option == ROADSIDE:
            self.travel(task, "wan", self.wan[UP], task.upload, self.arrive)
        elif task.option == EDGE and self.machines[task.machine].place != task.place:
            self.travel(task, "man", self.man[UP], task.upload, self.arrive)
        else:
            self.arrive(task)

    def percent(self, task):
        app = self.study.applications[task.app]
        return app.load_edge if task.option == EDGE else app.load_cloud

    def arrive(self, task):
        machine = self.machines[task.machine]
        if machine.load + self.percent(task) > 100.0 + 1e-9:
            self.end(task, "capacity")
            return
        machine.touch(self.now)
        machine.left[task.serial] = task.length
        machine.load += self.percent(task)
        self.plan(task.machine)

    def plan(self, number):
        machine = self.machines[number]
        machine.version += 1
        if machine.left:
            serial, rest = min(machine.left.items(), key=lambda item: (item[1], item[0]))
            time = self.now + max(0.0, rest) / machine.speed()
            self.at(time, self.computed, number, machine.version, serial)

    def computed(self, number, version, serial):
        machine, task = self.machines[number], self.tasks[serial]
        if version != machine.version:
            return
        machine.touch(self.now)
        del machine.left[serial]
        machine.load = machine.load - self.percent(task) if machine.left else 0.0
        self.plan(number)
        if task.option == CELLULAR:
            self.travel(task, "gsm", self.gsm[DOWN], task.download, self.completed)
        elif task.option == ROADSIDE:
            self.travel(task, "wan", self.wan[DOWN], task.download, lambda task: self.result_at(task, task.place))
        else:
            self.result_at(task, task.place if "result-skips-man" in self.quirks else machine.place)

    def result_at(self, task, place):
        if self.serving(task.device) == place:
            self.last_hop(task)
        else:
            self.travel(task, "man", self.man[DOWN], task.download, self.last_hop)

    def last_hop(self, task):
        here = self.serving(task.device)

        def arrived(task):
            if self.serving(task.device) == here:
                self.completed(task)
            else:
                self.end(task, "mobility")

        self.travel(task, "wlan", self.wlan[here][DOWN], task.download, arrived)

    def completed(self, task):
        self.end(task, "completed")

    def end(self, task, cause):
        task.cause, task.ended = cause, self.now
        service = self.now - task.created
        row = self.windows[0][task.option]
        app = self.study.applications[task.app]
        if cause == "completed":
            row[1] += 1
            row[3] += service
        else:
            row[2] += 1
            service = 0.5 + 1.5 * app.max_delay
        if self.rounds:
            arm = self.arms[task.option]
            cost = service / task.length * self.scale()
            arm[0] = (arm[0] * arm[1] + cost) / (arm[1] + (0 if "mab-divides-by-old-count" in self.quirks else 1))
            arm[1] += 1
            self.rounds += 1

    # Policies

    def random(self, task, n, u):
        return EDGE if u <= 0.33 else ROADSIDE if u <= 0.66 else CELLULAR

    def predictive(self, task, n, u):
        if self.now < self.study.warm_up:
            return EDGE if u <= 0.34 else ROADSIDE if u <= 0.34 + 0.33 else CELLULAR

        def weighted(figure):
            total = [sum(w * figure(self.windows[age][o]) for age, w in enumerate((4, 3, 2, 1))) for o in range(3)]
            return total if "predictive-unnormalised" in self.quirks else [x / 10.0 for x in total]

        x = weighted(lambda row: 100.0 * row[2] / (row[1] + row[2]) if row[2] else 0.1)
        if sum(x) <= 0.3 + 1e-9:
            x = weighted(lambda row: row[3] / row[1] if row[1] else 0.01)
        share = [1.0 / value / sum(1.0 / other for other in x) for value in x]
        u = 0.01 + 0.98 * u
        return EDGE if u <= share[0] else ROADSIDE if u <= share[0] + share[1] else CELLULAR

    def on_links(self, task, option):
        def seconds(link, failing=9.0):
            return failing if link.delay() is None else link.delay()

        if "expected-skips-links" in self.quirks:
            links, failing = {EDGE: (self.wlan[task.place], 9.0), ROADSIDE: (self.wan, 7.0), CELLULAR: (self.gsm, 8.0)}[
                option
            ]
            return sum(seconds(link, failing) for link in links)
        first = sum(map(seconds, self.gsm if option == CELLULAR else self.wlan[task.place]))
        return first + sum(map(seconds, {EDGE: [self.man[UP]], ROADSIDE: self.wan, CELLULAR: []}[option]))

    def computing(self, task, option):
        seconds = task.length / self.machines[0 if option == EDGE else self.edge].mips
        return int(seconds) if option != EDGE and "cloud-time-in-whole-seconds" in self.quirks else seconds

    def expected(self, task, option):
        return self.on_links(task, option) + self.computing(task, option)

    def scale(self):
        """MI, mean length of a task; 1 with the quirk."""
        if "mab-per-instruction" in self.quirks:
            return 1.0
        rates = [app.usage / app.interarrival * app.active / (app.active + app.idle) for app in self.study.applications]
        return sum(r * app.length for r, app in zip(rates, self.study.applications, strict=True)) / sum(rates)

    def mab(self, task, n, u):
        if not self.rounds:
            self.rounds = 1
            self.arms = [[self.expected(task, o) / task.length * self.scale(), 1] for o in range(3)]
        first, last = self.study.applications[0].length, self.study.applications[-1].length
        x = min(1.0, max(0.0, (task.length - first) / (last - first))) if last != first else 0.0
        bounds = [mean - math.sqrt((1.0 - x) * math.log(self.rounds) / tried) for mean, tried in self.arms]
        return bounds.index(min(bounds))

    def rate(self, d):
        if self.apps[d] is None:
            return 0.0
        interval = self.study.applications[self.apps[d]].interarrival
        if "game-interval-as-rate" in self.quirks:
            return min(1.0, interval / 20.0)
        return min(app.interarrival for app in self.study.applications) / interval

    def seat(self, d):
        if "game-begins-alike" in self.quirks:
            return [0.33, 0.5]
        return [0.25 + 0.25 * uniform(self.keys[d], 0, PRIOR), self.rate(d)]

    def game_theory(self, task, n, u):
        cloud = CELLULAR if uniform(self.keys[task.device], n, COIN) < 0.5 else ROADSIDE

        def mean_load(machines):
            return sum(machine.load for machine in machines) / len(machines)

        def expected(option, machines):
            slow = 100.0 / max(1e-9, 100.0 - mean_load(machines))
            return self.on_links(task, option) + self.computing(task, option) * slow

        edge, far = expected(EDGE, self.machines[: self.edge]), expected(cloud, self.machines[self.edge :])
        others = range(task.device) if "game-earlier-players-only" in self.quirks else range(len(self.players))
        idle = math.prod(1.0 - self.players[o][0] * self.players[o][1] for o in others if o != task.device)
        allowed = self.study.applications[task.app].max_delay
        share = (edge - far) / (7.2 * allowed * (1.0 - idle)) if idle < 1.0 else float(edge > far)
        self.players[task.device] = [0.01 if share <= 0.0 else 0.99 if share >= 1.0 else share, self.rate(task.device)]
        return cloud if u < self.players[task.device][0] else EDGE

    def features(self, task):
        def seen(link):
            return math.log10(9.0 if link.delay() is None else link.delay())

        rates = np.array([a.usage / a.interarrival * a.active / (a.active + a.idle) for a in self.study.applications])
        largest = 8000.0 * max(rates @ [getattr(app, way) for app in self.study.applications] / rates.sum()
                               for way in ("upload", "download"))  # fmt: skip
        rows, links = [], self.study.links
        for option in range(3):
            bits = [links.wlan * len(self.wlan), links.wan, links.gsm][option]
            machines = self.machines[: self.edge] if option == EDGE else self.machines[self.edge :]
            near = self.gsm if option == CELLULAR else self.wlan[task.place]
            far = {EDGE: self.man, ROADSIDE: self.wan}.get(option)
            sent = [window[option][0] for window in self.windows]
            rows.append([
                sum(sent) / (bits / largest), sum(sent[:4]) / (bits / largest * 0.5), task.length / machines[0].mips,
                seen(near[UP]), seen(near[DOWN]), seen(far[UP]) if far else 0.0, seen(far[DOWN]) if far else 0.0,
                sum(machine.load for machine in machines) / len(machines),
            ])  # fmt: skip
        return np.array(rows)

    def ai_based(self, task, n, u):
        return decide(self.weights, self.features(task))
