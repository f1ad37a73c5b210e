"""A thousand idle guests at each door: `python -m benchmarks.idle_guests [--json] [--guests 1000]`.

One process has every door that a run can have: control, publication, the gateway of live machines, a MAVLink port,
AeroLoop's topic, metrics and the dashboard; a worker is one of its own. At one door after another, guests come and say
what a client says first, or half a request, and then nothing. While they are there the owner comes.

Figures for each door: s until the owner is answered, the longest of five times; MB that the process grew by.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
import zmq

from benchmarks.doors import GREETING, PLAIN, READY
from benchmarks.measure import Table, parser, print_result
from cosim.autopilot.aeroloop import Positions
from cosim.autopilot.core import Autopilot
from cosim.autopilot.geodesy import Place
from cosim.autopilot.links import Endpoint, LinkEndpoints
from cosim.autopilot.table import Address
from cosim.contract.frame import Frame
from cosim.physics.vehicles import Copter, VehicleFleet
from cosim.report.web import serve
from cosim.talk import keys
from cosim.talk.control import ControlSocket, command
from cosim.talk.doorkeeper import raise_descriptors
from cosim.talk.publish import Publisher, Subscriber
from cosim.talk.telemetry.serve import Endpoints
from cosim.testbed.live.agent import Agent, Options
from cosim.testbed.live.gateway import Gateway
from cosim.testbed.live.lease import NodeSlot
from tests.ports import free_port

TOKEN = "s3cret"
TRIES = 5
SAYS = {
    "control": PLAIN + READY["control"], "publication": PLAIN + READY["publisher"], "gateway": GREETING,
    "mavlink": b"", "aeroloop": PLAIN + READY["publisher"], "metrics": b"GET /metrics HTTP/1.1\r\n",
    "view": b"GET / HTTP/1.1\r\n", "worker": PLAIN + READY["control"],
}  # fmt: skip


def house(folder: Path) -> None:
    """Serve every door until the input ends; the addresses go out in one line."""
    slots = [NodeSlot(0, "node", "node", 3.0, 0.2, False, False)]
    gateway = Gateway(slots, [(folder / "keys", "tcp://127.0.0.1:*")])
    fleet = VehicleFleet([Copter()], [(0.0, 0.0, 0.0)])
    one = Autopilot(fleet, 0, sysid=1, origin=(39.36, 22.95, 60.0), ready_after=0.0)
    mavlink, aeroloop = Address("127.0.0.1", free_port()), Address("127.0.0.1", free_port())
    metrics = Endpoints("127.0.0.1", {"n": 0}, lambda _: b"up 1\n")
    frame = Frame("load", 0.0, np.arange(10, dtype=np.int32), {"x": np.arange(10.0)})

    async def page(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001 - as ASGI has them
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"here"})

    uvicorn.Server.capture_signals = lambda _: contextlib.nullcontext()  # type: ignore[method-assign,assignment]
    server = uvicorn.Server(uvicorn.Config(page, http=serve.Impatient, lifespan="off", log_level="error"))
    raise_descriptors()
    with (
        Publisher(token=TOKEN) as publisher,
        ControlSocket(lambda verb, _: {"verb": verb}, TOKEN, verbs=("state",)) as control,
        Positions(aeroloop, ["copter"]) as positions,
        serve.bind("127.0.0.1", 0) as listener,
    ):
        links = LinkEndpoints([Endpoint(one, tcp=mavlink)])
        threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True).start()
        places = {
            "control": control.address, "publication": publisher.address, "gateway": gateway.addresses[0],
            "mavlink": f"tcp://{mavlink}", "aeroloop": f"tcp://{aeroloop}",
            "metrics": "tcp://{}:{}".format(*metrics.addresses["n"]),
            "view": "tcp://{}:{}".format(*listener.getsockname()),
        }  # fmt: skip
        print(json.dumps(places), flush=True)
        ended = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
        begun, tick = time.monotonic(), 0
        while not ended.is_set():
            tick += 1
            links.poll(0.02)
            links.send(fleet.now, time.monotonic() - begun)
            publisher.publish(tick, 0.02 * tick, [frame])
            positions.publish(0.02 * tick, [Place(39.36, 22.95, 60.0)])
        server.should_exit = True
        links.close()
    metrics.close()
    gateway.close()


def memory(pid: int) -> float:
    """Resident MB of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6


