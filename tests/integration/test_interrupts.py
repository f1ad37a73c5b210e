"""A run is interrupted, killed or starved: it keeps what there is, says why, and leaves nothing running."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cosim.results.load import load
from tests.integration import reactor

pytestmark = pytest.mark.chaos

LIMIT = 60.0  # s, for everything that must happen; long, since the machine may be busy


@contextlib.contextmanager
def cosim(
    scenario: Path, out: Path, *more: str, before: Callable[[], None] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """`cosim run` in a process group of its own, as a terminal would start it."""
    command = [sys.executable, "-m", "cosim", "run", str(scenario), "--out", str(out), *more]
    process = subprocess.Popen(
        command,
        cwd=reactor.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=before,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def recording(out: Path) -> Path:
    """The run's folder, as soon as there are rows in it."""
    return appeared(out, "*/*/frames/mobility/*", least=1).parents[2]


def hanging(out: Path) -> Path:
    """The run's folder, as soon as its adapter hangs."""
    return appeared(out, "*/*/logs/reactor/hanging").parents[2]


def appeared(out: Path, pattern: str, least: int = 0, pause: float = 0.05) -> Path:
    """A file below `out`, as soon as it has `least` bytes."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        for file in out.glob(pattern):
            if file.stat().st_size >= least:
                return file
        time.sleep(pause)
    raise AssertionError(f"there is no {pattern} below {out}")


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, errors = process.communicate(timeout=LIMIT)
    assert "Traceback" not in errors
    return process.returncode, out, errors


@pytest.mark.parametrize("driver", ["mosaik", "loop"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("isolated", ["true", "false"])
def test_an_interrupted_run_keeps_its_results_marked_partial(tmp_path, driver, number, isolated):
    scenario = reactor.write(tmp_path / "s", duration=500, pacing="5 x", isolated=isolated)
    with cosim(scenario, tmp_path / "runs", "--driver", driver) as process:
        folder = recording(tmp_path / "runs")
        os.killpg(process.pid, number)  # as a terminal does: to the workers too
        code, out, errors = ended(process)
    assert code == 1
    assert "stopping after this tick, results are kept" in errors
    assert str(folder) in out
    written = reactor.manifest(folder)
    assert written["status"] == "partial"
    assert f"stopped at {written['reached']:g} s: {number.name}" in written["error"]["message"]
    assert written["error"]["message"] in errors
    assert 0 < written["reached"] < written["duration"]
    assert len(reactor.rows(folder)) == len(reactor.rows(folder, "load")) == 3 * written["ticks_done"]
    assert written["adapters"][1]["summary"]["steps"] == written["ticks_done"]  # in order: it was asked to finish
    assert (folder / "report.html").stat().st_size > 5_000
    assert reactor.eventually_none(f"--parent {process.pid}")


def test_a_run_that_hangs_has_a_report_when_it_was_told_to_terminate(tmp_path):
    """Twice, as container engines may: that is no hurry."""
    scenario = reactor.write(tmp_path / "s", do="mark and hang", tick=4, timeout=300)
    with cosim(scenario, tmp_path / "runs") as process:
        folder = hanging(tmp_path / "runs")
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        code, _, errors = ended(process)
    assert code == 1
    assert "the results up to" in errors
    assert reactor.manifest(folder)["status"] == "partial"
    assert (folder / "report.html").stat().st_size > 5_000


def test_a_second_interrupt_does_not_wait_for_an_adapter_that_hangs(tmp_path):
    scenario = reactor.write(tmp_path / "s", do="mark and hang", tick=4, timeout=300)
    with cosim(scenario, tmp_path / "runs") as process:
        folder = hanging(tmp_path / "runs")
        workers = reactor.related(f"--parent {process.pid}")
        process.send_signal(signal.SIGINT)
        time.sleep(1.0)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        code, _, errors = ended(process)
    assert code == 1
    assert "interrupted twice" in errors or "in the middle of a tick" in errors  # whichever is first within 2 s
    written = reactor.manifest(folder)
    assert (written["status"], written["ticks_done"]) == ("partial", 3)
    assert len(reactor.rows(folder)) == 9
    assert workers
    assert reactor.eventually_none(f"--parent {process.pid}")


def test_ever_more_interrupts_do_no_harm(tmp_path):
    scenario = reactor.write(tmp_path / "s", do="mark and hang", tick=4, timeout=300)
    with cosim(scenario, tmp_path / "runs") as process:
        folder = hanging(tmp_path / "runs")
        end = time.monotonic() + LIMIT
        while process.poll() is None and time.monotonic() < end:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.3)
        process.communicate(timeout=LIMIT)
    assert reactor.manifest(folder)["status"] == "partial"
    assert len(reactor.rows(folder)) == 9
    assert reactor.eventually_none(f"--parent {process.pid}")


@pytest.mark.parametrize("driver", ["mosaik", "loop"])
def test_a_killed_run_can_still_be_read_and_its_workers_go(tmp_path, driver):
    scenario = reactor.write(tmp_path / "s", duration=500, pacing="5 x")
    with cosim(scenario, tmp_path / "runs", "--driver", driver) as process:
        folder = recording(tmp_path / "runs")
        workers = reactor.related(f"--parent {process.pid}")
        process.kill()
        process.communicate(timeout=LIMIT)
    found = reactor.rows(folder)
    assert found
    assert len(found) % 3 == 0
    assert reactor.manifest(folder)["status"] == "running"
    assert load(folder).status == "partial"
    reactor.assert_can_be_reported(folder)
    assert workers
    assert reactor.eventually_none(f"--parent {process.pid}")


def small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_500_000, 2_500_000))  # the reserve of the run's folder fits


def test_a_disk_that_refuses_ends_the_run_with_what_there_is(tmp_path):
    scenario = reactor.write(tmp_path / "s", duration=100_000, isolated="false", pacing="30 x", drones=30)
    with cosim(scenario, tmp_path / "runs", "--set", "run.step=100 ms", before=small_files) as process:
        code, _, errors = ended(process)
    folder = reactor.only_run(tmp_path / "runs")
    assert code == 1, errors
    assert str(folder / "frames") in errors
    assert "File too large" in errors
    written = reactor.manifest(folder)
    assert written["status"] == "partial"
    assert 0 < written["reached"] < written["duration"]
    assert reactor.rows(folder)


@pytest.fixture
def small_disk(tmp_path):
    """A few megabytes, where this user may mount them."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.needs("mount")
