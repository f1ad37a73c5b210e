"""The network service as its clients and sidecars see it: everything in processes of its own, nothing privileged."""

from __future__ import annotations

import contextlib
import json
import math
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import msgpack
import pytest
import zmq
from hypothesis import example, given
from hypothesis import strategies as st

from cosim.contract.errors import ProtocolError, RunError
from cosim.contract.link import LinkState
from cosim.talk.codec import PROTOCOL
from cosim.testbed.emulation import handover, message
from cosim.testbed.emulation.client import Client
from cosim.testbed.emulation.handover import Announcement
from cosim.testbed.emulation.orders import TO_SIDECAR
from cosim.testbed.emulation.probing import Inside, Probe
from cosim.testbed.emulation.protocol import PairCount
from cosim.testbed.emulation.state import Health
from tests.unit.testbed.emulation.conftest import Card, frame, mac, until

ROOT = Path(__file__).resolve().parents[4]
FREE = LinkState(math.inf, 0.0, 0.0, 0.0)
SESSION = b"8 bytes!"
pytestmark = pytest.mark.needs("cc")


class Running:
    """A service process; `again` starts another at the same addresses."""

    def __init__(self, folder):
        self.socket = folder / "links.sock"
        self.commands = self.reports = "tcp://127.0.0.1:*"
        self.process = None
        self.again()

    def again(self):
        command = [sys.executable, "-m", "cosim.testbed.emulation.service", "--backend", "linkd"]
        command += ["--sidecars", str(self.socket), "--commands", self.commands, "--reports", self.reports]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT)
        said = json.loads(self.process.stdout.readline())
        self.commands, self.reports = said["commands"], said["reports"]

    def end(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        code = self.process.wait(60)
        self.process.stdout.close()
        return code


@pytest.fixture
def service(tmp_path):
    made = Running(tmp_path)
    yield made
    if made.process.returncode is None:
        made.end()


@pytest.fixture
def sidecars(service):
    made = []

    def make(*nodes):
        made.append(Sidecar(service, *nodes))
        return made[-1]

    yield make
    for sidecar in made:
        sidecar.close()


@pytest.fixture
def client(service):
    with Client(service.commands, service.reports) as made:
        yield made


class Sidecar:
    """Hands over cards as long as it is open."""

    def __init__(self, service, *nodes):
        self.link = None

        def connect():
            try:
                self.link = handover.connect(service.socket)
            except OSError:
                return False
            return True

        until(connect)
        self.cards = {}
        for node in nodes:
            self.cards[node] = Card()
            what = Announcement(node, "wlan0", mac("abc".index(node) + 1))
            handover.hand_over(self.link, what, self.cards[node].give())

    def close(self):
        self.link.close()
        for card in self.cards.values():
            card.socket.close()


def works(client, sidecar):
    """Wait until a frame passes from a to b."""

    def passed():
        client.poll()
        sidecar.cards["a"].send(frame(2))
        return not sidecar.cards["b"].silent(0.05)

    until(passed)


def test_links_are_imposed_acknowledged_and_counted(service, sidecars, client):
    sidecar = sidecars("a", "b")
    client.links({("a", "b", "wlan0"): FREE})
    client.move({"a": (1.0, 2.0, 3.0)})
    client.wait()
    client.await_ports({("a", "wlan0"), ("b", "wlan0")})
    works(client, sidecar)
    until(lambda: client.poll() or client.counts())
    assert client.counts()["a", "b", "wlan0"].bytes >= 60
    assert client.report.backend == "linkd"
    assert client.report.health.alive
    sidecar.close()
    until(lambda: client.poll() or not client.report.ports)


def test_ports_that_do_not_come_are_named(client):
    with pytest.raises(RunError, match=r"no sidecar has handed over wlan0 of b, wlan0 of c within 0\.3 s"):
        client.await_ports({("c", "wlan0"), ("b", "wlan0")}, 0.3)


def test_a_killed_service_is_told_everything_again(service, sidecars, client):
    sidecar = sidecars("a", "b")
    client.links({("a", "b", "wlan0"): FREE})
    client.wait()
    works(client, sidecar)
    until(lambda: client.poll() or client.counts())
    before = client.counts()["a", "b", "wlan0"].frames
    cards = list(sidecar.cards.values())
    service.end()
    until(lambda: all(card.cut() for card in cards))  # its engine died with it: the interfaces are gone
    sidecar.close()
    service.again()
    sidecar = sidecars("a", "b")
    works(client, sidecar)
    client.wait()
    until(lambda: client.poll() or client.counts()["a", "b", "wlan0"].frames > before)


def test_what_is_said_while_there_is_no_service_is_not_lost(service, sidecars, client):
    client.wait()
    service.end()
    for number in range(100):  # more than the queue holds
        client.links({("a", "b", "wlan0"): LinkState(1e6 + number, 0.0, 0.0, 0.0), (f"n{number}", "b", "wlan0"): FREE})
    client.links({("a", "b", "wlan0"): FREE})
    with pytest.raises(RunError, match=r"no answer from the network service within 0\.2 s"):
        client.wait(0.2)
    service.again()
    client.wait(60.0)
    sidecar = sidecars("a", "b")
    works(client, sidecar)


def test_a_service_ends_in_good_order(service, client):
    client.wait()
    assert service.end(signal.SIGTERM) == 0
    assert not service.socket.exists()


def test_a_client_that_speaks_nonsense_is_told_and_harms_nobody(service, client):
    with zmq.Context() as context, context.socket(zmq.DEALER) as rude:
        rude.connect(service.commands)
        for data in (b"nonsense", message.links(SESSION, 1, {("a", "b", "w"): FREE})[:-5]):
            rude.send(data)
            assert rude.poll(5000)
            assert message.read_answer(rude.recv()).error
        rude.send_multipart([b"a", b"b"])  # this ends its connection
        assert not rude.poll(200)
    client.links({("a", "b", "wlan0"): FREE})
    client.wait()


def test_too_many_ports_are_refused(client):
    client.wait()
    client.links({(f"n{number}", "b", "wlan0"): FREE for number in range(1023)})
    client.wait()
    client.links({("one more", "b", "wlan0"): FREE})
    with pytest.raises(RunError, match="refuses: more than 1024 ports"):
        client.wait()


def test_an_old_command_is_answered_but_not_applied(service, sidecars, client):
    sidecar = sidecars("a", "b")
    with zmq.Context() as context, context.socket(zmq.DEALER) as slow:
        slow.connect(service.commands)
        for number, state in ((7, FREE), (6, LinkState(0.0, 0.0, 0.0, 1.0))):
            slow.send(message.links(SESSION, number, {("a", "b", "wlan0"): state}))
            assert message.read_answer(slow.recv()).number == number
    works(client, sidecar)


def test_a_taken_address_is_said_so(service, tmp_path):
    command = [sys.executable, "-m", "cosim.testbed.emulation.service", "--backend", "linkd"]
    command += ["--sidecars", str(tmp_path / "other.sock"), "--commands", service.commands]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert f"cannot listen at {service.commands}" in done.stderr


def test_an_engine_that_is_not_there_is_said_so(tmp_path):
    command = [sys.executable, "-m", "cosim.testbed.emulation.service", "--engine", "/no-such-engine --fast"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "/no-such-engine: cannot be started" in done.stderr


def test_no_address_is_said_so():
    with pytest.raises(RunError, match="no address of a network service"):
        Client("nonsense", "tcp://127.0.0.1:1")


names = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=8)
states = st.builds(LinkState, st.floats(0, 1e12), st.floats(0, 60), st.floats(0, 60), st.floats(0, 1),
                   st.just(0.0) | st.floats(1, 1e6), st.floats(0, 1), st.floats(0, 1))  # fmt: skip
keys = st.tuples(names, names, names).filter(lambda key: key[0] != key[1])


@given(st.dictionaries(keys, states, max_size=20), st.integers(1, 2**62))
@example({}, 1)
def test_links_arrive_as_they_were_sent(said, number):
    found = message.command(message.links(SESSION, number, said))
    assert (found.verb, found.session, found.number) == ("links", SESSION, number)
    assert found.links == said


@given(st.dictionaries(names, st.tuples(*[st.floats(-1e6, 1e6)] * 3), max_size=20))
def test_positions_arrive_as_they_were_sent(said):
    assert message.command(message.move(SESSION, 1, said)).positions == said


@given(st.dictionaries(keys, st.floats(0, 1e12) | st.just(math.inf), max_size=20))
def test_links_to_be_probed_arrive_as_they_were_sent(said):
    assert message.command(message.probes(SESSION, 1, said)).probes == said


def test_links_without_a_rate_are_not_probed():
    for rate in (-1.0, math.nan):
        with pytest.raises(ProtocolError, match="negative or none"):
            message.command(message.probes(SESSION, 1, {("a", "b", "w"): rate}))


@pytest.mark.clock
def test_probes_are_made_by_the_sidecars(service, sidecars, client):
    sidecar = sidecars("a"), sidecars("b")
    for one in sidecar:
        inside = Inside(one.link, {"wlan0": "127.0.0.1"})
        threading.Thread(target=listens, args=(one.link, inside), daemon=True).start()
    client.await_ports({("a", "wlan0"), ("b", "wlan0")})
    number = client.probe({("a", "b", "wlan0"): 1e6, ("a", "c", "wlan0"): 1e6})
    until(lambda: client.poll() or len(client.probes(number)) == 2, 20)
    assert client.probes(number)["a", "c", "wlan0"].error == "c has no sidecar"
    found = client.probes(number)["a", "b", "wlan0"]
    assert not found.error
    assert found.received == found.sent > 50
    assert 0 < found.delay < 0.5
    assert client.probes(number + 1) == {}


def listens(link, inside):
    with contextlib.suppress(OSError):
        while data := link.recv(4096):
            inside.take(TO_SIDECAR.unpack(data))


def test_a_report_arrives_as_it_was_sent():
    health = Health(True, 0.1, 0.2, 3, 2, 1, 0.5, 1e6, 17, 5, 71.5, 71.9)
    ports = frozenset({("a", "w"), ("b", "w")})
    probes = {("a", "b", "w"): Probe(SESSION, 3, 0.1, 0.2, 4, 5, 6.0, "why")}
    said = message.EmulationReport(SESSION, "linkd", 1, ports, health, {("a", "b", "w"): PairCount(1, 2, 3, 4)}, probes)
    assert message.read_report(message.report(said)) == said


STATES = message.FROM_CLIENT.unpack(message.links(SESSION, 1, {("a", "b", "w"): FREE})).body


def altered(number=1, session=SESSION, **changes):
    return msgpack.packb([PROTOCOL, "links", session, number, STATES | changes])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no message"),
        (msgpack.packb([1]), "no message"),
        (msgpack.packb([PROTOCOL - 1, "links", SESSION, 1, STATES]), "install the same version"),
        (msgpack.packb([PROTOCOL, "fly", SESSION, 1, STATES]), "there is no message 'fly'"),
        (altered(session=b"x"), "without session and number"),
        (altered(number=0), "without session and number"),
        (altered(number=True), "without a number"),
        (altered(names=["a"]), "a name that is not listed"),
        (altered(names=["a", "", "w"]), "'names' of a 'links'"),
        (altered(names="abw"), "'names' of a 'links'"),
        (altered(names=["x"] * 5000), "'names' of a 'links'"),
        (altered(keys=b"1"), "'keys' of a 'links'"),
        (altered(keys=bytes(12)), "a link of 'a' to itself"),
        (altered(keys=b"\xff" * 12), "a name that is not listed"),
        (altered(keys=b""), "0 links, but 1 rows"),
        (altered(rows=b"\xff" * 56), "no such link"),
        (altered(rows=[1.0] * 5), "'rows' of a 'links'"),
        (message.move(SESSION, 1, {"a": (math.nan, 0.0, 0.0)}), "not finite"),
    ],
)
def test_wrong_commands_are_refused_with_the_reason(data, reason):
    with pytest.raises(ProtocolError, match=reason):
        message.command(data)


def test_the_service_holds_no_descriptor_of_a_port_that_is_gone(service, sidecars, client):
    first = sidecars("a", "b")
    client.await_ports({("a", "wlan0"), ("b", "wlan0")})  # a report has come, so both of the client's sockets stand
    folder = Path(f"/proc/{service.process.pid}/fd")
    held = len(list(folder.iterdir()))
    first.close()
    for _ in range(3):
        sidecars("a", "b").close()
    # The first sidecar's connection and its two cards are closed, and those of none that came after are open.
    until(lambda: len(list(folder.iterdir())) <= held - 3, 30.0)
    assert folder.is_dir()  # it has not died
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as idle:
        idle.connect(str(service.socket))
