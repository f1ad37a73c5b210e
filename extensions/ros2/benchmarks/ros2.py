"""What `cosim ros2` costs: `python -m benchmarks.ros2 [--drones 100] [--rate 10] [--seconds 10]`.

Prints the share of a core that odometry, battery and link of all drones take over zenoh, with a listener in another
process.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import socket
import time
from contextlib import closing

import numpy as np
import zenoh

from cosim.contract.frame import Frame, SlotTable
from cosim.extensions.ros2.bridge import Bridge
from cosim.extensions.ros2.node import RosNode
from cosim.talk.publish import TickSnapshot


def snapshot(now: float, count: int) -> TickSnapshot:
    slot = np.arange(count, dtype=np.int32)
    table = SlotTable(0, tuple(f"uav-{i}" for i in range(count)), np.ones(count, np.int32), 1)
    names = {
        "mobility": ("x", "y", "z", "speed", "heading"),
        "vehicle": ("charge", "voltage", "power"),
        "link": ("cell", "rsrp", "snr", "uplink_rate", "downlink_rate", "delay", "loss", "handovers", "distance"),
    }
    columns = {signal: {name: np.full(count, 1.0 + now) for name in of} for signal, of in names.items()}
    columns["link"]["cell"] = np.zeros(count, np.int32)
    scene = {"signals": {"link": {"columns": {"cell": {"role": "slot", "codes": []}}}}}
    frames = tuple(Frame(signal, now, slot, of) for signal, of in columns.items())
    return TickSnapshot(0, now, frames, b"run", scene, {}, {0: table})


def listen(endpoint: str, ready: multiprocessing.Event, over: multiprocessing.Event) -> None:
    config, heard = zenoh.Config(), []
    for key, value in {"scouting/multicast/enabled": False, "listen/endpoints": [endpoint]}.items():
        config.insert_json5(key, json.dumps(value))
    with zenoh.open(config) as session:
        session.declare_subscriber("0/**", lambda sample: heard.append(sample.key_expr))
        ready.set()
        over.wait()
        time.sleep(0.5)  # what is on its way
    print(f"{len(heard)} messages came")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drones", type=int, default=100)
    parser.add_argument("--rate", type=int, default=10, help="Hz")
    parser.add_argument("--seconds", type=int, default=10)
    asked = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"tcp/127.0.0.1:{free.getsockname()[1]}"
    context = multiprocessing.get_context("spawn")
    ready, over = context.Event(), context.Event()
    other = context.Process(target=listen, args=(endpoint, ready, over))
    other.start()
    ready.wait()
    moments = [snapshot(k / asked.rate, asked.drones) for k in range(asked.rate * asked.seconds)]
    with closing(RosNode(0, endpoint)) as node:
        bridge = Bridge(node)
        bridge.take(moments[0])  # declares all topics
        time.sleep(1.0)
        spent, began = time.process_time(), time.monotonic()
        for k, moment in enumerate(moments):
            time.sleep(max(0.0, began + k / asked.rate - time.monotonic()))
            bridge.take(moment)
        share = (time.process_time() - spent) / asked.seconds
        over.set()
        other.join()
    print(f"{asked.drones} drones at {asked.rate} Hz: {share:.1%} of a core")


if __name__ == "__main__":
    main()
