"""Whatever happens to the far end, the run learns who and why within its limit, and nothing survives."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgpack
import numpy as np
import pytest
import zmq

from cosim.bus.messages import FROM_RUN
from cosim.bus.remote import RemoteAdapter
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Scene
from cosim.contract.errors import AdapterError, RunError, SetupError
from cosim.contract.frame import Frame, fault
from cosim.talk.codec import PROTOCOL
from tests.chaos.misbehaving import LOAD

pytestmark = pytest.mark.chaos
VICTIM = "tests.chaos.misbehaving:ADAPTER"
ROOT = Path(__file__).parents[2]
LIMIT = 60.0  # s, long enough for a loaded machine
SHORT = 1.5  # s, for those that are meant to be waited for in vain


def inputs(time: float) -> Inputs:
    return Inputs({"mobility": [Frame("mobility", time, np.arange(3, dtype=np.int32), {"x": np.arange(3.0) + time})]})


def context(folder: Path) -> Context:
    return Context("reactor", Scene(capacity=3), 1.0, 3.0, (1, 2), str(folder), str(folder))


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def eventually_gone(*pids: int) -> bool:
    end = time.monotonic() + LIMIT
    while not (all_gone := all(map(gone, pids))) and time.monotonic() < end:
        time.sleep(0.02)
    return all_gone


def children(pid: int) -> list[int]:
    text = "".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    return [int(word) for word in text.split()]


@contextlib.contextmanager
def victim(folder: Path, limit: float = LIMIT, **config: object) -> Iterator[RemoteAdapter]:
    """A remote adapter that leaves no process behind, whatever the test does with it."""
    before = set(children(os.getpid()))
    adapter = RemoteAdapter("reactor", VICTIM, config, timeout=limit)
    try:
        yield adapter
        started = [pid for pid in children(os.getpid()) if pid not in before]
        family = started + [grandchild for pid in started for grandchild in children(pid)]
    finally:
        adapter.close()
    adapter.close()
    assert eventually_gone(*family)


def run(adapter: RemoteAdapter, folder: Path) -> None:
    adapter.start(context(folder))
    steps(adapter)


def steps(adapter: RemoteAdapter) -> None:
    for k in range(3):
        (frame,) = adapter.step(float(k), inputs(float(k)))
        assert frame["double"].tolist() == [2.0 * (row + k) for row in range(3)]
    summary = adapter.finish()
    assert summary["steps"] == 3
    assert summary["rows"] == [3, 0.5]
    assert np.isnan(summary["not a number"])
    assert adapter.cpu_seconds > 0.0


def test_nothing_happens(tmp_path):
    with victim(tmp_path) as adapter:
        run(adapter, tmp_path)
    assert (tmp_path / "closed").exists()


@pytest.mark.parametrize("at", ["build", "start", "step", "finish"])
def test_exception(tmp_path, at):
    with victim(tmp_path, do="raise", at=at) as adapter, pytest.raises(AdapterError) as caught:
        run(adapter, tmp_path)
    error = caught.value
    assert error.adapter == "reactor"
    assert error.phase == ("start" if at == "build" else at)
    assert error.time == (1.0 if at == "step" else None)
    assert "ValueError: the reactor is too hot" in str(error)
    assert "in explode" in error.remote_traceback
    assert (tmp_path / "closed").exists() == (at != "build")


def test_exception_in_close(tmp_path):
    adapter = RemoteAdapter("reactor", VICTIM, {"do": "raise", "at": "close"}, timeout=LIMIT)
    run(adapter, tmp_path)
    pid = adapter.pid
    with pytest.raises(AdapterError, match="failed in close: ValueError") as caught:
        adapter.close()
    assert caught.value.phase == "close"
    assert eventually_gone(pid)


def test_a_missing_installation_stays_a_setup_error(tmp_path):
    with (
        victim(tmp_path, do="refuse", at="start") as adapter,
        pytest.raises(SetupError, match=r"reactor.*install the r"),
    ):
        run(adapter, tmp_path)


DEATHS = {
    "kill": "was killed by SIGKILL",
    "segfault": "was killed by SIGSEGV",
    "_exit": "has ended with exit code 4",
}


@pytest.mark.parametrize(
    ("do", "at"),
    [*((do, "step") for do in DEATHS), ("kill", "build"), ("kill", "start"), ("kill", "finish")],
)
def test_death(tmp_path, do, at):
    with victim(tmp_path, do=do, at=at) as adapter:
        start = time.monotonic()
        with pytest.raises(AdapterError) as caught:
            run(adapter, tmp_path)
        assert time.monotonic() - start < LIMIT  # it did not wait for the limit
    text = str(caught.value)
    assert "the run waited" in text
    assert VICTIM in text
    assert DEATHS[do] in text
    phase = "start" if at in ("build", "start") else at
    assert caught.value.phase == phase
    assert f"to answer '{phase}'" in text


def test_death_between_steps(tmp_path):
    with victim(tmp_path) as adapter:
        run(adapter, tmp_path)
        os.kill(adapter.pid, signal.SIGKILL)
        with pytest.raises(AdapterError, match="was killed by SIGKILL"):
            adapter.step(3.0, inputs(3.0))
        with pytest.raises(RuntimeError, match="not running"):
            adapter.finish()


@pytest.mark.parametrize(
    ("do", "at", "state"),
    [
        ("hang", "step", "alive (sleeping) and used 0.0"),
        ("hold the lock", "step", "alive (sleeping) and used 0.0"),
        ("hang against SIGTERM", "step", "alive"),
        ("stop", "step", "alive (stopped by a signal)"),
        ("hang", "finish", "alive"),
    ],
)
def test_hang(tmp_path, do, at, state):
    with victim(tmp_path, do=do, at=at) as adapter:
        adapter.start(context(tmp_path))
        adapter.timeout = SHORT
        start = time.monotonic()
        with pytest.raises(AdapterError) as caught:
            steps(adapter)
        assert SHORT <= time.monotonic() - start < SHORT + LIMIT
    text = str(caught.value)
    assert re.search(r"the run waited [1-9]\d*\.\d+ s for process", text)
    assert f"to answer '{at}'; the process is {state}" in text
    assert caught.value.phase == at


@pytest.mark.parametrize("at", ["build", "start"])
def test_slow_start(tmp_path, at):
    with (
        victim(tmp_path, limit=3.0, do="hang", at=at) as adapter,
        pytest.raises(AdapterError, match="the run waited 3"),
    ):
        run(adapter, tmp_path)


def test_hang_in_close_is_ended(tmp_path):
    adapter = RemoteAdapter("reactor", VICTIM, {"do": "hang against SIGTERM", "at": "close"}, timeout=LIMIT)
    run(adapter, tmp_path)
    adapter.timeout = 0.5
    with pytest.raises(AdapterError, match="failed in close"):
        adapter.close()
    assert eventually_gone(adapter.pid)


def test_a_long_step_is_not_an_error(tmp_path):
    with victim(tmp_path, do="nap") as adapter:
        run(adapter, tmp_path)


def test_output_goes_to_the_log_and_disturbs_nothing(tmp_path, capfd):
    with victim(tmp_path, do="print garbage") as adapter:
        run(adapter, tmp_path)
    assert b"hello from a chatty library" in (tmp_path / "worker.log").read_bytes()
    assert capfd.readouterr().out == ""


def test_the_log_is_quoted(tmp_path):
    with victim(tmp_path, do="print garbage") as adapter:
        run(adapter, tmp_path)
        os.kill(adapter.pid, signal.SIGKILL)
        with pytest.raises(AdapterError, match=r"its log .*worker\.log ends with:\n"):
            adapter.step(3.0, inputs(3.0))


@pytest.mark.parametrize(
    ("do", "why"),
    [
        ("huge frame", "has 2400000000 B in 2 arrays"),
        ("objects", "load.double has the type object, which does not travel"),
        ("lists", "load.double must be a numpy array, not list"),
        ("ragged", r"load.double has the shape \(2,\), expected \(3,\)"),
        ("no frame", "expected a Frame, found a dict"),
        ("half a table", r"\(2,\) generations for 1 ids"),
    ],
)
def test_a_frame_that_does_not_travel(tmp_path, do, why):
    with victim(tmp_path, do=do) as adapter, pytest.raises(AdapterError, match=f"failed in step at 1 s: .*{why}"):
        run(adapter, tmp_path)


def test_a_wrong_type_is_left_to_the_contract(tmp_path):
    with victim(tmp_path, do="float32", tick=1) as adapter:
        adapter.start(context(tmp_path))
        (frame,) = adapter.step(0.0, inputs(0.0))
        assert fault(frame, LOAD, 3) == "load.double must be float64, not float32"


def test_a_summary_that_does_not_travel(tmp_path):
    with victim(tmp_path, do="unserialisable summary") as adapter, pytest.raises(AdapterError) as caught:
        run(adapter, tmp_path)
    assert "summary.deep.set is a set" in str(caught.value)


@pytest.mark.parametrize("do", ["grandchild", "grandchild, then kill"])
def test_grandchildren_go_too(tmp_path, do):
    with victim(tmp_path, do=do) as adapter, contextlib.suppress(AdapterError):
        run(adapter, tmp_path)
    assert eventually_gone(int((tmp_path / "grandchild").read_text()))


PARENT = """
import sys, time
from pathlib import Path
from cosim.bus.remote import RemoteAdapter
from tests.chaos.test_remote_deaths import VICTIM, context, inputs
folder = Path(sys.argv[1])
adapter = RemoteAdapter("reactor", VICTIM, {"do": sys.argv[2], "tick": 1}, timeout=60.0)
try:
    adapter.start(context(folder))
    adapter.begin_step(0.0, inputs(0.0))
    print(adapter.pid, flush=True)
    if sys.argv[2] == "grandchild":
        adapter.end_step()
    print("done", flush=True)
    if sys.argv[2] == "nap":
        adapter.end_step()
    time.sleep(60.0)
