"""What is skipped for want of something is listed by names that pytest takes again, and fails where it is required."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUITE = """
import pytest

@pytest.mark.parametrize("x", ["a b", "[q]", "a@b", "::", "\\u2028\\n", "-x", "x" * 100, b"\\xff"])
def test_of_a_module(x):
    pytest.importorskip("lacking")

@pytest.mark.xdist_group("a group@of tests")
@pytest.mark.needs("sh", "lacking-program")
class TestOfAProgram:
    def test_it(self):
        pass

def test_of_nothing():
    pass

@pytest.mark.xfail
def test_that_fails():
    raise AssertionError
"""
WHOLE = "import pytest\npytest.importorskip('lacking')\ndef test_it():\n    pass\n"


@pytest.fixture
def suite(tmp_path):
    """Runs pytest over a small suite with our conftest."""
    marks = "\n".join(f"  {name}: x" for name in ("needs(program)", "xdist_group(name)", "slow", "chaos", "clients"))
    (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = --strict-markers\nmarkers =\n{marks}\n")
    (tmp_path / "test_some.py").write_text(SUITE)
    (tmp_path / "test_whole.py").write_text(WHOLE)

    def run(*words, **environment):
        unset = dict.fromkeys(("COSIM_SKIPS", "COSIM_REQUIRE", "COSIM_RERUNS"), "")
        own = {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}", **unset, **environment}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider", *words]
        return subprocess.run(command, cwd=tmp_path, env={**os.environ, **own}, capture_output=True, text=True)

    return run


def test_what_was_skipped_runs_again_where_it_is_there(suite, tmp_path):
    done = suite("-n1", "--dist=loadgroup", COSIM_SKIPS="skipped")  # which adds the group to each name
    assert "1 passed, 10 skipped, 1 xfailed" in done.stdout
    (tmp_path / "lacking.py").touch()
    (tmp_path / "lacking-program").touch(0o755)
    assert "\n10 passed" in suite("@skipped", PATH=f"{os.environ['PATH']}{os.pathsep}{tmp_path}").stdout


def test_what_is_required_is_not_skipped(suite):
    done = suite("--continue-on-collection-errors", COSIM_REQUIRE="lacking lacking-program")
    assert "ERROR test_whole.py - test_whole.py: Skipped: could not import 'lacking'" in done.stdout
    assert "8 failed, 2 passed, 1 xfailed, 1 error" in done.stdout


def test_what_has_not_begun_in_time_is_skipped(suite):
    done = suite("-rs", COSIM_UNTIL="1")
    assert "no time is left" in done.stdout
    assert "passed" not in done.stdout


def test_what_fails_is_tried_again_as_often_as_is_asked(suite, tmp_path):
    (tmp_path / "test_due.py").write_text("tries = []\ndef test_it():\n    assert tries.append(1) or tries == [1, 1]\n")
    assert "\n1 failed" in suite("test_due.py").stdout
    assert "\n1 passed, 1 rerun" in suite("test_due.py", COSIM_RERUNS="1").stdout
