"""The queue in front of the kernels: bounded, first come first served, with a fixed number of workers."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic, perf_counter, sleep, thread_time

from cosim.testbed.inference.kernels import LARGEST, SMALLEST, Kernel, Result

# s; upper bounds of the classes of the response-time histogram
BOUNDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class RequestRefusedError(Exception):
    """The request cannot be served: `status` is the HTTP status of the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class KernelAnswer:
    """What came out, and how long it took."""

    kernel: str
    result: Result
    came: float  # s, monotonic clock, when the whole input was here
    queued: float  # s
    computed: float  # s
    cpu: float  # s of the worker thread
    waiting: int  # requests in line when it came


@dataclass(slots=True)
class KernelCounts:
    """What has happened to the requests for one kernel."""

    served: int = 0
    failed: int = 0
    seconds: float = 0.0  # of computation
    bytes: int = 0  # received
    classes: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))  # by response time


class Station:
    """`concurrency` workers and room for `capacity` requests in line; the others are refused."""

    def __init__(self, kernels: Mapping[str, Kernel], concurrency: int, capacity: int) -> None:
        if concurrency < 1 or capacity < 0:
            raise ValueError(f"concurrency is {concurrency} and capacity {capacity}; at least 1 and 0 are needed")
        self.kernels, self.concurrency, self.capacity = kernels, concurrency, capacity
        self.counts = {name: KernelCounts() for name in kernels}
        self.refused = 0
        self.present = 0  # in line or being served
        self.started = monotonic()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="kernel")

    @property
    def waiting(self) -> int:
        """Requests in line."""
        return max(self.present - self.concurrency, 0)

    @property
    def running(self) -> int:
        """Requests being served."""
        return min(self.present, self.concurrency)

    def submit(self, name: str, size: int | None, data: bytes, least: float = 0.0) -> Future[KernelAnswer]:
        """Take a request in line, which then keeps a worker for at least `least` s.

        Raises `RequestRefusedError` when it is wrong, or there is no room.
        """
        kernel = self.kernels.get(name)
        if kernel is None:
            raise RequestRefusedError(404, f"there is no kernel '{name[:40]}'; there are {', '.join(self.kernels)}")
        wanted = kernel.size if size is None else size
        if not SMALLEST <= wanted <= LARGEST:
            raise RequestRefusedError(422, f"size is {wanted}; it lies between {SMALLEST} and {LARGEST}")
        with self._lock:
            if self.present >= self.concurrency + self.capacity:
                self.refused += 1
                raise RequestRefusedError(503, f"{self.waiting} requests are in line; there is no room for more")
            ahead, self.present = self.waiting, self.present + 1
        return self._pool.submit(self._serve, kernel, wanted, data, least, perf_counter(), ahead)

    def _serve(self, kernel: Kernel, size: int, data: bytes, least: float, came: float, ahead: int) -> KernelAnswer:
        began, cpu = perf_counter(), thread_time()
        result = None
        try:
            result = kernel.run(data, size)
            sleep(max(0.0, began + least - perf_counter()))
        finally:
            ended, used = perf_counter(), thread_time() - cpu
            with self._lock:
                self.present -= 1
                count = self.counts[kernel.name]
                count.bytes += len(data)
                count.seconds += ended - began
                if result is None:
                    count.failed += 1
                else:
                    count.served += 1
                    count.classes[sum(ended - came > bound for bound in BOUNDS)] += 1
        return KernelAnswer(kernel.name, result, came, began - came, ended - began, used, ahead)

    def close(self) -> None:
        """Serve what is in line, then stop."""
        self._pool.shutdown(wait=True, cancel_futures=False)
