"""Processes that end with the one that has started them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

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
