"""A program of a node with an uplink reaches the host's network as its link says; programs of other nodes do not."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from cosim.testbed.launch.programs import UPLINKS_END

pytestmark = [pytest.mark.netns, pytest.mark.slow, pytest.mark.timeout(120)]

ROOT = Path(__file__).resolve().parents[2]
SIZE = 1_500_000  # B
RATE, DELAY = 20e6, 0.02  # bit/s to the node, s
# Each tries until it has an answer, or the run ends; `lead` makes a default route by the node that has the uplink.
PROGRAM = """
import json, pathlib, socket, subprocess, sys, time
out, address, port, lead = sys.argv[1:]
if lead: subprocess.run(["ip", "route", "replace", "default", "via", lead], check=True)
tries = []
while True:
    begun = time.monotonic()
    try:
        link = socket.create_connection((address, int(port)), 2.0)
        connected = time.monotonic() - begun
        first = last = 0.0
        size = 0
        while data := link.recv(1 << 16):
            last = time.monotonic()
            first = first or last
            size += len(data)
        tries.append({"connected": connected, "size": size, "took": last - first})
    except OSError as error:
        tries.append({"error": str(error)})
    pathlib.Path(out).write_text(json.dumps(tries))
    time.sleep(0.5)
"""


@pytest.fixture
def service():
    """Of the host: sends SIZE bytes to everybody who connects; its port and who did."""
    peers = []
    with socket.create_server(("0.0.0.0", 0)) as listening:

        def serve():
            while True:
                try:
                    link, peer = listening.accept()
                except OSError:
                    return
                peers.append(peer[0])
                threading.Thread(target=answer, args=(link,), daemon=True).start()

        def answer(link):
            with link, suppress(OSError):  # the run, and its network with it, may end before the last answer
                link.sendall(bytes(SIZE))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1], peers
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


def scenario(folder, port):
    (folder / "program.py").write_text(PROGRAM)
    host = UPLINKS_END.address

    def node(name, more="", lead=""):
        words = [sys.executable, str(folder / "program.py"), str(folder / f"{name}.json"), host, str(port), lead]
        return f"  {name}: {{kind: edge, cpu: 1 x 1 GHz, {more}runs: {{image: box, command: {json.dumps(words)}}}}}\n"

    uplink = f"uplink: {{to: host, rate: 5 Mbit/s, rate_back: {RATE:.0f} bit/s, delay: {DELAY} s}}, "
    text = "apiVersion: cosim/v1\nkind: Scenario\nname: uplinks\nrun: {duration: 8 s, step: 500 ms}\n"
    text += (
        "adapters: {network: {}}\nnodes:\n" + node("gate", uplink) + node("other", lead="10.173.0.1") + node("third")
    )
    text += (
        "links: [{between: [gate, [other, third]], rate: 1 Gbit/s, delay: 1 ms}]\n"  # so that gate passes packets on
    )
    path = folder / "scenario.cosim.yaml"
    path.write_text(text)
    return path


def test_a_node_reaches_the_host_as_its_uplink_says_and_others_do_not(tmp_path, service):
    port, peers = service
    command = [sys.executable, "-m", "cosim", "run", str(scenario(tmp_path, port)), "--nodes", "netns"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "runs")], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tried = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in ("gate", "other", "third")}
    good = [one for one in tried["gate"] if "error" not in one]
    assert good, tried["gate"]
    assert min(one["connected"] for one in good) > 2 * DELAY
    assert {one["size"] for one in good} == {SIZE}
    assert max(8 * SIZE / one["took"] for one in good) < 1.05 * RATE
    for name in ("other", "third"):
        assert len(tried[name]) > 2
        assert all("error" in one for one in tried[name])
    assert len(set(peers)) == 1  # the end of uplinks
    (manifest,) = (tmp_path / "runs").glob("*/*/manifest.json")
    (reported,) = (
        adapter["summary"]["uplinks"]
        for adapter in json.loads(manifest.read_text())["adapters"]
        if adapter["use"] == "network"
    )
    assert list(reported) == ["gate"]
    assert reported["gate"]["received"] > SIZE * max(
        len(good) - 2, 1
    )  # programs go on for a moment after the last step
    assert reported["gate"]["rate_back"] == RATE
    (report,) = (tmp_path / "runs").glob("*/*/report.html")
    assert "programs reached the host" in report.read_text()
    assert not [name for _, name in socket.if_nameindex() if name.startswith("cosim-")]
    assert not any(path.name.startswith(f"cosim-{os.getpid():x}") for path in Path("/run/netns").glob("*"))
