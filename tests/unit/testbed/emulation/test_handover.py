"""From sidecars to the service: descriptors over a Unix socket, without any privilege."""

from __future__ import annotations

import os
import socket

import msgpack
import pytest

from cosim.contract.errors import RunError, SetupError
from cosim.testbed.emulation import handover, sidecar, taps
from cosim.testbed.emulation.handover import Announcement
from cosim.testbed.emulation.orders import TO_SIDECAR
from cosim.testbed.emulation.sidecar import settings
from cosim.testbed.emulation.taps import Tap
from tests.unit.testbed.emulation.conftest import mac

UAV = Announcement("uav-1", "wlan0", mac(1))


class Ports:
    """A backend that only holds descriptors."""

    def __init__(self):
        self.held = {}
        self.closed = False

    def attach(self, node, interface, descriptor, address):
        if self.closed:
            os.close(descriptor)
            raise RunError("the backend is closed")
        self.detach(node, interface)
        self.held[node, interface] = descriptor

    def detach(self, node, interface):
        if (node, interface) in self.held:
            os.close(self.held.pop((node, interface)))


@pytest.fixture
def ports():
    made = Ports()
    yield made
    for port in list(made.held):
        made.detach(*port)


@pytest.fixture
def reception(tmp_path, ports):
    made = handover.Reception(tmp_path / "links.sock", ports)
    yield made
    made.close()
    made.close()


def served(reception, link):
    """What the service answers to what was sent last."""
    for _ in range(4):
        reception.serve(0.05)
    answer = TO_SIDECAR.unpack(link.recv(handover.PACKET))
    return answer.kind if answer.kind == "taken" else answer.body["error"]


def test_a_descriptor_is_attached_as_long_as_the_connection_lasts(reception, ports, cards, tmp_path):
    card = cards()
    link = handover.connect(tmp_path / "links.sock")
    socket.send_fds(link, [UAV.packed()], [card._far.fileno()])
    assert served(reception, link) == "taken"
    card._far.close()
    assert reception.ports == {("uav-1", "wlan0")}
    os.write(ports.held["uav-1", "wlan0"], b"hello")
    assert card.receive() == b"hello"
    assert not os.get_inheritable(ports.held["uav-1", "wlan0"])
    link.close()
    reception.serve(1.0)
    assert reception.ports == set()
    assert card.cut()


def test_one_connection_may_bring_several_ports(reception, ports, cards, tmp_path):
    with handover.connect(tmp_path / "links.sock") as link:
        for interface in ("wlan0", "lte0"):
            socket.send_fds(link, [Announcement("uav-1", interface, mac(1)).packed()], [cards()._far.fileno()])
            assert served(reception, link) == "taken"
        assert set(ports.held) == {("uav-1", "wlan0"), ("uav-1", "lte0")}
    reception.serve(1.0)
    assert not ports.held


def test_the_end_of_an_old_connection_does_not_close_what_a_new_one_has_brought(reception, ports, cards, tmp_path):
    old, new = (handover.connect(tmp_path / "links.sock") for _ in range(2))
    for link in (old, new):
        socket.send_fds(link, [UAV.packed()], [cards()._far.fileno()])
        assert served(reception, link) == "taken"
    old.close()
    reception.serve(0.2)
    assert set(ports.held) == {("uav-1", "wlan0")}
    new.close()
    reception.serve(1.0)
    assert not ports.held


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"node": ""}, "'node' of a 'announce'"),
        ({"node": 5}, "'node' of a 'announce'"),
        ({"node": "a\nb"}, "'node' of a 'announce'"),
        ({"interface": "a/b"}, "'interface' of a 'announce'"),
        ({"interface": "x" * 16}, "'interface' of a 'announce'"),
        ({"mac": 1}, "'mac' of a 'announce'"),
        ({"mac": "ff:ff:ff:ff:ff:ff"}, "not the MAC address"),
        ({"more": 1}, "must have the fields"),
        ({"at": "here"}, "is no IPv4 address"),
        ({"at": ""}, "one descriptor is expected, or none"),
        ({"remark": 5}, "'remark' of a 'announce'"),
    ],
)
def test_wrong_headers_are_refused_and_their_descriptor_closed(reception, cards, tmp_path, change, reason):
    card = cards()
    with handover.connect(tmp_path / "links.sock") as link:
        *head, body = msgpack.unpackb(UAV.packed())
        socket.send_fds(link, [msgpack.packb([*head, body | change])], [card._far.fileno()])
        card._far.close()
        assert reason in served(reception, link)
        assert card.cut()
        socket.send_fds(link, [UAV.packed()], [cards()._far.fileno()])  # the connection goes on
        assert served(reception, link) == "taken"


def test_packets_without_a_descriptor_or_with_too_many_are_refused(reception, ports, cards, tmp_path):
    with handover.connect(tmp_path / "links.sock") as link:
        link.send(UAV.packed())
        assert "one descriptor" in served(reception, link)
        first, second = cards(), cards()
        socket.send_fds(link, [UAV.packed()], [first._far.fileno(), second._far.fileno()])
        assert "one descriptor" in served(reception, link)
        link.send(b"x" * 9000)
        assert "at most 4096 B" in served(reception, link)
    first._far.close()
    second._far.close()
    assert first.cut()
    assert second.cut()
    assert not ports.held


