"""The HTTP face of the station.

`POST /run/KERNEL?size=N&output=BYTES&least=SECONDS` with the input as body; answers JSON: result, when the input had
come (by the monotonic clock of the boot named `clock`), seconds queued and computed; filled with spaces to `output`
bytes. With `least` a worker is kept at least so long, as by a slower processor.
`GET /status` the queue and the counts, `GET /kernels` what there is, `GET /health`, and
`GET /metrics` in Prometheus' text format.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from time import monotonic
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from cosim.testbed.inference.limits import MOST_HELD, boot_id, limits
from cosim.testbed.inference.station import BOUNDS, RequestRefusedError, Station

MOST_BYTES = 32 << 20  # of one input
SERVICE = "inference"  # name of the service in metrics
_SECONDS = re.compile(r"[0-9]{1,4}(\.[0-9]{1,9})?")


def application(station: Station, name: str) -> Starlette:
    """The service of node `name`."""
    boot = boot_id()

    async def run(request: Request) -> Response:
        try:
            data = await _body(request)
            size, output = _whole(request, "size"), _whole(request, "output") or 0
            if output > MOST_BYTES:
                raise RequestRefusedError(422, f"output is {output}; it is at most {MOST_BYTES}")
            future = station.submit(request.path_params["kernel"], size, data, _seconds(request, "least"))
        except RequestRefusedError as refused:
            headers = {"Retry-After": "1"} if refused.status == 503 else None
            return JSONResponse({"error": str(refused)}, refused.status, headers)
        try:
            answer = await asyncio.wrap_future(future)
        except (RuntimeError, MemoryError, ValueError) as error:  # of numpy and torch: the request's fault or no memory
            return JSONResponse({"error": f"{type(error).__name__}: {error}"}, 500)
        text = json.dumps({"node": name, "clock": boot, **asdict(answer)}).encode()
        return Response(text.ljust(output), media_type="application/json")

    async def status(_request: Request) -> Response:
        now = {key: getattr(station, key) for key in ("waiting", "running", "concurrency", "capacity", "refused")}
        used = {key: asdict(count) for key, count in station.counts.items() if count.served + count.failed}
        return JSONResponse({"node": name, **now, "seconds": monotonic() - station.started, "kernels": used})

    async def kernels(_request: Request) -> Response:
        return JSONResponse({k.name: {"meaning": k.meaning, "size": k.size} for k in station.kernels.values()})

    async def health(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def metrics(_request: Request) -> Response:
        text = "\n".join(exposition(station, name)) + "\n"
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(station.close)

    answers = {"/status": status, "/kernels": kernels, "/health": health, "/metrics": metrics}
    routes = [Route(path, answer) for path, answer in answers.items()]
    return Starlette(routes=[Route("/run/{kernel}", run, methods=["POST"]), *routes], lifespan=lifespan)


def _whole(request: Request, name: str) -> int | None:
    text = request.query_params.get(name)
    if text is not None and not text.isdecimal():
        raise RequestRefusedError(422, f"{name} is '{text[:20]}'; it is a whole number")
    return None if text is None else int(text[:9])


def _seconds(request: Request, name: str) -> float:
    text = request.query_params.get(name, "0")
    if not _SECONDS.fullmatch(text) or float(text) > MOST_HELD:
        raise RequestRefusedError(422, f"{name} is '{text[:20]}'; it is a number of seconds up to {MOST_HELD:g}")
    return float(text)


async def _body(request: Request) -> bytes:
    """The input; refused as soon as it is too long, whatever the header declares."""
    parts, length = [], 0
    async for part in request.stream():
        length += len(part)
        if length > MOST_BYTES:
            raise RequestRefusedError(413, f"the input is longer than {MOST_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)


def exposition(station: Station, node: str) -> Iterator[str]:
    """Lines of Prometheus' text format 0.0.4.

    The labels are the resource attributes that the MLSysOps collector turns into labels, and its `node_name`.
    """
    who = f'node_name="{node}",service_name="{SERVICE}",service_instance_id="{node}",service_hostname="{node}"'

    def family(name: str, kind: str, meaning: str, rows: list[tuple[str, Any]]) -> Iterator[str]:
        yield f"# HELP {name} {meaning}"
        yield f"# TYPE {name} {kind}"
        for labels, value in rows:
            yield f"{name}{{{who}{labels}}} {value}"

    bound = limits()
    used = {key: count for key, count in station.counts.items() if count.served + count.failed}
    yield from family("inference_queue_length", "gauge", "requests in line", [("", station.waiting)])
    yield from family("inference_running", "gauge", "requests being served", [("", station.running)])
    yield from family("inference_concurrency", "gauge", "requests served at once at most", [("", station.concurrency)])
    yield from family("inference_refused_total", "counter", "requests without room", [("", station.refused)])
    if bound.cores != float("inf"):
        yield from family("inference_cpu_limit_cores", "gauge", "limit of the control group", [("", bound.cores)])
    if bound.memory is not None:
        yield from family("inference_memory_limit_bytes", "gauge", "limit of the control group", [("", bound.memory)])
    for name, kind, meaning, value in (
        ("inference_requests_total", "counter", "requests served", "served"),
        ("inference_failures_total", "counter", "requests that ended in an error", "failed"),
        ("inference_compute_seconds_total", "counter", "time of computation", "seconds"),
        ("inference_received_bytes_total", "counter", "input received", "bytes"),
    ):
        rows = [(f',kernel="{key}"', getattr(count, value)) for key, count in used.items()]
        yield from family(name, kind, meaning, rows)
    yield "# HELP inference_response_seconds time from arrival to answer"
    yield "# TYPE inference_response_seconds histogram"
    for key, count in used.items():
        total = 0
        for upper, number in zip([*map(str, BOUNDS), "+Inf"], count.classes, strict=True):
            total += number
            yield f'inference_response_seconds_bucket{{{who},kernel="{key}",le="{upper}"}} {total}'
        yield f'inference_response_seconds_count{{{who},kernel="{key}"}} {total}'
