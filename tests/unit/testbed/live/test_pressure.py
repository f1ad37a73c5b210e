"""How long programs waited for cores, memory and storage: the kernel's own counters, and files like them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cosim.testbed.live.pressure import Pressure, scheduled


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def stalled(total):
    return f"some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"


GROUP, MACHINE, FIRST = "sys/fs/cgroup/cpu.pressure", "proc/pressure/cpu", "sys/fs/cgroup/cpu/cpu.stat"


@pytest.mark.parametrize(
    ("there", "waited"),
    [((GROUP, MACHINE, FIRST), 0.25), ((MACHINE, FIRST), 0.5), ((FIRST,), 1.0), ((), None)],
)
def test_the_group_comes_before_the_machine_and_throttling_last(tmp_path, there, waited):
    now = iter([0.0, 2.0])
    before = {GROUP: stalled(0), MACHINE: stalled(5), FIRST: "nr_throttled 1\nthrottled_time 1000000000\n"}
    after = {GROUP: stalled(500_000), MACHINE: stalled(1_000_005), FIRST: "throttled_time 3000000000\n"}
    write(tmp_path, {name: before[name] for name in there})
    pressure = Pressure(tmp_path, lambda: next(now))
    write(tmp_path, {name: after[name] for name in there})
    assert pressure.read() == {"cpu": waited, "memory": None, "io": None}


def test_threads_of_the_node_alone_count_and_new_ones_from_their_start(tmp_path):
    now = iter([0.0, 1.0, 2.0])
    pressure = Pressure(tmp_path, lambda: next(now))
    write(tmp_path, {"proc/7/task/7/schedstat": "9 100000000 3", "proc/8/task/8/schedstat": "9 900000000 3"})
    assert pressure.read(["7"])["cpu"] is None  # since when is not known
    write(tmp_path, {"proc/7/task/7/schedstat": "9 300000000 3", "proc/7/task/9/schedstat": "9 50000000 3"})
    assert pressure.read(["7"])["cpu"] == pytest.approx(0.25)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this kernel does not count waits")
def test_of_two_programs_on_one_core_one_always_waits():
    core = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, {{{core}}}); print(flush=True)\nwhile True: pass"
    command = [sys.executable, "-c", code]
    burning = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for process in burning:
            process.stdout.readline()
        pressure, names = Pressure(), [str(process.pid) for process in burning]
        pressure.read(names)
        time.sleep(0.5)
        waited = pressure.read(names)["cpu"]
    finally:
        for process in burning:
            process.kill()
            process.communicate()
    assert waited > 0.5  # 1 by theory, more where others run there; a wait counts once it is over


def test_a_process_may_end_while_its_threads_are_listed(tmp_path, monkeypatch):
    def gone(self, pattern):
        raise FileNotFoundError(self / pattern)
        yield

    (tmp_path / "task").mkdir()
    monkeypatch.setattr(Path, "glob", gone)
    assert list(scheduled(tmp_path)) == []
