"""Names of namespaces and what is left of dead runs, without making any."""

from __future__ import annotations

import os
import subprocess
import threading

import pytest

from cosim.contract.errors import SetupError
from cosim.testbed.emulation import netns


def test_a_run_is_a_process_and_when_it_started():
    own = netns.run_of(os.getpid())
    assert own.startswith(f"{os.getpid():x}x")
    assert own == netns.run_of(os.getpid())
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert netns.run_of(ended.pid) == ""


def test_only_what_dead_runs_have_made_is_left_over(tmp_path, monkeypatch):
    monkeypatch.setattr(netns, "FOLDER", tmp_path)
    number, _, started = netns.run_of(os.getpid()).partition("x")
    for name in (f"cosim-{number}x{started}-a", f"cosim-{number}x{int(started, 16) - 1:x}-b", "other", "cosim-x-y"):
        (tmp_path / name).touch()
    assert netns.leftovers() == [f"cosim-{number}x{int(started, 16) - 1:x}-b"]
    monkeypatch.setattr(netns, "FOLDER", tmp_path / "none")
    assert netns.leftovers() == []


def test_namespaces_of_others_are_not_deleted():
    with pytest.raises(SetupError, match="no namespace of this program"):
        netns.delete("other")


@pytest.mark.needs("ip")
@pytest.mark.parametrize("node", ["", "a b", "a/b", "x" * 65])
def test_names_that_no_file_can_have_are_refused(node):
    with netns.Namespaces() as spaces, pytest.raises(SetupError, match="cannot name a namespace"):
        spaces.create(node)


def test_a_machine_without_ip_is_told_what_to_do(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SetupError, match="install iproute2"):
        netns.Namespaces()


def test_without_a_namespace_the_call_is_made_here():
    assert netns.inside(None, threading.get_ident) == threading.get_ident()


def test_errors_inside_come_out(tmp_path):
    with pytest.raises(SetupError, match="cannot enter the network namespace"):
        netns.inside(tmp_path, lambda: 1)