finally:
    adapter.close()
"""


@contextlib.contextmanager
def parent(folder: Path, do: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A run in a process of its own, and the processes that belong to it."""
    command = [sys.executable, "-c", PARENT, str(folder), do]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            worker = int(process.stdout.readline())
            assert process.stdout.readline() == "done\n"
            time.sleep(0.2)
            yield process, [worker, *children(worker)]
        finally:
            process.kill()


@pytest.mark.parametrize("do", ["grandchild", "hold the lock", "hang against SIGTERM"])
def test_the_death_of_the_run_ends_everything(tmp_path, do):
    with parent(tmp_path, do) as (process, family):
        if do == "grandchild":
            assert int((tmp_path / "grandchild").read_text()) in family
        process.kill()
        process.wait(LIMIT)
        assert eventually_gone(*family)


@pytest.mark.parametrize("do", ["grandchild", "nap"])
def test_ctrl_c_reaches_the_run_only(tmp_path, do):
    with parent(tmp_path, do) as (process, family):
        os.killpg(process.pid, signal.SIGINT)  # what the terminal does
        process.wait(LIMIT)
        assert process.returncode == -signal.SIGINT
        assert eventually_gone(*family)
    assert (tmp_path / "closed").exists()  # in order: the adapter was asked to close
    assert "KeyboardInterrupt" not in (tmp_path / "worker.log").read_text()


