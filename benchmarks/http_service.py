"""A small HTTP service whose requests take what is asked: `python -m benchmarks.http_service KIND MILLISECONDS PORT`.

    fixed     one thread, the same work for every request
    exponential   one thread, work drawn from an exponential law
    two       two requests at a time, each sleeps
    threads   a thread per request, which share the interpreter: all at once
    mixed     one thread; a request sleeps for half of its time and computes the other half

It prints a line when it is ready.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer

KINDS = ("fixed", "exponential", "two", "threads", "mixed")
_TRIED = 300_000  # turns of the loop, to see how long one takes


def spin(turns: int) -> int:
    """Compute for so many turns of a loop."""
    x = 0
    for _ in range(turns):
        x = (x * 1103515245 + 12345) & 0x7FFFFFFF
    return x


def work(kind: str, seconds: float) -> Callable[[], None]:
    """What one request does."""
    began = time.perf_counter()
    spin(_TRIED)
    turns = int(seconds * _TRIED / (time.perf_counter() - began))
    drawn, together = random.Random(5), threading.BoundedSemaphore(2)

    def serve() -> None:
        if kind == "fixed":
            spin(turns)
        elif kind == "exponential":
            spin(int(turns * drawn.expovariate(1.0)))
        elif kind == "two":
            with together:
                time.sleep(seconds * (0.5 + drawn.random()))
        elif kind == "threads":
            spin(int(turns * (0.5 + drawn.random())))
        else:
            time.sleep(seconds / 2.0 * drawn.expovariate(1.0))
            spin(turns // 2)

    return serve


def main() -> None:
    """Serve until the process is ended."""
    kind, seconds, port = sys.argv[1], float(sys.argv[2]) / 1000.0, int(sys.argv[3])
    serve = work(kind, seconds)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            serve()
            self.send_response(200)
            self.send_header("Content-Length", "3")
            self.end_headers()
            self.wfile.write(b"ok\n")

        def log_message(self, *_: object) -> None:
            pass

    made = ThreadingHTTPServer if kind in ("two", "threads") else HTTPServer
    made.request_queue_size = 1000
    with made(("127.0.0.1", port), Handler) as server:
        print("ready", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
