"""A small HTTP service whose requests take what is asked: `python -m benchmarks.http_service KIND MILLISECONDS PORT`.

    fixed     one thread, the same work for every request
    exponential   one thread, work drawn from an exponential law
    two       two requests at a time, each sleeps
    threads   a thread per request, which share the interpreter: all at once
    mixed     one thread; a request sleeps for half of its time and computes the other half
    modes     one thread; a fifth of the requests takes eight times as long as the others
    locked    a thread per request; half of its time is waited for under a lock, half outside of it
    async     coroutines: a request waits for half of its time and computes the other half

It prints a line when it is ready.
"""

from __future__ import annotations

import asyncio
import random
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer

KINDS = ("fixed", "exponential", "two", "threads", "mixed", "modes", "locked", "async")
_LONG, _SHARE = 8.0, 0.2  # of `modes`: how much longer, and of how many requests
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
    drawn, together, lock = random.Random(5), threading.BoundedSemaphore(2), threading.Lock()

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
        elif kind == "modes":
            spin(int(turns * (_LONG if drawn.random() < _SHARE else 1.0) / (1.0 + (_LONG - 1.0) * _SHARE)))
        elif kind == "locked":
            with lock:
                time.sleep(seconds / 2.0 * (0.5 + drawn.random()))
            time.sleep(seconds / 2.0 * (0.5 + drawn.random()))
        else:
            time.sleep(seconds / 2.0 * drawn.expovariate(1.0))
            spin(turns // 2)

    return serve


def serve_coroutines(seconds: float, port: int) -> None:
    """Serve `async` until the process is ended."""
    compute, drawn = work("fixed", seconds / 2.0), random.Random(5)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(seconds / 2.0 * drawn.expovariate(1.0))
        compute()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n")
        await writer.drain()
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", port, backlog=1000)
        print("ready", flush=True)
        await server.serve_forever()

    asyncio.run(serve())


def main() -> None:
    """Serve until the process is ended."""
    kind, seconds, port = sys.argv[1], float(sys.argv[2]) / 1000.0, int(sys.argv[3])
    if kind == "async":
        serve_coroutines(seconds, port)
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

    made = ThreadingHTTPServer if kind in ("two", "threads", "locked") else HTTPServer
    made.request_queue_size = 1000
    with made(("127.0.0.1", port), Handler) as server:
        print("ready", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
