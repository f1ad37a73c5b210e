"""Nodes on two machines, here namespaces with a wire between them: links are those of one network service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cosim.contract.link import LinkState
from cosim.contract.medium import WIRE
from cosim.testbed.emulation import netns, probe
from cosim.testbed.emulation.client import Client
from cosim.testbed.launch.programs import interface

pytestmark = [pytest.mark.netns, pytest.mark.timeout(120)]

ROOT = Path(__file__).resolve().parents[2]
DELAY, RATE = 0.03, 20e6  # s, bit/s
NEAR, FAR = "192.0.2.1", "192.0.2.2"  # of the machines


@pytest.fixture
def machines(tmp_path):
    """Two machines, on each a node with its sidecar; the network service is on the first."""
    own = {**os.environ, "PYTHONPATH": str(ROOT)}
    (tmp_path / "key").write_text("a secret of both machines")
    (tmp_path / "key").chmod(0o600)
    nodes = {"a": (interface(WIRE, 0), "near.sock"), "b": (interface(WIRE, 1), "far.sock")}
    with netns.Namespaces() as spaces:
        for name in ("near", "far", *nodes):
            spaces.create(name)
        far = spaces.create("far").name
        spaces.run("near", ["ip", "link", "add", "card", "type", "veth", "peer", "name", "card", "netns", far])
        for name, address in (("near", NEAR), ("far", FAR)):
            spaces.run(name, ["ip", "addr", "add", f"{address}/24", "dev", "card"])
            spaces.run(name, ["ip", "link", "set", "card", "up"])
        addresses = [f"--{what}=ipc://{tmp_path}/{what}" for what in ("commands", "reports")]
        service = spaces.start(
            "near",
            [
                sys.executable, "-m", "cosim.testbed.emulation.service", "--sidecars", str(tmp_path / "near.sock"),
                *addresses,
            ],
            stdout=subprocess.PIPE, env=own,
        )  # fmt: skip
        said = json.loads(service.stdout.readline())
        words = [sys.executable, "-m", "cosim.testbed.emulation.trunk"]
        key = ["--key", str(tmp_path / "key")]
        spaces.start(
            "near",
            [*words, "near", "--listen", f"{NEAR}:5605", "--sidecars", str(tmp_path / "near.sock"), *key],
            env=own,
        )
        spaces.start(
            "far", [*words, "far", "--to", f"{NEAR}:5605", "--sidecars", str(tmp_path / "far.sock"), *key], env=own
        )
        for name, (card, sockets) in nodes.items():
            other = next(one for one, _ in nodes.values() if one is not card)
            variables = {
                "COSIM_NODE": name,
                "COSIM_SOCKET": str(tmp_path / sockets),
                "COSIM_INTERFACES": card.text,
                "COSIM_NEIGHBOURS": f"{other.address},{other.mac}",
            }
            spaces.start(name, [sys.executable, "-m", "cosim.testbed.emulation.sidecar"], env={**own, **variables})
        try:
            yield spaces, said, {name: card.address for name, (card, _) in nodes.items()}
        finally:
            service.stdout.close()


def test_links_between_machines_are_as_they_were_asked_for(machines):
    spaces, said, addresses = machines
    with Client(said["commands"], said["reports"]) as client:
        client.await_ports({("a", "eth1"), ("b", "eth1")})
        state = LinkState(RATE, DELAY, 0.0, 0.0)
        client.links({("a", "b", "eth1"): state, ("b", "a", "eth1"): state})
        client.wait()
        (run,) = {path.name.split("-")[1] for path in netns.FOLDER.glob("cosim-*-far") if _ours(path.name)}
        asking = netns.inside(netns.FOLDER / f"cosim-{run}-a", probe.opened)
        try:
            spaces.start(
                "b", [sys.executable, "-m", "cosim.testbed.emulation.probe", "answer"], stderr=subprocess.DEVNULL
            )
            to = (addresses["b"], probe.PORT)
            for _ in range(100):
                if probe.delay(asking, to, 1, 0.1).received:
                    break
            found = min((probe.delay(asking, to, 20, 0.01) for _ in range(3)), key=lambda one: one.there)
            assert DELAY <= found.there < DELAY + 0.02
            rate = probe.rate(asking, to, 1.3 * RATE, 1.0).received
            assert rate < 1.05 * RATE
            assert rate > 0.5 * RATE  # a busy machine does not keep up
        finally:
            asking.close()


def _ours(name):
    return name.split("-")[1] == netns.run_of(os.getpid())
