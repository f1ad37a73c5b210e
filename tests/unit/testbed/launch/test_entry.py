"""The first program of the orchestrator's container: whom it becomes."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from cosim.testbed.launch import entry


@pytest.fixture
def calls(monkeypatch):
    """What would have been asked of the kernel, in order."""
    found = []
    monkeypatch.setattr(os, "getuid", lambda: 0)
    for name in ("chown", "setgroups", "setgid", "setuid", "execv"):
        monkeypatch.setattr(os, name, lambda *given, name=name: found.append((name, *given)))
    return found


class Folder:
    """A folder of somebody."""

    def __init__(self, user, group, there=True, content=()):
        self._owner, self._there, self._content = SimpleNamespace(st_uid=user, st_gid=group), there, content

    def stat(self):
        return self._owner

    def is_dir(self):
        return self._there

    def iterdir(self):
        return iter(self._content)


def test_results_and_process_go_to_the_owner_of_the_scenario(calls):
    results = Folder(0, 0)
    entry.become(Folder(1234, 567), results)
    assert calls == [("chown", results, 1234, 567), ("setgroups", []), ("setgid", 567), ("setuid", 1234)]


@pytest.mark.parametrize(
    "results",
    [Folder(1234, 567), Folder(0, 0, there=False), Folder(0, 0, content=["passwd"]), Folder(99, 99)],
)
def test_results_that_the_engine_has_not_made_are_left_alone(calls, results):
    entry.become(Folder(1234, 567), results)
    assert [name for name, *_ in calls] == ["setgroups", "setgid", "setuid"]


def test_who_is_not_root_stays_who_they_are(calls, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    entry.become(Folder(1234, 567), Folder(0, 0))
    assert calls == []


def test_it_becomes_the_command(calls, monkeypatch, tmp_path):
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(sys, "argv", ["entry", "run", "/scenario"])
    monkeypatch.setenv("HOME", str(tmp_path))
    entry.main()
    assert calls == [("execv", sys.executable, [sys.executable, "-m", "cosim", "run", "/scenario"])]
    assert os.environ["HOME"] == "/tmp"


def test_values_are_overridden_for_once(calls, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(sys, "argv", ["entry", "run", "/scenario"])
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setenv("COSIM_SET", "run.duration='2 min' run.seed=3")
    entry.main()
    ((_, _, command),) = calls
    assert command[-4:] == ["--set", "run.duration=2 min", "--set", "run.seed=3"]


def test_quotes_that_are_not_closed_are_refused(calls, monkeypatch, capsys):
    monkeypatch.setenv("COSIM_SET", "run.duration='2 min")
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 2
    assert "COSIM_SET: cannot read" in capsys.readouterr().err
    assert calls == []
