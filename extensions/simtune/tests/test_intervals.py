"""The compiled testbed against a plain one, event by event."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.extensions.simtune import intervals

POINTS = np.array([0.0, 50.0, 100.0])
CURVE = np.array([10.0, 16.0, 20.0])
DRAW, MIX, NORMAL = intervals.uniform, intervals.mix, intervals.normal


def plain(values, seed, until, testbed):
    """One log by small steps in time: slow, and with nothing of the compiled version but the draws."""
    from numba import njit  # the draws are parts of machine code only

    @njit
    def draws(seed, t, n, hosts):
        key = MIX(np.uint64(seed))
        return NORMAL(key, 128 * t + 127), DRAW(key, 128 * t + 2 * n, 8), NORMAL(key, 128 * t + 2 * n)

    @njit
    def idle(seed, n):
        return DRAW(MIX(np.uint64(seed)), n, 5)

    median, spread, rate, overhead = values
    noise = testbed.noise
    length, hosts, tasks = testbed.interval, testbed.hosts, []
    smooth, energy, response = [0.0] * hosts, [], []
    for t in range(until):
        for n in range(max(1, int(testbed.arrivals * draws(seed, t, 0, hosts)[0]))):
            _, where, size = draws(seed, t, n, hosts)
            tasks.append([int(hosts * where), t * length + overhead, median * math.exp(spread * size), t])
        watts, now, end = 0.0, t * length, (t + 1) * length
        used = [0.0] * hosts
        while now < end:  # to the next start or end of any task at all
            running = [task for task in tasks if task[1] <= now and task[2] > 0.0]
            speed = {id(k): min(rate, 1.0 / sum(o[0] == k[0] for o in running)) for k in running}
            later = [task[1] for task in tasks if task[1] > now]
            step = min([end - now, *(k[2] / speed[id(k)] for k in running), *(at - now for at in later)])
            for task in running:
                used[task[0]] += speed[id(task)] * step
                task[2] -= speed[id(task)] * step
                task[2] = 0.0 if task[2] < 1e-9 else task[2]
            now = end if end - now - step < 1e-12 else now + step
        for host in range(hosts):
            at, count, chance = idle(seed, t * hosts + host), 0, math.exp(-noise)
            total = chance
            while total <= at:
                count += 1
                chance *= noise / count
                total += chance
            cpu = min(0.5 * count + 100.0 * used[host] / length, 100.0)
            smooth[host] = testbed.weight * cpu + (1.0 - testbed.weight) * smooth[host]
            watts += float(np.interp(smooth[host], POINTS, CURVE))
        ended = [t + 1 - task[3] for task in tasks if task[2] == 0.0]
        tasks = [task for task in tasks if task[2] > 0.0]
        energy.append(watts * length)
        response.append(sum(ended) / len(ended) if ended else 0.0)
    return np.array(energy), np.array(response)


@pytest.mark.parametrize("values", [(1.2, 0.8, 0.7, 4.0), (4.0, 0.3, 0.6, 0.0), (2.0, 1.5, 1.0, 7.5)])
def test_a_log_is_that_of_a_plain_simulation(values):
    testbed = intervals.TestbedFacts(hosts=3)
    found = intervals.simulate(values, [5], POINTS, CURVE, until=40, testbed=testbed)
    energy, response = plain(values, 5, 40, testbed)
    np.testing.assert_allclose(found["energy"][0], energy, rtol=1e-6)
    np.testing.assert_allclose(found["response"][0], response, rtol=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.floats(0.0, 0.999), min_size=4, max_size=4))
def test_energy_lies_between_idle_and_full_and_responses_are_whole_or_none(seed, unit):
    values = intervals.space().values(unit)
    found = intervals.simulate(values, [seed], POINTS, CURVE, until=30)
    energy, response = found["energy"], found["response"]
    kept = np.isfinite(energy)
    assert ((energy[kept] >= 16 * 10.0 * 5.0 - 1e-6) & (energy[kept] <= 16 * 20.0 * 5.0 + 1e-6)).all()
    assert ((response[kept] == 0.0) | (response[kept] >= 1.0)).all()


def test_vectors_of_a_batch_have_common_random_numbers_and_do_not_touch_each_other():
    values = intervals.space().values(np.random.default_rng(1).random((4, 4)))
    together = intervals.simulate(values, [1, 2], POINTS, CURVE, until=20, first=5)
    alone = intervals.simulate(values[2], [2], POINTS, CURVE, until=20)
    assert together["energy"].shape == (4, 30)
    np.testing.assert_array_equal(together["energy"][2, 15:], alone["energy"][0, 5:])


def test_work_that_piles_up_without_end_is_no_simulation():
    values = (20.0, 0.1, 0.2, 0.0)
    found = intervals.simulate(
        values, [1], POINTS, CURVE, until=400, testbed=intervals.TestbedFacts(hosts=1, arrivals=8.0)
    )
    assert np.isnan(found["energy"][0, -1])
