"""The books of machines and batteries close, and stepping changes nothing, whatever happens."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.engine.continuum import (
    Engine,
    MachineAccelerator,
    MachinePoint,
    MachineScaling,
    NodeBattery,
    PowerStates,
    WorkloadStream,
)
from cosim.engine.continuum.layout import FREE, ON, RUN
from tests.unit.engine.continuum.happenings import in_two_ways, steps, world
from tests.unit.engine.continuum.test_ledgers import check
from tests.unit.engine.continuum.worlds import CLOCK, exponential

SLOW = (MachinePoint(CLOCK / 4, (2.0, 3.0)), MachinePoint(CLOCK / 2, (2.0, 5.0)))
STATES = PowerStates(1.0, 2.0, 0.3, 20.0, 0.8, 25.0, 0.5)


def equipped(governor, fcfs):
    """The world of `happenings` with something of everything."""
    made = world(
        fcfs,
        [
            WorkloadStream(
                rate=3.0,
                work=exponential(CLOCK / 5),
                input=exponential(1e5),
                output=exponential(5e4),
                memory=1.5,
                accelerator=0,
                operations=exponential(3e11),
                deadline=1.0,
            ),
            WorkloadStream(
                rate=2.0, work=exponential(CLOCK / 8), periodic=True, active=1.0, idle=0.5, sensitivity=0.3, storage=2.0
            ),
        ],
    )
    gpu, npu = MachineAccelerator(0, 2, 1e12, idle=3.0, max=11.0), MachineAccelerator(1, 1, 5e11, idle=1.0, max=2.0)
    points = (*SLOW, MachinePoint(CLOCK, (3.0, 12.0)))
    edge, other, cloud, plain, own = made.kinds[:5]
    device = replace(plain, power=(0.5,), battery=NodeBattery(8.0, 0.3, 1.0), radio_by_technology=((3e-6, 1e-6),))
    kinds = (
        replace(
            edge,
            memory=4.0,
            accelerators=(gpu, npu),
            scaling=MachineScaling(points, governor, period=0.3),
            technology=1,
        ),
        replace(other, storage=6.0, states=STATES, battery=NodeBattery(120.0, 0.2, 0.9), cell_sent=1e-7),
        replace(cloud, accelerators=(replace(gpu, shared=True),), states=STATES),
        device,
        replace(own, accelerators=(replace(gpu, units=1),), battery=NodeBattery(30.0), cores=1),
        device,
        own,
    )
    return replace(made, kinds=kinds)


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**64 - 1),
    scheduler=st.integers(0, 6),
    governor=st.integers(0, 3),
    fcfs=st.booleans(),
    drop_late=st.booleans(),
    steps=steps,
)
def test_books_of_machines_close(seed, scheduler, governor, fcfs, drop_late, steps):
    engines, columns = in_two_ways(
        equipped(governor, fcfs), seed, scheduler, steps, rest=3.0, look=Engine.resources, drop_late=drop_late
    )
    check(engines[0], columns[0])
    for name, column in columns[0].items():
        assert column.tobytes() == columns[1][name].tobytes(), name
    for name in ("stations", "machines", "batteries"):
        one, other = (getattr(engine.state, name) for engine in engines)
        assert all(one[field].tobytes() == other[field].tobytes() for field in one.dtype.names), name
    books_of_hardware(engines[0])


def books_of_hardware(engine):
    """Check what holds at any time."""
    state, parts, books = engine.state, engine.resources(), engine.ledger()
    np.testing.assert_allclose(parts.spells.sum(axis=1), engine.now, rtol=1e-9, atol=1e-9)
    live = state.tasks[state.tasks["phase"] != FREE]
    here = live[live["phase"] == RUN]
    for m, machine in enumerate(state.machines):
        mine = here[here["host"] == machine["node"]]
        assert len(mine) == machine["resident"] + machine["waiting"], m
        inside = mine[mine["station"] >= 0]
        assert len(inside) == machine["resident"], m
        for name in ("memory", "storage"):
            taken = state.workloads[name][inside["workload"]].sum()
            if np.isfinite(machine[name]):
                assert np.isclose(machine[name] - machine[f"free_{name}"], taken), (m, name)
            assert machine[f"free_{name}"] >= -1e-9
        if machine["state"] != ON:
            assert len(inside) == 0
        else:  # nobody waits who would fit
            first = machine["head"]
            if first >= 0:
                load = state.workloads[state.tasks["workload"][first]]
                assert load["memory"] > machine["free_memory"] or load["storage"] > machine["free_storage"]
    used = books.energy + books.radio
    np.testing.assert_allclose(parts.consumed, used[parts.battery_node], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(parts.charged, parts.consumed + parts.level + parts.taken, rtol=1e-9, atol=1e-9)
    assert np.all(parts.level >= -1e-9)
    assert not np.any(parts.empty & (state.nodes["up"][parts.battery_node] != 0))
    meters = engine.meters(np.arange(len(state.nodes)))
    assert books.cells.sum() <= 8e-7 * meters.received.sum() * (1 + 1e-9) + 1e-12
