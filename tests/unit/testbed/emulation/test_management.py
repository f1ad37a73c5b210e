"""Of the management network a node has the way to the run and no other."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading

import pytest

from cosim.testbed.emulation import netns
from cosim.testbed.emulation.management import Management, addresses, name_servers
from cosim.testbed.emulation.sidecar import settings


def inside(call):
    """What `call` returns in a namespace with a management card, one that leads outside, and one of ours."""
    found = []
    with netns.Namespaces() as spaces:
        name = spaces.create("a").name
        for card, address in (("eth0", "172.30.0.5/24"), ("eth1", "172.31.0.5/24"), ("wlan0", "10.171.0.1/16")):
            spaces.run("a", ["ip", "link", "add", card, "type", "veth", "peer", "name", f"{card}-far"])
            spaces.run("a", ["ip", "address", "add", address, "dev", card])
            spaces.run("a", ["ip", "link", "set", f"{card}-far", "up"])
            spaces.run("a", ["ip", "link", "set", card, "up"])
        spaces.run("a", ["ip", "route", "add", "default", "via", "172.31.0.1"])
        spaces.run("a", ["ip", "route", "add", "default", "via", "172.30.0.1", "metric", "9"])
        # /proc/sys/net shows the namespace of the thread that opens it.
        thread = threading.Thread(target=lambda: found.append(netns.inside(netns.FOLDER / name, call)))
        thread.start()
        thread.join()
    return found[0]


def routes():
    shown = subprocess.run(["ip", "-j", "route"], capture_output=True, text=True, check=True).stdout
    return {one["dst"]: one["dev"] for one in reversed(json.loads(shown))}  # of two the one that counts


def reachable(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect((address, 9))
        except OSError:
            return False
        return one.getsockname()[0]


@pytest.mark.netns
def test_a_node_reaches_the_run_wherever_that_is_and_no_other_node(caplog):
    known = {"run": {"172.30.0.2", "192.168.7.1"}, "later": set()}
    elsewhere = {"default": "eth1", "172.31.0.0/24": "eth1", "10.171.0.0/16": "wlan0"}

    def within():
        management = Management(["run", "later"], ["wlan0"], known.__getitem__)
        found = [routes()]
        try:
            management.look()
            found += [routes(), reachable("172.30.0.2")]
            known.update(run={"172.30.0.3"}, later={"172.30.0.9", "172.31.0.9"})
            management.look()
            management.look()
            found += [routes()]
            known.update(run=set(), later=set())
            management.look()
            found += [routes()]
        finally:
            management.close()
            management.close()
        return found

    before, first, own, second, third = inside(within)
    assert before == {**elsewhere, "172.30.0.0/24": "eth0"}
    assert first == {**elsewhere, "172.30.0.2": "eth0"}
    assert own == "172.30.0.5"
    assert second == {**elsewhere, "172.30.0.3": "eth0", "172.30.0.9": "eth0"}
    assert third == second
    assert not caplog.records


@pytest.mark.netns
def test_without_an_outer_way_others_are_unreachable():
    def within():
        subprocess.run(["ip", "route", "del", "default", "dev", "eth1"], check=True)
        management = Management(["run"], ["wlan0", "eth1"], lambda _: {"172.30.0.2"})
        management.open()
        try:
            return [reachable(host) for host in ("172.30.0.2", "172.30.0.6", "172.30.0.1", "198.51.100.1")]
        finally:
            management.close()

    assert inside(within) == ["172.30.0.5", False, False, False]


@pytest.mark.netns
def test_a_name_that_is_long_looked_for_keeps_nobody_waiting():
    found, ended = threading.Event(), threading.Event()

    def resolve(name):
        if name == "late":
            found.wait(20.0)
            ended.set()
            return {"172.30.0.6"}
        return {"172.30.0.2"}

    def within():
        management = Management(["run", "late"], ["wlan0"], resolve)
        management.open()
        before = [reachable(host) for host in ("172.30.0.2", "172.30.0.6")]
        found.set()
        ended.wait(20.0)
        management.close()
        after = reachable("172.30.0.6")
        found.clear()
        stuck = Management(["run", "late"], ["wlan0"], resolve)
        stuck.open()
        stuck.close()  # while the name is looked for
        found.set()
        stuck.close()
        return before, after

    assert inside(within) == (["172.30.0.5", "172.31.0.5"], "172.30.0.5")


@pytest.mark.netns
def test_whoever_names_nobody_keeps_the_network():
    def within():
        management = Management([], ["wlan0"])
        management.open()
        management.close()
        return routes()

    assert inside(within)["172.30.0.0/24"] == "eth0"


def test_hosts_come_from_arguments_or_the_environment():
    reported = {
        "COSIM_NODE": "a",
        "COSIM_INTERFACES": "wlan0,02:00:00:00:00:01",
        "COSIM_REACH": "orchestrator prometheus",
    }
    assert settings([], reported).reach == ("orchestrator", "prometheus")
    assert settings(["--reach", "run"], reported).reach == ("run",)
    assert settings([], {**reported, "COSIM_REACH": ""}).reach == ()


def test_a_host_that_is_not_there_has_no_address():
    assert addresses("no-such-host.invalid") == set()
    assert addresses("127.0.0.1") == {"127.0.0.1"}


@pytest.mark.netns
@pytest.mark.parametrize("kept", [False, True])
def test_programs_bound_to_the_management_interface_do_not_meet(kept):
    """Such a program needs no route to send; what it sends is dropped where it arrives."""
    with netns.Namespaces() as spaces:
        first, second = (spaces.create(name) for name in ("a", "b"))
        spaces.run("a", ["ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", second.name])
        for name, address in (("a", "172.30.0.5/24"), ("b", "172.30.0.6/24")):
            spaces.run(name, ["ip", "address", "add", address, "dev", "eth0"])
            spaces.run(name, ["ip", "link", "set", "eth0", "up"])

        def limited():
            management = Management(["run"] if kept else [], ["wlan0"], lambda _: {"172.30.0.2"})
            management.open()
            management.close()

        def bound():
            one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0\0")
            one.bind(("0.0.0.0", 9000))
            one.settimeout(0.05)
            return one

        for where in (first, second):
            netns.inside(where, limited)
        with netns.inside(first, bound) as sender, netns.inside(second, bound) as receiver:
            arrived = b""
            for _ in range(40):  # the kernel lets nothing out for up to a second after the link is there
                sender.sendto(b"past the emulation", ("172.30.0.6", 9000))
                with contextlib.suppress(TimeoutError):
                    arrived = receiver.recv(100)
                    break
        assert (arrived == b"") == kept


def test_name_servers_stand_in_a_file(tmp_path):
    (tmp_path / "resolv.conf").write_text(
        "# nameserver 9.9.9.9\nsearch a\nnameserver 172.30.0.1\nnameserver ::1\nnameserver\n"
    )
    assert name_servers(tmp_path / "resolv.conf") == {"172.30.0.1"}
    assert name_servers(tmp_path / "none") == set()


@pytest.mark.netns
def test_of_the_engines_name_server_only_names_are_asked():
    def sent(address, port, kind=socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as one:
            one.settimeout(0.1)
            try:
                one.connect((address, port))
                one.send(b"?")
            except TimeoutError:
                return True  # nobody answers here
            except OSError:
                return False
            return True

    def within():
        management = Management(["run"], ["wlan0"], lambda _: {"172.30.0.2"}, lambda: {"172.30.0.1", "127.0.0.11"})
        try:
            management.look()
            management.look()
            asked = [sent("172.30.0.1", port) for port in (53, 80)]
            return [*asked, sent("172.30.0.2", 80), reachable("172.30.0.7"), routes().get("172.30.0.1")]
        finally:
            management.close()

    assert inside(within) == [True, False, True, "172.31.0.5", "eth0"]
