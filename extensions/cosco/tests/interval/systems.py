"""Small random systems, for the model and for the reference."""

import numpy as np
from hypothesis import strategies as st

from cosim.extensions.cosco.interval import ContainerArrivals, ContainerWorkload, HostFleet, Type
from cosim.extensions.cosco.interval.fleet import POWER, table
from cosim.extensions.cosco.interval.quirks import QUIRKS
from cosim.extensions.cosco.tests.interval.reference import Host, Profile, Reference

STEP_QUIRKS = [name for name, quirk in QUIRKS.items() if quirk.part in ("step", "workload") and "units" not in name]


@st.composite
def fleets(draw):
    def whole(least, most):
        return draw(st.integers(least, most))

    types = tuple(
        Type(
            mips=whole(1, 40) * 100.0,
            ram=whole(1, 20) * 100.0,
            disk=whole(1, 20) * 10.0,
            ram_rates=(whole(1, 10) * 10.0, whole(1, 10) * 10.0),
            disk_rates=(whole(1, 10) * 10.0, whole(1, 10) * 10.0),
            up=whole(1, 100) * 1.0,
            down=whole(1, 100) * 1.0,
            power=draw(st.sampled_from([POWER["B2s"], POWER["raspberry-pi-3b"], (10.0, 20.0)])),
            latency=draw(st.sampled_from([0.0, 0.003, 0.076])),
            price=draw(st.sampled_from([0.0, 0.0472])),
        )
        for _ in range(whole(1, 3))
    )
    place = tuple(draw(st.lists(st.integers(0, len(types) - 1), min_size=1, max_size=5)))
    return HostFleet(types, place, router=whole(1, 100) * 1.0)


@st.composite
def workloads(draw):
    count, samples = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    demand = np.array(
        [
            [
                [draw(st.integers(0, 12)) * 125.0, draw(st.integers(0, 8)) * 50.0]
                + [draw(st.integers(0, 6)) * 8.0 for _ in range(4)]
                for _ in range(samples)
            ]
            for _ in range(count)
        ]
    )
    length = np.array([draw(st.integers(1, samples)) for _ in range(count)])
    peak = np.array([draw(st.integers(0, 30)) * 125.0 for _ in range(count)])
    disk = np.array([draw(st.integers(0, 5)) * 10.0 for _ in range(count)])
    work = st.integers(0, 40).map(lambda k: k * 1000.0)
    row = st.tuples(st.integers(0, 8), st.integers(0, count - 1), work, st.integers(0, 6))
    given_rows = sorted(draw(st.lists(row, max_size=14)))
    base = ContainerWorkload(
        tuple(f"p{k}" for k in range(count)), demand, length, peak, disk, np.ones(count), ContainerArrivals(),
        work=np.ones(count), due=np.ones((count, 2), np.int64),
    )  # fmt: skip
    return base.replay(given_rows)


quirk_sets = st.one_of(
    st.just(frozenset()),
    st.sets(st.sampled_from(STEP_QUIRKS)).map(frozenset),
    st.just(frozenset(STEP_QUIRKS) - {"first-task-load", "deadline-twice"}),
)


def reference(fleet, workload, quirks, *, length, slots, overhead=0.0, switch_off=False, boot=0.0):
    """The reference model of the same system."""
    hosts = []
    for number, place in enumerate(fleet.place):
        kind = fleet.types[place]
        hosts.append(
            Host(
                number, kind.mips, kind.ram, kind.disk, (*kind.ram_rates, *kind.disk_rates), kind.up, kind.down,
                kind.latency if fleet.latency is None else fleet.latency[number], kind.price,
                table(kind.power).tolist(),
            )
        )  # fmt: skip
    profiles = [
        Profile([tuple(row) for row in demand[:n].tolist()], float(peak), float(disk))
        for demand, n, peak, disk in zip(workload.demand, workload.length, workload.peak, workload.disk, strict=True)
    ]
    rows = [tuple(row) for row in workload.given.tolist()]
    return Reference(
        hosts, profiles, rows, frozenset(quirks), length, fleet.router, slots or len(hosts), overhead, switch_off, boot
    )