def test_a_full_disk_ends_the_run_with_what_there_is(tmp_path, small_disk):
    scenario = reactor.write(tmp_path / "s", duration=100_000, isolated="false", pacing="30 x", drones=30)
    with cosim(scenario, small_disk, "--set", "run.step=100 ms") as process:
        code, _, errors = ended(process)
    folder = reactor.only_run(small_disk)
    assert code == 1, errors
    assert "No space left on device" in errors
    assert str(folder) in errors
    written = reactor.manifest(folder)
    assert written["status"] == "partial"
    assert 0 < written["reached"] < written["duration"]
    assert reactor.rows(folder)


def test_a_place_where_no_folder_can_be_made(tmp_path):
    (tmp_path / "runs").write_text("a file is in the way")
    with cosim(reactor.write(tmp_path / "s"), tmp_path / "runs") as process:
        code, _, errors = ended(process)
    assert code == 2
    assert f"cannot make a run folder in {tmp_path / 'runs' / 'reactor'}: Not a directory" in errors


def test_runs_that_start_in_the_same_second_do_not_meet(tmp_path):
    scenario = reactor.write(tmp_path / "s", isolated="false", pacing="5 x")
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(cosim(scenario, tmp_path / "runs", "--no-report")) for _ in range(4)]
        endings = [ended(process) for process in processes]
    assert [code for code, _, _ in endings] == [0] * 4, endings
    folders = [file.parent for file in (tmp_path / "runs").glob("*/*/manifest.json")]
    assert len(folders) == 4
    for folder in folders:
        assert reactor.manifest(folder)["status"] == "complete"
        assert len(reactor.rows(folder)) == 18


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_has_a_report_from_its_first_moment_on(tmp_path, number):
    scenario = reactor.write(tmp_path / "s", duration=500, pacing="5 x")
    with cosim(scenario, tmp_path / "runs") as process:
        folder = appeared(tmp_path / "runs", "*/*/manifest.json", pause=0.001).parent
        process.send_signal(number)
        code, _, errors = ended(process)
    assert code == 1
    assert reactor.manifest(folder)["status"] == "partial"
    assert number.name in errors
    assert (folder / "report.html").stat().st_size > 5_000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_over_writes_its_report_all_the_same(tmp_path, number):
    scenario = reactor.write(tmp_path / "s", duration=2)
    with cosim(scenario, tmp_path / "runs") as process:
        folder = appeared(tmp_path / "runs", "*/*/metrics.json", pause=0.001).parent
        process.send_signal(number)
        code, _, errors = ended(process)
    assert code == 0, errors
    assert reactor.manifest(folder)["status"] == "complete"
    assert (folder / "report.html").stat().st_size > 5_000
