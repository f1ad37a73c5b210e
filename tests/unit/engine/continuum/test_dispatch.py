"""The time that a core of a host needs for each task before its work."""

from dataclasses import replace

import numpy as np
import pytest

from cosim.engine.continuum import Engine, Kind, MachineAccelerator, MachinePoint, MachineScaling
from cosim.engine.continuum import WorkloadStream as Stream
from cosim.engine.continuum.layout import INTERVAL, POWERSAVE
from cosim.engine.continuum.stepping import Decisions
from tests.unit.engine.continuum.worlds import CLOCK, attach, every, exponential, field, fixed, system


@pytest.mark.parametrize("memory", [0.0, 1e9])
def test_the_wait_is_pollaczek_and_khinchines(memory) -> None:
    """M/G/1 with S = d + Exp(mu): W = lambda E[S^2] / (2 (1 - rho)); the same for a host with limited memory."""
    rate, served, dispatch = 5.0, 10.0, 0.03
    host = Kind(cores=1, clock=CLOCK, fcfs=1, dispatch=dispatch, memory=memory)
    stream = Stream(rate=rate, work=exponential(CLOCK / served), memory=min(memory, 1.0))
    engine = Engine(system(["edge"], [host], [stream], [(0, 0)]), 5, 0)
    engine.advance(200_000.0)
    ended = engine.drain()
    mean, square = dispatch + 1 / served, dispatch**2 + 2 * dispatch / served + 2 / served**2
    wait = rate * square / (2 * (1 - rate * mean))
    queued = np.mean(ended["computed"] - ended["created"]) - mean
    assert queued == pytest.approx(wait, rel=0.02)
    busy = engine.meters([0]).busy[0]
    assert busy == pytest.approx(len(ended["ended"]) * dispatch + ended["work"].sum() / CLOCK, rel=1e-4)


def alone(host: Kind, stream: Stream) -> dict[str, np.ndarray]:
    engine = Engine(system(["edge"], [host], [stream], [(0, 0)]), 3, 0)
    engine.advance(50.0)
    return engine.drain()


def test_it_goes_before_an_accelerator_and_lasts_longer_at_a_slower_clock() -> None:
    gpu = Kind(cores=1, clock=CLOCK, dispatch=0.5, accelerators=(MachineAccelerator(0, 1, 1e12),))
    on_it = alone(gpu, every(10.0, 0.0, accelerator=0, operations=fixed(2e12)))
    np.testing.assert_allclose(on_it["computed"] - on_it["created"], 0.5 + 2.0, rtol=1e-9)
    points = (MachinePoint(CLOCK / 2, (1.0,)), MachinePoint(CLOCK, (2.0,)))
    slow = Kind(cores=1, clock=CLOCK, dispatch=0.5, scaling=MachineScaling(points, int(POWERSAVE)))
    for c, seconds in ((1.0, 3.0), (0.0, 1.5)):  # sensitivity: all of it, or nothing, follows the clock
        ended = alone(slow, every(10.0, CLOCK, sensitivity=c))
        np.testing.assert_allclose(ended["computed"] - ended["created"], seconds, rtol=1e-9)


@pytest.mark.parametrize("memory", [0.0, 1e9])
@pytest.mark.parametrize(("after", "left"), [(0.25, 1.0), (0.75, 0.75)])
def test_a_task_that_moves_is_taken_up_anew_and_keeps_what_it_has_done(memory, after, left) -> None:
    host = Kind(cores=1, clock=CLOCK, dispatch=0.5, memory=memory)
    load = replace(every(100.0, CLOCK, size=0.0), state=0.0, memory=min(memory, 1.0))
    engine = field(load, host=host, links=[(0, 1, 8e6, 0.0)], scheduler=INTERVAL)
    attach(engine, 3, 0)
    start = engine.state.due[0]
    engine.advance(start)
    engine.step(after, Decisions([0], [0]))
    ended = engine.step(10.0, Decisions([0], [1])).ended
    assert ended["host"].tolist() == [1]
    assert ended["computed"][0] - start == pytest.approx(after + 0.5 + left)
