"""A small world in which everything happens, and lists of what is done to it, for property tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from cosim.engine.continuum import Engine, Kind, WorkloadStream
from tests.unit.engine.continuum.worlds import CLOCK, exponential, system

DEVICES = 4
KINDS = [
    Kind(cores=1, clock=CLOCK, slots=3, power=(5.0, 9.0, 10.0), price_cpu=0.5, price_transfer=1e-6, price_energy=0.1),
    Kind(cores=2, clock=CLOCK, power=(7.0,), price_cpu=0.2),
    Kind(cores=4, clock=2 * CLOCK, power=(50.0, 90.0), price_transfer=1e-5),
    Kind(radio_energy_sent=1e-6, radio_energy_received=2e-6),
    Kind(cores=1, clock=CLOCK / 4, power=(1.0, 2.0), radio_energy_sent=1e-6),
]
LINKS = [(0, 1, 4e6, 0.002, 0.0, 1e-9), (0, 2, 8e6, 0.01, 0.1, 1e-8), (1, 2, 8e6, 0.01, 0.0, 0.0), (6, 1, 2e6, 0.0)]

node = st.integers(0, 2 + DEVICES)
change = st.one_of(
    st.tuples(st.just("radio"), st.integers(3, 2 + DEVICES), st.integers(-1, 1), st.floats(0, 1e7), st.floats(0, 0.05)),
    st.tuples(st.just("link"), st.integers(0, len(LINKS) - 1), st.sampled_from([0.0, 0.3, 1.0])),
    st.tuples(st.just("fail"), node),
    st.tuples(st.just("recover"), node),
    st.tuples(st.just("vanish"), st.integers(3, 2 + DEVICES)),
    st.tuples(st.just("appear"), st.integers(3, 2 + DEVICES)),
)
steps = st.lists(st.tuples(st.floats(0.0, 2.0), change), max_size=25)


def apply(engine, what, generations):
    """Do one `change` to the engine, if it can happen to it now."""
    name, slot, *rest = what
    present = bool(engine.state.nodes["present"][slot])
    if name == "radio" and present:
        cell, rate, delay = rest
        engine.set_radio([slot], [cell], [rate], [rate / 2], [delay], [0.1])
    elif name == "link":
        engine.set_links([slot], rest, [0.05], [0.0])
    elif name in ("fail", "recover"):
        getattr(engine, name)([slot])
    elif name == "vanish" and present:
        engine.vanish([slot])
    elif name == "appear" and not present:
        generations[slot] = generations.get(slot, 0) + 1
        engine.appear([slot], [generations[slot]])


def world(fcfs=False, loads=None):
    """Two edge hosts, a cloud host and the devices, each of which makes every one of the `loads`."""
    kinds = [*KINDS[:3], *[KINDS[3 + k % 2] for k in range(DEVICES)]]
    if fcfs:
        kinds = [replace(kind, fcfs=True) for kind in kinds]
    loads = loads or [
        WorkloadStream(
            rate=3.0, work=exponential(CLOCK / 3), input=exponential(1e5), output=exponential(5e4), deadline=1.0
        ),
        WorkloadStream(rate=2.0, work=exponential(CLOCK / 5), periodic=True, active=1.0, idle=0.5),
    ]
    sources = [(3 + k, w) for k in range(DEVICES) for w in range(len(loads))] + [(0, 0)]
    return system(["edge", "edge", "cloud"] + ["device"] * DEVICES, kinds, loads, sources, LINKS)


def served(made, seed, scheduler, **options):
    """An engine of the world whose devices are all in coverage."""
    engine = Engine(made, seed, scheduler, **options)
    for k in range(DEVICES):
        engine.set_radio([3 + k], [k % 2], [4e6], [8e6], [0.01], [0.0])
    return engine


def play(engine, todo, generations):
    """Let each span pass and each change happen."""
    for span, what in todo:
        engine.advance(engine.now + span)
        apply(engine, what, generations)


def in_two_ways(made, seed, scheduler, steps, *, rest, look=None, **options):
    """Two engines to which the same happens, the second in strides, and the columns of the tasks that ended in each.

    `look` is called with the second engine on its way, as looking must change nothing; `rest` s pass at the end.
    """
    engines = [Engine(made, seed, scheduler, patience=0.7, **options) for _ in range(2)]
    ended = [[], []]
    for number, engine in enumerate(engines):
        generations = {}
        for k in range(DEVICES):
            engine.set_radio([3 + k], [k % 2], [4e6], [8e6], [0.01], [0.0])
        for span, what in steps:
            until = engine.now + span
            if number:  # the second one goes there in three strides
                for part in (0.3, 0.6):
                    engine.advance(max(engine.now, until - span + part * span))
                    if look:
                        look(engine)
            engine.advance(until)
            apply(engine, what, generations)
            ended[number].append(engine.drain())
        engine.advance(engine.now + rest)
        ended[number].append(engine.drain())
    return engines, [{name: np.concatenate([part[name] for part in parts]) for name in parts[0]} for parts in ended]
