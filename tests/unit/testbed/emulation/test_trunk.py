"""Nodes of another machine: one service has all links, and frames go over TCP."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time

import pytest

from cosim.contract.errors import SetupError
from cosim.talk.codec import Message
from cosim.testbed.emulation import handover, trunk
from cosim.testbed.emulation.handover import Announcement, PortRefusedError, Reception
from cosim.testbed.emulation.orders import FROM_SIDECAR, TO_SIDECAR
from tests.unit.testbed.emulation.conftest import until

KEY = b"0123456789abcdef"
LIMIT = 60.0  # s


class Ports:
    """A backend that keeps the descriptors."""

    def __init__(self):
        self.ports = {}

    def attach(self, node, interface, descriptor, mac):
        if node == "bad":
            os.close(descriptor)
            raise PortRefusedError("no such node")
        self.ports[node, interface] = descriptor

    def detach(self, node, interface):
        os.close(self.ports.pop((node, interface)))


@contextlib.contextmanager
def running(*trunks):
    stop = threading.Event()
    threads = [threading.Thread(target=one.run, args=(stop.is_set,)) for one in trunks]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        for one in trunks:
            one.close()
            one.close()


@pytest.fixture
def service(tmp_path):
    """What there is on the machine with the network service: its ports, what sidecars said, and how to tell them."""
    backend, heard, ending = Ports(), [], threading.Event()
    reception = Reception(tmp_path / "near.sock", backend, 0o600)
    reception.heard = lambda node, word: heard.append((node, word))

    def serve():
        while not ending.is_set():
            reception.serve()
            time.sleep(0.002)

    thread = threading.Thread(target=serve)
    thread.start()
    yield backend, heard, reception
    ending.set()
    thread.join()
    reception.close()


def ends(folder, key=KEY, other=KEY):
    one = trunk.near(("127.0.0.1", 0), folder / "near.sock", key)
    return one, trunk.far(("127.0.0.1", one.port), folder / "far.sock", other)


def interface():
    """A node's interface as its sidecar has it: what the node sends and gets, and the descriptor to hand over."""
    node, handed = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    node.settimeout(LIMIT)
    return node, handed.detach()


def test_frames_and_words_go_both_ways_and_the_end_of_a_sidecar_is_seen(tmp_path, service):
    backend, heard, reception = service
    with running(*ends(tmp_path)):
        node, handed = interface()
        link = handover.connect(tmp_path / "far.sock")
        handover.hand_over(link, Announcement("uav", "wlan0", "02:00:00:00:00:01"), handed)
        second, other = interface()
        handover.hand_over(link, Announcement("uav", "eth1", "02:00:00:00:00:02"), other)
        assert set(backend.ports) == {("uav", "wlan0"), ("uav", "eth1")}
        for size in (60, 1514, 9000):
            frame = bytes([size % 251]) * size
            for there, name in ((node, "wlan0"), (second, "eth1")):
                there.send(frame)
                end = backend.ports["uav", name]
                until(lambda end=end, frame=frame: _read(end) == frame)
                os.write(end, frame[::-1])
                assert there.recv(1 << 16) == frame[::-1]
        link.send(FROM_SIDECAR.pack("unread", {"frames": 3}))
        until(lambda: heard == [("uav", Message("unread", {"frames": 3}))])
        assert reception.send_to("uav", "routes", {"routes": []})
        link.settimeout(LIMIT)
        assert TO_SIDECAR.unpack(link.recv(4096)) == Message("routes", {"routes": []})
        link.close()
        until(lambda: not backend.ports)
        node.close()
        second.close()


def _read(descriptor):
    try:
        return os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return None


def test_a_refusal_comes_through(tmp_path, service):
    with running(*ends(tmp_path)):
        node, handed = interface()
        with handover.connect(tmp_path / "far.sock") as link, pytest.raises(PortRefusedError, match="no such node"):
            handover.hand_over(link, Announcement("bad", "wlan0", "02:00:00:00:00:01"), handed)
        node.close()


