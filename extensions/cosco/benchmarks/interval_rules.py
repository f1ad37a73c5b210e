"""The peer's rules of an interval once more in plain Python, as something to hold the compiled model against.

Only what `static` workloads need: constant demands, no traces. `extensions/cosco/tests/interval/reference.py` has
all rules, corrected ones included, under random systems.
"""

from __future__ import annotations

from dataclasses import dataclass

from cosim.extensions.cosco.interval import ContainerWorkload, HostFleet

ROUTER = 10_000.0  # MB/s


@dataclass
class Container:
    number: int
    created: int
    mips: float
    peak: float
    ram: float
    disk: float
    work: float
    host: int = -1
    done: float = 0.0
    seconds: float = 0.0  # execution and transfers

    @property
    def base(self) -> float:
        return self.mips if self.done < self.work else 0.0


@dataclass
class Figures:
    energy: float = 0.0
    response: float = 0.0
    completed: int = 0


class Rules:
    """Hosts, slots and a queue, as lists."""

    def __init__(self, fleet: HostFleet, workload: ContainerWorkload, length: float) -> None:
        hosts, power = fleet.hosts()
        self.length = length
        self.mips, self.ram, self.disk = (hosts[name].tolist() for name in ("mips", "ram", "disk"))
        self.up, self.down, self.latency = (hosts[name].tolist() for name in ("up_link", "down_link", "latency"))
        self.power = power.tolist()
        self.slots: list[Container | None] = [None] * len(hosts)
        given = workload.given.tolist() if workload.given is not None else []
        self.coming = [
            Container(
                number, int(interval), float(workload.demand[int(p), 0, 0]), float(workload.peak[int(p)]),
                float(workload.demand[int(p), 0, 1]), float(workload.disk[int(p)]), work,
            )
            for number, (interval, p, work, _) in enumerate(given)
        ]  # fmt: skip
        self.queue: list[Container] = []
        self.interval = 0
        self.now = Figures()
        self.open()

    def on(self, host: int) -> list[Container]:
        return [c for c in self.slots if c is not None and c.host == host]

    def rate(self, c: Container) -> float:
        """What the container may use now: its demand and an equal part of the spare MIPS, up to its peak."""
        there = self.on(c.host)
        spare = (self.mips[c.host] - sum(o.base for o in there)) / len(there)
        return min(c.peak, c.base + spare) if spare >= 0.0 else 0.0

    def fits(self, c: Container, host: int) -> bool:
        there = self.on(host)
        return (
            c.base <= self.mips[host] - sum(o.base for o in there)
            and c.ram <= self.ram[host] - sum(o.ram for o in there)
            and c.disk <= self.disk[host] - sum(o.disk for o in there)
        )

    def open(self) -> None:
        """Containers that have ended leave, new ones take the lowest free slots."""
        self.now = Figures()
        self.interval += 1
        for k, c in enumerate(self.slots):
            if c is not None and c.base == 0.0:
                self.now.completed += 1
                self.now.response += c.seconds
                self.slots[k] = None
        while self.coming and self.coming[0].created < self.interval:
            self.queue.append(self.coming.pop(0))
        for k, held in enumerate(self.slots):
            if held is None and self.queue:
                self.slots[k] = self.queue.pop(0)

    def step(self, decisions: list[list[int]]) -> Figures:
        """One interval under decisions (slot, host)."""
        pairs: list[tuple[Container, int]] = []
        for slot, host in decisions:
            c = self.slots[slot]
            if c is not None and c.host != host:
                pairs.append((c, host))
        ran = set()
        for c, target in pairs:
            if not self.fits(c, target):
                continue
            # Counted anew for each pair, from where the containers are by now. New ones (-1) count among
            # themselves, and index -1 of the lists is the last host.
            out_of = sum(other.host == c.host for other, _ in pairs)
            into = sum(host == target for _, host in pairs)
            bandwidth = min(self.down[target] / into, self.up[c.host] / out_of, ROUTER / len(pairs))
            transfer = c.ram / bandwidth + abs(self.latency[c.host] - self.latency[target])
            c.host = target
            ran.add(c.number)
            self.run(c, transfer)
        for c in [c for c in self.slots if c is not None]:
            if c.host >= 0 and c.number not in ran:
                self.run(c, 0.0)
        self.queue = [c for c in self.slots if c is not None and c.host < 0] + self.queue
        self.slots = [None if c is None or c.host < 0 else c for c in self.slots]
        for host, table in enumerate(self.power):
            used = int(sum(self.rate(c) for c in self.on(host)))
            at = min(used / self.mips[host], 1.0) * 10.0
            low = min(int(at), 9)
            self.now.energy += (table[low] + (at - low) * (table[low + 1] - table[low])) * self.length
        found = self.now
        self.open()
        return found

    def run(self, c: Container, transfer: float) -> None:
        rate = self.rate(c)
        time = min(self.length - transfer, (c.work - c.done) / rate if rate > 0.0 else 0.0)
        c.seconds += time + transfer
        c.done += rate * time
