"""A worker that listens ends when it is told to, whatever it does at that moment."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from cosim import version
from cosim.bus.listen import Listener, own_machine
from cosim.bus.remote import RemoteAdapter
from cosim.bus.service import AdapterService, merged
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Agreement, Scene, Workload
from cosim.contract.errors import SetupError
from cosim.contract.frame import Frame
from cosim.contract.laws import Law
from cosim.contract.registry import adapter_kind
from cosim.talk import keys
from cosim.talk.codec import Message


class Idle:
    """A service that nobody calls."""

    session = None


def test_an_exit_that_somebody_swallowed_still_ends_the_service():
    listener = Listener("tcp://127.0.0.1:*")
    asked = threading.Event()
    worker = threading.Thread(target=listener.serve, args=(Idle(),), kwargs={"leaving": asked.is_set})
    worker.start()
    asked.set()
    worker.join(30.0)
    assert not worker.is_alive()
    listener.close()


@pytest.mark.parametrize(
    ("address", "own"),
    [
        ("tcp://127.0.0.1:*", True), ("tcp://127.8.8.8:5555", True), ("tcp://[::1]:5555", True),
        ("tcp://localhost:5555", True), ("ipc:///tmp/worker", True), ("tcp://0.0.0.0:5555", False),
        ("tcp://*:5555", False), ("tcp://10.0.0.7:5555", False), ("tcp://edge:5555", False), ("tcp://eth0:1", False),
    ],
)  # fmt: skip
def test_what_other_machines_can_reach_needs_keys(address, own):
    assert own_machine(address) is own
    if not own:
        with pytest.raises(SetupError, match="a folder of keys by --keys"):
            Listener(address)


CONFIG = {"simulator": {"command": "touch PWNED %(addr)s"}}


def refused(config, fixed=None, use="mosaik", root="/nowhere"):
    service = AdapterService(use, root, fixed or {}, trusted=False)
    model = adapter_kind(use).load_config()
    service._refuse(model, config, Scene(capacity=1))


@pytest.mark.parametrize(
    ("use", "config", "said"),
    [
        ("mosaik", CONFIG, r"'simulator\.command' runs a command; fix it by --set simulator\.command=VALUE"),
        ("mosaik", {"simulator": {"python": "os:system"}}, "runs code"),
        ("sumo", {"network": "a.net.xml", "options": {"fcd-output": "x"}}, "any files"),
        ("replay", {"file": "/etc/passwd"}, "outside the scenario's folder"),
        ("replay", {"file": "../x"}, "outside the scenario's folder"),
    ],
)
def test_a_run_cannot_have_a_worker_reach_beyond_its_files(use, config, said):
    with pytest.raises(SetupError, match=said):
        refused(config, use=use)


def test_what_the_owner_of_a_worker_gives_holds():
    fixed = {"simulator.command": "plant %(addr)s"}
    refused(CONFIG, fixed)
    assert merged(CONFIG, fixed) == {"simulator": {"command": "plant %(addr)s"}}
    assert merged({}, {"a.b.c": 1, "a.d": 2}) == {"a": {"b": {"c": 1}, "d": 2}}


def test_a_greeting_alone_does_not_keep_others_out(tmp_path, monkeypatch):
    answers = []
    service = AdapterService("tests.chaos.misbehaving:ADAPTER", str(tmp_path), trusted=False)
    hello = Message("hello", {"version": version(), "use": "tests.chaos.misbehaving:ADAPTER"})

    def greet(peer):
        service.answer(peer, lambda: (hello, None), lambda kind, *_: answers.append(kind))

    greet(b"a")
    greet(b"b")
    assert answers == ["done", "failed"]
    monkeypatch.setattr("cosim.bus.service._PATIENCE", 0.0)
    greet(b"b")
    assert answers[2:] == ["done"]
    assert service.session.peer == b"b"


def test_a_rule_of_a_run_that_is_code_is_refused(tmp_path):
    service = AdapterService("continuum", str(tmp_path), trusted=False)
    law = Law("fixed", 0.0)
    load = Workload("w", (), "every", 1.0, law, law, law, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    load = replace(load, agreement=Agreement(1.0, 1.0, 0.0, 0.0, "os:system"))
    with pytest.raises(SetupError, match="'os:system'"):
        service._refuse(adapter_kind("continuum").load_config(), {}, Scene(workloads=(load,), capacity=1))


def test_a_worker_with_keys_works_for_none_but_those_who_have_one(tmp_path):
    folder = tmp_path / "keys"
    server = keys.server_key(folder)
    for name in ("run", "stranger"):
        keys.write(keys.make(name, server.public), tmp_path)
    (tmp_path / "run.pub").rename(folder / "run.pub")
    service = AdapterService("tests.chaos.misbehaving:ADAPTER", str(tmp_path), trusted=False)
    listener = Listener("tcp://127.0.0.1:*", folder)
    stop = threading.Event()
    worker = threading.Thread(target=listener.serve, args=(service,), kwargs={"leaving": stop.is_set})
    worker.start()
    frame = Frame("mobility", 1.0, np.arange(2, dtype=np.int32), {"x": np.arange(2.0)})
    context = Context("echo", Scene(capacity=10), 1.0, 1.0, (1,), str(tmp_path), str(tmp_path))
    try:
        for key, said in (("stranger.key", "does not know this key"), ("", "asks for a key")):
            remote = RemoteAdapter(
                "echo", "tests.chaos.misbehaving:ADAPTER", {}, timeout=20.0, connect=listener.address,
                key=str(tmp_path / key) if key else "",
            )  # fmt: skip
            with pytest.raises(SetupError, match=said):
                remote.start(context)
            remote.close()
        remote = RemoteAdapter(
            "echo", "tests.chaos.misbehaving:ADAPTER", {}, timeout=20.0, connect=listener.address,
            key=str(tmp_path / "run.key"),
        )  # fmt: skip
        remote.start(context)
        (answer,) = remote.step(1.0, Inputs({"mobility": [frame]}))
        assert answer["double"].tolist() == [0.0, 2.0]
        remote.finish()
        remote.close()
    finally:
        stop.set()
        worker.join(30.0)
        listener.close()
        service.close()


def test_who_does_not_talk_zeromq_is_shown_out(monkeypatch):
    monkeypatch.setattr("cosim.bus.listen.PATIENCE", 0.2)
    with closing(Listener("tcp://127.0.0.1:*")) as listener:
        port = int(listener.address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), 20.0) as guest:
            while guest.recv(64):  # its greeting, and then the end
                pass