def test_whoever_does_not_know_the_secret_reaches_nothing(tmp_path, service, caplog):
    backend, _, _ = service
    with running(*ends(tmp_path, other=b"fedcba9876543210")):
        node, handed = interface()
        with handover.connect(tmp_path / "far.sock") as link, pytest.raises(OSError):  # noqa: PT011 - any way to end
            handover.hand_over(link, Announcement("uav", "wlan0", "02:00:00:00:00:01"), handed)
        until(lambda: "a client without the secret was refused" in caplog.text)
        assert backend.ports == {}
        node.close()


def test_a_false_near_end_gets_no_frames(tmp_path, service, caplog):
    with socket.create_server(("127.0.0.1", 0)) as false:
        other = trunk.far(false.getsockname(), tmp_path / "far.sock", KEY)
        with running(other):
            node, handed = interface()
            with handover.connect(tmp_path / "far.sock") as link:
                link.setblocking(False)
                socket.send_fds(link, [b"{}"], [handed])
                os.close(handed)
                met, _ = false.accept()
                with met:
                    met.sendall(bytes(32))
                    trunk._exactly(met, 64)
                    met.sendall(bytes(32))
                    until(lambda: "does not know the secret" in caplog.text)
                    assert met.recv(1) == b""
            node.close()


def test_a_first_machine_that_is_not_up_yet_is_told_once(tmp_path, caplog):
    with socket.create_server(("127.0.0.1", 0)) as ended:
        nobody = ended.getsockname()
    other = trunk.far(nobody, tmp_path / "far.sock", KEY)
    with running(other):
        for _ in range(3):
            with handover.connect(tmp_path / "far.sock") as link:
                link.settimeout(LIMIT)
                assert link.recv(1) == b""
    assert caplog.text.count("waiting for the first machine: no trunk at 127.0.0.1") == 1


def test_a_stranger_who_says_nothing_holds_nobody_up(tmp_path, service):
    backend, _, _ = service
    one, other = ends(tmp_path)
    with running(one, other), socket.create_connection(("127.0.0.1", one.port)):
        node, handed = interface()
        begun = time.monotonic()
        with handover.connect(tmp_path / "far.sock") as link:
            handover.hand_over(link, Announcement("uav", "wlan0", "02:00:00:00:00:01"), handed)
            assert time.monotonic() - begun < trunk.GREETING
            assert ("uav", "wlan0") in backend.ports
        node.close()


def test_nonsense_ends_a_connection(tmp_path, service):
    backend, _, _ = service
    one = trunk.near(("127.0.0.1", 0), tmp_path / "near.sock", KEY)
    with running(one), socket.create_connection(("127.0.0.1", one.port), LIMIT) as link:
        asked = link.recv(32)
        link.sendall(bytes(32) + trunk._proof(KEY, b"far", asked))
        assert trunk._exactly(link, 32) == trunk._proof(KEY, b"near", bytes(32))
        link.sendall(b"\xff" * 64)
        with contextlib.suppress(ConnectionResetError):
            assert link.recv(64) == b""
    assert backend.ports == {}


def test_the_secret_is_a_file_of_its_owner(tmp_path):
    file = tmp_path / "key"
    with pytest.raises(SetupError, match="No such file"):
        trunk.secret(file)
    file.write_text("short")
    file.chmod(0o600)
    with pytest.raises(SetupError, match="fewer than 16"):
        trunk.secret(file)
    file.write_bytes(KEY + b"\n")
    assert trunk.secret(file) == KEY
    file.chmod(0o644)
    with pytest.raises(SetupError, match="can be read by others"):
        trunk.secret(file)


def test_wrong_arguments_are_told(tmp_path, capsys):
    for words in (
        ["far", "--key", "k"],
        ["near", "--to", "a:1", "--key", "k"],
        ["near", "--listen", "5605", "--key", "k"],
    ):
        with pytest.raises(SystemExit):
            trunk.main(words)
    assert trunk.main(["near", "--key", str(tmp_path / "none")]) == 2
