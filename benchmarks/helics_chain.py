"""The chain as four HELICS federates that publish one byte buffer each per tick.

A value of tick t arrives at t + 1, so the chain is a pipeline. A scalar goes back from the recorder to
mobility; without it mobility would run ahead and the messages would pile up.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import uuid

import helics as h
import numpy as np

from benchmarks.chain import start_state

ATTEMPTS = 3
NAMES = ("mobility", "network", "continuum", "recorder")


def federate(index: int, rows: int, ticks: int, core: str, broker: str) -> float:
    """One federate; CPU seconds of this thread from its first to its last tick."""
    info = h.helicsCreateFederateInfo()
    h.helicsFederateInfoSetCoreTypeFromString(info, core)
    h.helicsFederateInfoSetCoreInitString(info, f"--federates=1 {broker}")
    h.helicsFederateInfoSetCoreName(info, f"core-{NAMES[index]}-{uuid.uuid4().hex[:8]}")
    h.helicsFederateInfoSetTimeProperty(info, h.HELICS_PROPERTY_TIME_DELTA, 1.0)
    fed = h.helicsCreateValueFederate(NAMES[index], info)
    out = None
    if index < 3:
        out = h.helicsFederateRegisterGlobalPublication(fed, f"out-{index}", h.HELICS_DATA_TYPE_RAW, "")
    source = h.helicsFederateRegisterSubscription(fed, f"out-{index - 1}", "") if index else None
    back = None
    if index == 3:
        back = h.helicsFederateRegisterGlobalPublication(fed, "back", h.HELICS_DATA_TYPE_DOUBLE, "")
    if index == 0:
        h.helicsFederateRegisterSubscription(fed, "back", "")
    x, y, speed = start_state(rows)
    state = np.stack([x, y, speed])
    total = 0.0
    h.helicsFederateEnterExecutingMode(fed)
    begun = time.process_time()
    for tick in range(ticks):
        values = None
        if index == 0:
            state[0] += state[2] * 0.1
            values = state
        elif tick >= index and source is not None:
            got = np.frombuffer(h.helicsInputGetBytes(source))
            if index == 1:
                got = got.reshape(3, -1)
                values = got[0] + got[1]
            elif index == 2:
                values = got * 0.5
            else:
                total += float(got.sum())
        if values is not None and out is not None:
            h.helicsPublicationPublishBytes(out, values.tobytes())
        if back is not None:
            h.helicsPublicationPublishDouble(back, float(tick))
        h.helicsFederateRequestTime(fed, tick + 1.0)
    used = time.process_time() - begun
    h.helicsFederateDisconnect(fed)
    h.helicsFederateFree(fed)
    return used


def run(rows: int, ticks: int, *, processes: bool) -> float:
    """CPU seconds per tick of all four federates and the broker, start and end of the federation excluded."""
    name = f"broker-{uuid.uuid4().hex[:8]}"
    if not processes:
        broker = h.helicsCreateBroker("inproc", name, "-f 4 --loglevel=no_print")
        used: list[float] = []

        def work(index: int) -> None:
            used.append(federate(index, rows, ticks, "inproc", f"--broker={name}"))

        threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        _end(broker)
        # process_time counts all threads, so each federate saw the CPU time of all of them
        return max(used) / ticks
    for _ in range(ATTEMPTS):
        used_by_all = _in_processes(rows, ticks)
        if used_by_all is not None:
            return used_by_all / ticks
    raise RuntimeError(f"the federates found no broker in {ATTEMPTS} attempts")


def _in_processes(rows: int, ticks: int) -> float | None:
    """CPU seconds of four federates in processes; None when they found no broker, as under load they may."""
    name, port = f"broker-{uuid.uuid4().hex[:8]}", _free_port()
    broker = h.helicsCreateBroker("zmq", name, f"-f 4 --loglevel=no_print --localport={port}")
    address = f"--broker_address=tcp://127.0.0.1 --brokerport={port}"
    command = [sys.executable, "-m", "benchmarks.helics_chain"]
    begun = time.process_time()
    workers = [
        subprocess.Popen([*command, str(index), str(rows), str(ticks), address], stdout=subprocess.PIPE, text=True)
        for index in range(4)
    ]
    answers = [worker.communicate(timeout=300)[0] for worker in workers]
    own = time.process_time() - begun
    _end(broker)
    if any(worker.returncode for worker in workers):
        return None
    return own + sum(float(json.loads(answer.splitlines()[-1])) for answer in answers)


def _end(broker: object) -> None:
    h.helicsBrokerWaitForDisconnect(broker, 5000)
    h.helicsBrokerFree(broker)


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    index, rows, ticks = (int(text) for text in sys.argv[1:4])
    print(json.dumps(federate(index, rows, ticks, "zmq", sys.argv[4])))
