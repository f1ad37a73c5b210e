"""A worker that listens ends when it is told to, whatever it does at that moment."""

from __future__ import annotations

import threading

from cosim.bus.listen import Listener


class Idle:
    """A service that nobody calls."""

    session = None


def test_an_exit_that_somebody_swallowed_still_ends_the_service():
    listener = Listener("tcp://127.0.0.1:*")
    asked = threading.Event()
    worker = threading.Thread(target=listener.serve, args=(Idle(),), kwargs={"leaving": asked.is_set})
    worker.start()
    asked.set()
    worker.join(30.0)
    assert not worker.is_alive()
    listener.close()
