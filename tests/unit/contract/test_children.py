"""Processes that end with the one that has started them."""

import errno
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cosim.contract.children import in_copies
from cosim.contract.errors import AdapterError, RunError

PARENT = """
import os, time
from cosim.contract.children import pool

if __name__ == "__main__":
    with pool(2) as processes:
        for found in [processes.submit(os.getpid) for _ in range(8)]:
            print(found.result(), flush=True)
        print("", flush=True)
        list(processes.map(time.sleep, [600.0] * 4))
"""


def test_a_pool_ends_with_its_process_however_that_ends(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    try:
        workers = {int(line) for line in iter(parent.stdout.readline, "\n")}
        assert workers
        assert all(Path(f"/proc/{one}").exists() for one in workers)
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        until = time.monotonic() + 30.0
        while any(alive(one) for one in workers) and time.monotonic() < until:
            time.sleep(0.02)
        assert not [one for one in workers if alive(one)]
    finally:
        parent.kill()
        parent.stdout.close()


def alive(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def test_copies_answer_in_order_from_the_state_that_they_began_with():
    state = [1.0]

    def grown(by):
        def call(alive):
            alive()
            state.append(by)
            return math.fsum(state) / 3.0, os.getpid()

        return call

    found = in_copies([grown(0.1 * k) for k in range(5)], 2)
    assert [value for value, _ in found] == [(1.0 + 0.1 * k) / 3.0 for k in range(5)]
    assert state == [1.0]
    assert os.getpid() not in {process for _, process in found}


def test_a_copy_shares_no_open_file(tmp_path):
    with (tmp_path / "results").open("w") as file:

        def call(_):
            try:
                os.write(file.fileno(), b"written")
            except OSError as error:
                return error.errno

        assert in_copies([call], 1) == [errno.EBADF]
    assert (tmp_path / "results").read_text() == ""


def failing(_):
    raise AdapterError("it fell", adapter="drone", phase="step", time=2.0)


def test_what_a_copy_raises_is_raised_and_ends_the_others(tmp_path):
    def sleeping(_):
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(600.0)

    def after(_):
        while not (tmp_path / "pid").exists():
            time.sleep(0.01)
        failing(_)

    with pytest.raises(AdapterError, match="adapter 'drone' failed in step at 2 s: it fell") as found:
        in_copies([sleeping, after], 2)
    assert (found.value.adapter, found.value.phase, found.value.time) == ("drone", "step", 2.0)
    assert not alive(int((tmp_path / "pid").read_text() or 0))


def test_a_copy_that_stands_still_or_dies_is_reported():
    with pytest.raises(RunError, match=r"gave no sign of life for 0\.05 s"):
        in_copies([lambda _: time.sleep(600.0)], 1, limit=0.05)
    with pytest.raises(RunError, match="ended, status -9"):
        in_copies([lambda _: os.kill(os.getpid(), signal.SIGKILL)], 1)


COPYING = """
import os, sys, time
from cosim.contract.children import in_copies

def work(k):
    def call(_):
        with open(f"{sys.argv[1]}/{k}.part", "w") as file:
            file.write(str(os.getpid()))
        os.rename(f"{sys.argv[1]}/{k}.part", f"{sys.argv[1]}/{k}")
        time.sleep(600.0)
    return call

in_copies([work(0), work(1)], 2)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_copies_end_with_their_process(tmp_path, number):
    parent = subprocess.Popen([sys.executable, "-c", COPYING, tmp_path], stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 30.0
        while len(list(tmp_path.glob("[01]"))) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        copies = [int(file.read_text()) for file in tmp_path.glob("[01]")]
        assert len(copies) == 2
        parent.send_signal(number)
        parent.wait(30.0)
        while any(alive(one) for one in copies) and time.monotonic() < until:
            time.sleep(0.01)
        assert not [one for one in copies if alive(one)]
    finally:
        parent.kill()