def test_what_the_backend_refuses_is_said(reception, ports, cards, tmp_path):
    ports.closed = True
    with handover.connect(tmp_path / "links.sock") as link:
        socket.send_fds(link, [UAV.packed()], [cards()._far.fileno()])
        assert "the backend is closed" in served(reception, link)


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b'{"protocol": 2}', "no message"), (msgpack.packb([1, "announce", b"", 0, {}]), "same version")],
)
def test_a_sidecar_of_another_version_is_refused(reception, cards, tmp_path, data, reason):
    with handover.connect(tmp_path / "links.sock") as link:
        socket.send_fds(link, [data], [cards()._far.fileno()])
        assert reason in served(reception, link)


def test_a_socket_that_a_dead_service_left_is_replaced(tmp_path, ports):
    path = tmp_path / "links.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
        dead.bind(str(path))
    handover.Reception(path, ports).close()
    assert not path.exists()


def test_a_second_service_does_not_take_the_place_of_the_first(tmp_path, reception, ports):
    with pytest.raises(SetupError, match="another program is listening there"):
        handover.Reception(tmp_path / "links.sock", ports)


def test_a_file_that_is_no_socket_stays(tmp_path, ports):
    (tmp_path / "x").write_text("kept")
    with pytest.raises(SetupError, match="cannot listen for sidecars"):
        handover.Reception(tmp_path / "x", ports)
    assert (tmp_path / "x").read_text() == "kept"


def test_the_connections_have_a_bound(reception, tmp_path, monkeypatch):
    monkeypatch.setattr(handover, "CONNECTIONS", 2)
    links = [handover.connect(tmp_path / "links.sock") for _ in range(3)]
    for _ in range(5):
        reception.serve(0.05)
    links[2].settimeout(1.0)
    assert links[2].recv(1) == b""
    for link in links:
        link.close()


def test_arguments_of_a_sidecar():
    found = settings(
        ["--node", "uav-1", "--socket", "/s", "--interface", f"wlan0,{mac(1)},10.9.0.1/24,1400", "--interface",
         f"lte0,{mac(9)}", "--neighbour", f"10.9.0.2,{mac(2)}", "--neighbour", f"10.9.0.1,{mac(1)}", "--neighbour",
         f"10.8.0.2,{mac(3)}"],
        {},
    )  # fmt: skip
    assert found.node == "uav-1"
    assert str(found.service) == "/s"
    assert found.interfaces == (
        Tap("wlan0", mac(1), "10.9.0.1/24", 1400, (("10.9.0.2", mac(2)),)),
        Tap("lte0", mac(9)),
    )


def test_a_sidecar_may_be_told_by_its_environment():
    environment = {
        "COSIM_NODE": "uav-1",
        "COSIM_INTERFACES": f"wlan0,{mac(1)},10.9.0.1/24 lte0,{mac(4)}",
        "COSIM_NEIGHBOURS": f"10.9.0.2,{mac(2)}",
    }
    found = settings([], environment)
    assert [one.name for one in found.interfaces] == ["wlan0", "lte0"]
    assert found.interfaces[0].neighbours == (("10.9.0.2", mac(2)),)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no node"),
        (["--node", "a"], "no interface"),
        (["--node", "a", "--interface", "wlan0"], "is no interface; expected NAME,MAC"),
        (["--node", "a", "--interface", f"wlan0,{mac(1)},10.9.0.1/24,big"], "is no interface"),
        (["--node", "a", "--interface", f"wlan0,{mac(1)},10.9.0.1/24,9"], "MTU 9 B"),
        (["--node", "a", "--interface", "wlan0,nonsense"], "not the MAC address"),
        (["--node", "a", "--interface", f"wlan0,{mac(1)},10.9.0.300/24"], "10.9.0.300"),
        (["--node", "a", "--interface", f"much-too-long-name,{mac(1)}"], "cannot name an interface"),
        (["--node", "a\n", "--interface", f"wlan0,{mac(1)}"], "'node' of a 'announce'"),
        (["--node", "a", "--interface", f"w,{mac(1)},10.9.0.1/24", "--neighbour", "x"], "is no neighbour"),
        (
            ["--node", "a", "--interface", f"w,{mac(1)},10.9.0.1/24", "--neighbour", f"x,{mac(2)}"],
            "neighbour: Expected 4 octets",
        ),
    ],
)
def test_wrong_settings_of_a_sidecar_are_told(arguments, message):
    with pytest.raises(SetupError, match=message):
        settings(arguments, {})


def test_a_machine_without_the_device_is_told_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(taps, "DEVICE", tmp_path / "tun")
    with pytest.raises(SetupError, match=r"modprobe tun.*--device"):
        taps.make(Tap("wlan0", mac(1)))


def test_a_process_without_the_right_is_told_what_to_do(monkeypatch):
    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(taps.os, "open", refused)
    with pytest.raises(SetupError, match="CAP_NET_ADMIN"):
        taps.make(Tap("wlan0", mac(1)))


def test_a_sidecar_goes_on_when_its_kernel_was_late_and_ends_when_it_cannot_work(monkeypatch):
    answers = iter([RunError("the kernel has not answered"), SetupError("no rights")])

    def hand_over_all(*_):
        raise next(answers)

    monkeypatch.setattr(sidecar, "hand_over_all", hand_over_all)
    monkeypatch.setattr(sidecar, "LONGEST_PAUSE", 0.0)
    with pytest.raises(SetupError, match="no rights"):
        sidecar._attach(settings(["--node", "a", "--interface", f"wlan0,{mac(1)}"], {}))
