"""An adapter in another process behaves like the same adapter here."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cosim.bus.remote import RemoteAdapter
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Scene
from cosim.contract.frame import Frame, SlotTable
from tests.chaos.misbehaving import ADAPTER

USE = "tests.chaos.misbehaving:ADAPTER"
ROOT = Path(__file__).parents[3]
LIMIT = 60.0


def context(folder: Path) -> Context:
    return Context("echo", Scene(capacity=10**6), 1.0, 5.0, (1, 2), str(folder), str(folder))


def inputs(tick: int) -> Inputs:
    """Inputs whose number of rows and slot table change from tick to tick."""
    rows = (3, 50_000, 50_000, 0, 20, 200_000)[tick]
    slot = np.arange(rows, dtype=np.int32)
    epoch = 1 + tick // 2
    table = SlotTable(0, ("a", f"b{epoch}", ""), np.array([1, epoch, 0], np.int32), epoch)
    rng = np.random.default_rng(tick)
    columns = {"x": rng.random(rows), "lane": slot % 7, "on": slot % 2 == 0}
    return Inputs({"mobility": [Frame("mobility", float(tick), slot, columns, table)]})


@contextlib.contextmanager
def worker(bind: str) -> Iterator[str]:
    command = [sys.executable, "-m", "cosim.bus.worker", "--adapter", USE, "--bind", bind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@pytest.fixture(params=["shared memory", "tcp", "ipc"])
def remote(request, tmp_path):
    with contextlib.ExitStack() as stack:
        bind = {"tcp": "tcp://127.0.0.1:*", "ipc": f"ipc://{tmp_path}/bus"}.get(request.param, "")
        connect = stack.enter_context(worker(bind)) if bind else ""
        adapter = RemoteAdapter("echo", USE, {"table": True}, timeout=LIMIT, connect=connect)
        stack.callback(adapter.close)
        adapter.start(context(tmp_path))
        yield adapter


def test_frames_are_bit_equal_and_valid_until_the_step_after_the_next(remote, tmp_path):
    local = ADAPTER.build(ADAPTER.load_config().model_validate({"table": True}))
    local.start(context(tmp_path))
    held: list[tuple[Frame, Frame]] = []
    for tick in range(6):
        (here,) = local.step(float(tick), inputs(tick))
        (there,) = remote.step(float(tick), inputs(tick))
        assert not there["double"].flags.writeable
        held = [*held[-1:], (here, there)]
        for a, b in held:
            assert a.same_as(b)
            assert a.table is not None
            assert b.table is not None
            assert (a.table.ids, a.table.epoch) == (b.table.ids, b.table.epoch)
            assert a.table.generation.tolist() == b.table.generation.tolist()
        if tick % 2:
            assert held[0][1].table is held[1][1].table
    assert remote.finish()["steps"] == local.finish()["steps"] == 6
    assert remote.pid not in (0, os.getpid())


def test_several_work_at_the_same_time(tmp_path):
    with contextlib.ExitStack() as stack:
        adapters = []
        for name in ("one", "two"):
            adapters.append(RemoteAdapter(name, USE, {}, timeout=LIMIT))
            stack.callback(adapters[-1].close)
            (tmp_path / name).mkdir()
            adapters[-1].begin_start(context(tmp_path / name))
        for adapter in adapters:
            adapter.end_start()
        for tick in range(3):
            for adapter in adapters:
                adapter.begin_step(float(tick), inputs(tick))
            frames = [adapter.end_step()[0] for adapter in reversed(adapters)]
            assert frames[0].same_as(frames[1])
        adapters[0].begin_step(3.0, inputs(3))  # nobody will ask for its frames
    assert all((tmp_path / name / "closed").exists() for name in ("one", "two"))


def test_the_end_of_a_run_waits_for_the_step_under_way(tmp_path):
    adapter = RemoteAdapter("echo", USE, {}, timeout=LIMIT)
    try:
        adapter.start(context(tmp_path))
        adapter.begin_step(0.0, inputs(0))
        with pytest.raises(RuntimeError, match="'echo' has not ended its last step"):
            adapter.begin_step(1.0, inputs(1))
        assert adapter.finish()["steps"] == 1
    finally:
        adapter.close()


def test_a_worker_imports_no_more_than_it_needs():
    code = "import sys, cosim.bus.service; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert not {"zmq", "pyarrow", "mosaik", "numba", "pandas", "duckdb", "scipy", "plotly"} & set(modules.split())


def test_calls_out_of_order(tmp_path):
    adapter = RemoteAdapter("echo", USE, {}, timeout=LIMIT)
    with pytest.raises(RuntimeError, match="'echo' is not running"):
        adapter.step(0.0, Inputs())
    adapter.start(context(tmp_path))
    with pytest.raises(RuntimeError, match="'echo' was not asked to step"):
        adapter.end_step()
    with pytest.raises(RuntimeError, match="'echo' was started before"):
        adapter.start(context(tmp_path))
    adapter.close()
    adapter.close()
    with pytest.raises(RuntimeError, match="'echo' is not running"):
        adapter.step(0.0, Inputs())


def test_closing_what_never_started():
    adapter = RemoteAdapter("echo", USE, {}, timeout=LIMIT)
    adapter.close()
    with pytest.raises(RuntimeError, match="'echo' was started before"):
        adapter.begin_start(context(Path()))