HASTY = "from cosim.bus import channel, worker; channel.BEAT, channel.BEAT_LOST = 100, 1_000; worker.main()"


@contextlib.contextmanager
def elsewhere(*arguments: str, hasty: bool = False) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A worker that somebody else started, and its address."""
    entry = ["-c", HASTY] if hasty else ["-m", "cosim.bus.worker"]
    command = [sys.executable, *entry, "--adapter", VICTIM, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.terminate()
            try:
                process.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def test_a_worker_elsewhere_serves_one_run_after_another(tmp_path):
    with elsewhere() as (process, address):
        assert address.startswith("tcp://127.0.0.1:")
        for name in ("one", "two"):
            folder = tmp_path / name
            folder.mkdir()
            adapter = RemoteAdapter("reactor", VICTIM, {}, timeout=LIMIT, connect=address)
            run(adapter, folder)
            adapter.close()
            assert (folder / "closed").exists()
            assert adapter.pid == process.pid
            assert not gone(process.pid)


def test_a_worker_elsewhere_that_is_told_to_end_closes_its_adapter(tmp_path):
    with elsewhere() as (process, address):
        adapter = RemoteAdapter("reactor", VICTIM, {}, timeout=LIMIT, connect=address)
        run(adapter, tmp_path)
        process.terminate()
        assert process.wait(LIMIT) == 128 + signal.SIGTERM
        assert (tmp_path / "closed").exists()
        with pytest.raises(AdapterError, match="the connection was lost"):
            adapter.step(3.0, inputs(3.0))
        adapter.close()


def test_a_worker_elsewhere_that_serves_once(tmp_path):
    with elsewhere("--once") as (process, address):
        adapter = RemoteAdapter("reactor", VICTIM, {}, timeout=LIMIT, connect=address)
        run(adapter, tmp_path)
        adapter.close()
        assert process.wait(LIMIT) == 0


def test_a_worker_elsewhere_is_busy_and_free_again_when_its_run_vanishes(tmp_path):
    with elsewhere() as (_, address):
        first = RemoteAdapter("reactor", VICTIM, {}, timeout=LIMIT, connect=address)
        run(first, tmp_path)
        second = RemoteAdapter("spare", VICTIM, {}, timeout=LIMIT, connect=address)
        with pytest.raises(SetupError, match=r"busy with adapter 'reactor' of another run"):
            second.start(context(tmp_path))
        second.close()
        first.step(3.0, inputs(3.0))  # it was not disturbed
        first._failed = True  # so that it leaves without a word
        first.close()
        end = time.monotonic() + LIMIT
        while True:  # it notices a moment later
            third = RemoteAdapter("spare", VICTIM, {}, timeout=LIMIT, connect=address)
            try:
                run(third, tmp_path)
                break
            except SetupError:
                third.close()
                assert time.monotonic() < end
        third.close()


def test_death_of_a_worker_elsewhere(tmp_path):
    with elsewhere() as (process, address):
        adapter = RemoteAdapter("reactor", VICTIM, {}, timeout=LIMIT, connect=address)
        run(adapter, tmp_path)
        process.kill()
        with pytest.raises(AdapterError, match=r"the worker at tcp://.* to answer 'step', but the connection was lost"):
            adapter.step(3.0, inputs(3.0))
        adapter.close()


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr("cosim.bus.channel.BEAT", 100)
    monkeypatch.setattr("cosim.bus.channel.BEAT_LOST", 1_000)


def test_holding_the_interpreter_lock_does_not_stop_the_heartbeat(tmp_path, hasty):
    with elsewhere(hasty=True) as (_, address):
        config = {"do": "hold the lock for 3 s"}
        adapter = RemoteAdapter("reactor", VICTIM, config, timeout=LIMIT, connect=address)
        run(adapter, tmp_path)
        adapter.close()


def test_a_worker_elsewhere_whose_heart_stops(tmp_path, hasty):
    with elsewhere(hasty=True) as (process, address):
        adapter = RemoteAdapter("reactor", VICTIM, {}, timeout=LIMIT, connect=address)
        run(adapter, tmp_path)
        process.send_signal(signal.SIGSTOP)
        try:
            start = time.monotonic()
            with pytest.raises(AdapterError, match="the connection was lost"):
                adapter.step(3.0, inputs(3.0))
            assert time.monotonic() - start < LIMIT
        finally:
            process.send_signal(signal.SIGCONT)
        adapter.close()


def test_nobody_there():
    adapter = RemoteAdapter("reactor", VICTIM, {}, timeout=0.5, connect="tcp://127.0.0.1:1")
    with pytest.raises(
        SetupError, match=r"waited 0.5\d* s for the worker at tcp://127.0.0.1:1 .*it is not running, or busy"
    ):
        adapter.start(context(Path()))
    adapter.close()


def test_not_an_address():
    adapter = RemoteAdapter("reactor", VICTIM, {}, timeout=0.5, connect="over there")
    with pytest.raises(SetupError, match="cannot connect to 'over there'"):
        adapter.start(context(Path()))
    adapter.close()


def test_strangers_do_not_disturb_a_worker(tmp_path):
    rng = np.random.default_rng(1)
    messages = [[rng.bytes(size)] * (1 + size % 3) for size in (0, 1, 7, 100, 5_000)]
    bodies = ({}, {"time": 0.0, "inputs": []}, {"config": 1, "context": 2}, {"version": "1", "use": "sumo"})
    messages += [
        [msgpack.packb([protocol, kind, b"", 1, body])]
        for protocol in (PROTOCOL, PROTOCOL - 1) for kind in FROM_RUN.kinds for body in bodies
    ]  # fmt: skip
    with elsewhere("--once") as (_, address), zmq.Context.instance().socket(zmq.DEALER) as stranger:
        stranger.setsockopt(zmq.LINGER, 0)
        stranger.connect(address)
        for message in messages:
            stranger.send_multipart(message)
            assert stranger.poll(LIMIT * 1e3)
            assert b"failed" in stranger.recv_multipart()[0]
        adapter = RemoteAdapter("reactor", VICTIM, {}, timeout=LIMIT, connect=address)
        run(adapter, tmp_path)
        adapter.close()


def test_another_version_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("cosim.bus.remote.version", lambda: "0.0.7")
    with victim(tmp_path) as adapter, pytest.raises(SetupError, match=r"0\.0\.7.*install the same version"):
        run(adapter, tmp_path)


def test_another_adapter_is_refused(tmp_path):
    with elsewhere() as (_, address):
        adapter = RemoteAdapter("reactor", "sumo", {}, timeout=LIMIT, connect=address)
        with pytest.raises(SetupError, match=r"asks for adapter 'sumo', this worker serves 'tests\.chaos"):
            adapter.start(context(tmp_path))
        adapter.close()


@pytest.mark.parametrize(
    ("use", "error", "why"),
    [
        ("no-such-adapter", SetupError, "there is no adapter 'no-such-adapter'"),
        ("tests.chaos.misbehaving:NOT_A_KIND", SetupError, "is a str, not an AdapterKind"),
        ("tests.chaos.no_such_module:ADAPTER", SetupError, "there is no module .*beside the scenario file"),
        (VICTIM, AdapterError, "Extra inputs are not permitted"),
    ],
)
def test_what_cannot_be_built(tmp_path, use, error, why):
    config = {"unknown": 1} if use == VICTIM else {}
    adapter = RemoteAdapter("reactor", use, config, timeout=LIMIT)
    with pytest.raises(error, match=why) as caught:
        adapter.start(context(tmp_path))
    assert isinstance(caught.value, RunError | AdapterError)
    adapter.close()