@contextlib.contextmanager
def crowd(address: str, says: bytes, most: int) -> Iterator[None]:
    """So many guests that come again once when they are shown out, and stay."""
    import socket

    host, _, port = address.removeprefix("tcp://").rpartition(":")
    with contextlib.ExitStack() as stack:
        for _ in range(most):
            guest = stack.enter_context(socket.socket())
            guest.settimeout(5.0)
            with contextlib.suppress(OSError):  # as one of many, it may be shown out at once
                guest.connect((host, int(port)))
                guest.sendall(says)
        yield


def owners(folder: Path) -> dict[str, Callable[[str], object]]:
    """How the owner of each door is answered; each raises or returns something false when it is not."""

    def fetch(address: str, path: str) -> bool:
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        asked = http.client.HTTPConnection(host, int(port), timeout=10.0)
        asked.request("GET", path)
        found = asked.getresponse().status == 200
        asked.close()
        return found

    def observe(address: str) -> bool:
        with Subscriber(address, TOKEN) as subscriber:
            return subscriber.latest(10.0) is not None

    def fly(address: str) -> bool:
        import socket

        host, _, port = address.removeprefix("tcp://").rpartition(":")
        with socket.create_connection((host, int(port)), 10.0) as station:
            return bool(station.recv(4096))

    def listen(address: str) -> bool:
        with zmq.Context.instance().socket(zmq.SUB) as topic:
            topic.linger = 0
            topic.setsockopt(zmq.SUBSCRIBE, b"UAV1")
            topic.connect(address)
            return bool(topic.poll(10_000))

    def attach(address: str) -> bool:
        agent = Agent(Options(folder / "node.key", address, tasks=False))
        thread = threading.Thread(target=agent.run, daemon=True)
        thread.start()
        end = time.monotonic() + 10.0
        while agent._member.state != "attached" and time.monotonic() < end:
            time.sleep(0.005)
        found = agent._member.state == "attached"
        agent.stop("measured")
        thread.join(10.0)
        return found

    def work(address: str) -> bool:
        from cosim.bus.remote import RemoteAdapter
        from cosim.contract.adapter import Context
        from cosim.contract.entities import Scene

        remote = RemoteAdapter("echo", "tests.chaos.misbehaving:ADAPTER", {}, timeout=10.0, connect=address)
        remote.start(Context("echo", Scene(capacity=10), 1.0, 1.0, (1,), str(folder), str(folder)))
        remote.finish()
        remote.close()
        return True

    return {
        "control": lambda address: command(address, TOKEN, "state", timeout=10.0), "publication": observe,
        "gateway": attach, "mavlink": fly, "aeroloop": listen, "metrics": lambda address: fetch(address, "/metrics"),
        "view": lambda address: fetch(address, "/"), "worker": work,
    }  # fmt: skip


def measure(guests: int = 1000) -> dict[str, dict[str, float]]:
    """The figures, by door."""
    raise_descriptors()
    found = {}
    with tempfile.TemporaryDirectory() as text, contextlib.ExitStack() as stack:
        folder = Path(text)
        server = keys.server_key(folder / "keys")
        _, public = keys.write(keys.make("node", server.public), folder)
        public.rename(folder / "keys" / public.name)
        call = f"from pathlib import Path; from benchmarks.idle_guests import house; house(Path({text!r}))"
        worker = ["-m", "cosim.bus.worker", "--adapter", "tests.chaos.misbehaving:ADAPTER", "--root", text]
        processes = []
        for words in (["-c", call], worker):
            process = subprocess.Popen(
                [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.terminate)
            processes.append(process)
        assert processes[0].stdout is not None
        assert processes[1].stdout is not None
        addresses = json.loads(processes[0].stdout.readline())
        addresses["worker"] = processes[1].stdout.readline().strip()
        for door, answer in owners(folder).items():
            pid = processes[door == "worker"].pid
            if not answer(addresses[door]):
                raise RuntimeError(f"{door}: no answer")
            before, took = memory(pid), []
            with crowd(addresses[door], SAYS[door], guests):
                for _ in range(TRIES):
                    begun = time.monotonic()
                    right = answer(addresses[door])
                    took.append(time.monotonic() - begun if right else float("inf"))
                found[door] = {"longest_s": max(took), "grown_MB": memory(pid) - before}
    return found


def main() -> int:
    """Measure and print."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--guests", type=int, default=1000)
    given = arguments.parse_args()
    found = measure(min(given.guests, 20_000))
    table = Table("Idle guests at each door", ["door", "longest answer, s", "grown by, MB"])
    for door, figures in found.items():
        table.add([door, f"{figures['longest_s']:.3f}", f"{figures['grown_MB']:.1f}"])
    print_result("idle_guests", found, [table], as_json=given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
