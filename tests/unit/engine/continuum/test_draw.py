"""Random numbers by counter, and the cache's question."""

import numpy as np

from cosim.engine.continuum import WorkloadStream, compiled, kernel, routes
from cosim.engine.continuum.layout import COMPLETED, LOG_NORMAL
from tests.unit.engine.continuum.worlds import CLOCK, attach, exponential, field


def test_gaps_and_sizes_follow_their_laws():
    load = WorkloadStream(rate=50.0, work=exponential(2.0), input=(2, 10.0, 30.0))
    engine = field(load, devices=10)
    for k in range(10):
        attach(engine, 3 + k, 0, rate=1e9)
    engine.advance(400.0)
    ended = engine.drain()
    assert np.all(ended["status"] == COMPLETED)
    count = len(ended["work"])
    assert abs(count - 200_000) < 5 * np.sqrt(200_000)
    assert abs(ended["work"].mean() - 2.0) < 5 * 2.0 / np.sqrt(count)
    assert abs(ended["work"].std() - 2.0) < 0.05
    assert abs(ended["input"].mean() - 20.0) < 5 * 20 / np.sqrt(12 * count)
    assert 10.0 <= ended["input"].min() < 10.01
    assert 29.99 < ended["input"].max() < 30.0
    # neither across sizes nor from one task to the next
    order = np.lexsort((ended["created"], ended["device"]))
    work = ended["work"][order]
    for other in (ended["input"][order], np.roll(work, 1)):
        assert abs(np.corrcoef(work, other)[0, 1]) < 5 / np.sqrt(count)


def test_log_normal_sizes_have_their_mean_deviation_and_median():
    load = WorkloadStream(rate=50.0, work=(int(LOG_NORMAL), 2.0, 0.75))
    engine = field(load, devices=10)
    for k in range(10):
        attach(engine, 3 + k, 0, rate=1e9)
    engine.advance(400.0)
    work = engine.drain()["work"]
    few = 2.0 * 0.75 / np.sqrt(len(work))
    assert abs(work.mean() - 2.0) < 5 * few
    assert abs(work.std() / 2.0 - 0.75) < 0.02
    assert abs(np.median(work) - 2.0 / np.sqrt(1.0 + 0.75**2)) < 10 * few


def test_the_kernel_is_compiled_after_its_first_use():
    field(WorkloadStream(rate=1.0, work=exponential(CLOCK))).advance(1.0)
    assert compiled()


def test_the_kernel_is_compiled_once_whatever_arrays_it_is_told():
    engine = field(WorkloadStream(rate=1.0, work=exponential(CLOCK)), devices=2)
    for slots in (np.array([3]), np.array([4], np.int32), [0]):
        given = np.asarray(slots)
        given.flags.writeable = False
        engine.fail(given)
        engine.recover(given)
    engine.vanish(given + 3)
    assert len(kernel.act.signatures) == len(routes.find.signatures) == 1
