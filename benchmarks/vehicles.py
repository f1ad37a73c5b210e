"""CPU time of vehicles: with MAVLink over UDP sockets and in flight alone, at 100 Hz, and in a study of engagements.

python -m benchmarks.vehicles [--vehicles 300] [--fleet 10000] [--seconds 20] [--stations 2] [--json]

Simulated time is not paced, and telemetry gets the clock that it would have at 1 x, so that the figure
is the load of real time without its waiting. A process of its own reads what the vehicles send; its
CPU time is not counted. The study is that of `benchmarks.farm`, which tells more of it.
"""

from __future__ import annotations

import multiprocessing
import resource
import socket
import time
from multiprocessing.connection import Connection

import numpy as np

from benchmarks import farm
from benchmarks.measure import Table, parser, print_result, verdict
from cosim.autopilot import Autopilot
from cosim.autopilot.dialect import mavlink
from cosim.autopilot.links import Endpoint, LinkEndpoints
from cosim.autopilot.table import Address
from cosim.physics.vehicles import Copter, VehicleFleet

TICK = 0.01  # s
GROUP = 250  # vehicles that send to one peer: system ids end at 254
TARGET = 300  # vehicles per core with MAVLink
WARM_UP = 2.0  # s that are not counted


def _listen(pipe: Connection, peers: int) -> None:
    """Read datagrams at `peers` ports until told to stop; tell how many."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(peers)]
    for sock in sockets:
        sock.bind(("127.0.0.1", 0))
        sock.setblocking(False)
    pipe.send([sock.getsockname() for sock in sockets])
    count = 0
    while not pipe.poll(0.001):
        for sock in sockets:
            try:
                while True:
                    sock.recv(2048)
                    count += 1
            except BlockingIOError:
                continue
    pipe.send(count)


def _scattered(count: int) -> VehicleFleet:
    """Copters in flight, each towards a point of its own some kilometres away."""
    fleet = VehicleFleet([Copter()] * count, [(5.0 * (k % 100), 5.0 * (k // 100), 0.0) for k in range(count)])
    rows = np.arange(count)
    fleet.arm(rows)
    fleet.take_off(rows, 20.0)
    fleet.advance(12.0)
    goals = np.random.default_rng(1).uniform(-5e3, 5e3, (count, 3))
    goals[:, 2] = 30.0
    fleet.go(rows, goals)
    return fleet


def with_mavlink(vehicles: int, seconds: float, stations: int = 0) -> dict[str, float]:
    """CPU s per simulated second of `vehicles`, one socket each.

    With default streams, or with `stations` that each ask for all streams at 10 Hz.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * vehicles + 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, needed), hard), hard))
    fleet = _scattered(vehicles)
    here, there = multiprocessing.get_context("spawn").Pipe()
    groups = -(-vehicles // GROUP)
    peers = groups * max(stations, 1)
    listener = multiprocessing.get_context("spawn").Process(target=_listen, args=(there, peers), daemon=True)
    listener.start()
    addresses = here.recv()
    pilots = [
        Autopilot(fleet, k, sysid=k % GROUP + 1, origin=(38.2, 21.7, 0.0), ready_after=0.0) for k in range(vehicles)
    ]
    made = [Endpoint(pilot, [Address(*at) for at in addresses[k // GROUP :: groups]]) for k, pilot in enumerate(pilots)]
    ask = mavlink.MAVLink_request_data_stream_message(0, 0, 0, 10, 1).pack(mavlink.MAVLink(None, srcSystem=255))
    for pilot in pilots if stations else ():
        pilot.receive(ask, "station")
        pilot.disconnect("station")
    endpoints = LinkEndpoints(made)
    base, spent = fleet.now, 0.0
    for step in range(1, round((WARM_UP + seconds) / TICK) + 1):
        if step == round(WARM_UP / TICK) + 1:
            spent = time.process_time()
        endpoints.poll()
        fleet.advance(base + step * TICK)
        for pilot in pilots:
            pilot.watch(fleet.now)
        endpoints.send(fleet.now, fleet.now)
    spent = time.process_time() - spent
    here.send(True)
    heard = here.recv()
    listener.join()
    endpoints.close()
    cpu = spent / seconds
    return {
        "vehicles": vehicles,
        "cpu_per_simulated_second": cpu,
        "vehicles_per_core": vehicles / cpu,
        "messages_per_vehicle_second": heard / vehicles / (seconds + WARM_UP),
    }


def flight_alone(vehicles: int, seconds: float) -> dict[str, float]:
    """CPU s per simulated second of a fleet without MAVLink, a call per tick."""
    fleet = _scattered(vehicles)
    base, begun = fleet.now, time.process_time()
    for step in range(1, round(seconds / TICK) + 1):
        fleet.advance(base + step * TICK)
    cpu = (time.process_time() - begun) / seconds
    return {"vehicles": vehicles, "cpu_per_simulated_second": cpu, "times_real_time": 1.0 / cpu}


def engagements(homes: tuple[int, int], positions: int) -> dict[str, float]:
    """The study of engagements: simulated time over CPU time."""
    found, cpu = farm.fly(*farm.places(homes, positions))
    return {
        "engagements": len(found.records),
        "simulated_s": found.simulated,
        "cpu_s": cpu,
        "times_real_time": found.simulated / cpu,
    }


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--vehicles", type=int, default=300, help="with MAVLink")
    arguments.add_argument("--fleet", type=int, default=10_000, help="without")
    arguments.add_argument("--seconds", type=float, default=20.0, help="of simulated time")
    arguments.add_argument("--homes", type=int, nargs=2, default=farm.HOMES, metavar=("EAST", "NORTH"), help="study")
    arguments.add_argument("--positions", type=int, default=farm.POSITIONS, help="of the study's tractor")
    arguments.add_argument(
        "--stations", type=int, default=0, help="that ask for all streams at 10 Hz; 0: default streams"
    )
    options = arguments.parse_args()
    reported_by = with_mavlink(options.vehicles, options.seconds, options.stations)
    alone = flight_alone(options.fleet, options.seconds)
    table = Table("vehicles at 100 Hz on one core", ["case", "vehicles", "CPU s per simulated s", "result"])
    per_core = reported_by["vehicles_per_core"]
    table.add([
        "MAVLink over UDP",
        f"{options.vehicles:,}",
        f"{reported_by['cpu_per_simulated_second']:.3f}",
        f"{per_core:,.0f} vehicles per core{verdict(per_core, TARGET, at_least=True)}",
    ])  # fmt: skip
    faster = alone["times_real_time"]
    table.add([
        "flight alone",
        f"{options.fleet:,}",
        f"{alone['cpu_per_simulated_second']:.3f}",
        f"{faster:.1f} times real time{verdict(faster, 1.0, at_least=True)}",
    ])  # fmt: skip
    study = engagements(tuple(options.homes), options.positions)
    pairs = Table("study of engagements on one core", ["engagements", "simulated", "CPU", "times real time"])
    factor = study["times_real_time"]
    result = f"{factor:,.0f}{verdict(factor, farm.TARGET, at_least=True)}"
    pairs.add([f"{study['engagements']:,}", f"{study['simulated_s']:,.0f} s", f"{study['cpu_s']:.1f} s", result])
    data = {"tick": TICK, "unit": "s", "mavlink": reported_by, "flight": alone, "study": study}
    print_result("vehicles", data, [table, pairs], as_json=options.json)


if __name__ == "__main__":
    main()
