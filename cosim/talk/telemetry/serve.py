"""Metrics on the network: an endpoint per node to scrape, and export to a collector. Off unless requested."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Protocol
from urllib.parse import urlsplit

from cosim.talk.doorkeeper import PATIENCE, shown_out
from cosim.talk.telemetry.export import PROMETHEUS

log = logging.getLogger("cosim.talk.telemetry")

_PATIENCE = 5.0  # s for an answer
_LONGEST = 8192  # B of a request
_CONNECTIONS = 64  # at once, over all endpoints


class Endpoints:
    """One HTTP server per node that answers GET /metrics with what `page(node)` gives, in one thread.

    `ports` may hold 0 for a port that the system chooses. Raises `OSError` when one cannot be had.
    """

    def __init__(self, host: str, ports: Mapping[str, int], page: Callable[[str], bytes]) -> None:
        self.addresses: dict[str, tuple[str, int]] = {}
        self._host, self._ports, self._page = host, ports, page
        self._guests: dict[asyncio.StreamWriter, str] = {}  # with the address of each
        self._failure: OSError | None = None
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    def close(self) -> None:
        """Stop listening; may be called twice."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(_PATIENCE)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()
            self._ready.set()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        servers = []
        try:
            for node, port in self._ports.items():
                server = await asyncio.start_server(self._answerer(node), self._host, port, limit=_LONGEST)
                servers.append(server)
                self.addresses[node] = server.sockets[0].getsockname()[:2]
        except OSError as failure:
            self._failure = failure
            self._stop.set()
        self._ready.set()
        await self._stop.wait()
        for server in servers:
            server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _answerer(self, node: str) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if len(self._guests) >= _CONNECTIONS:
                out = shown_out(self._guests, self._guests.__getitem__)
                out.transport.abort()
                del self._guests[out]
            self._guests[writer] = (writer.get_extra_info("peername") or ("",))[0]
            try:
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
                writer.write(self._response(node, head))
                await asyncio.wait_for(writer.drain(), _PATIENCE)
            except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                log.debug("a request for the metrics of %s broke off", node)
            finally:
                self._guests.pop(writer, None)
                writer.close()

        return answer

    def _response(self, node: str, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        status, body = b"404 Not Found", b"GET /metrics\n"
        if len(words) != 3:
            status = b"400 Bad Request"
        elif words[0] not in (b"GET", b"HEAD"):
            status = b"405 Method Not Allowed"
        elif words[1].split(b"?")[0] == b"/metrics":
            status, body = b"200 OK", self._page(node)
        fields = (
            b"HTTP/1.1 " + status, b"Content-Type: " + PROMETHEUS.encode(),
            b"Content-Length: %d" % len(body), b"Connection: close", b"", b"",
        )  # fmt: skip
        return b"\r\n".join(fields) + (b"" if words[0] == b"HEAD" else body)


class Collector:
    """Sends the result of `body()` to an OTLP collector every `interval` s of the wall clock, and at the end.

    `url` is http(s):// for OTLP/HTTP in JSON (port 4318 unless it names another), or grpc:// and, with TLS, grpcs://
    for OTLP/gRPC (port 4317; extra `otlp`). What cannot be delivered is dropped, with one warning.
    """

    def __init__(self, url: str, interval: float, body: Callable[[], Mapping[str, Any]]) -> None:
        self.sent = self.failed = 0
        self._url, self._interval, self._body = url, interval, body
        self._way: _Way = (_Grpc if url.startswith("grpc") else _Http)(url)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send the last values and stop; may be called twice."""
        self._stop.set()
        self._thread.join(2 * _PATIENCE)

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            self._send()
        self._send()
        self._way.close()

    def _send(self) -> None:
        try:
            self._way.send(self._body())
            self.sent += 1
        except (OSError, HTTPException) as error:
            self.failed += 1
            if self.failed == 1:
                log.warning("the collector at %s does not take metrics: %s", self._url, error)


class _Way(Protocol):
    """A way to a collector. `send` raises `OSError` or `HTTPException` for what it does not take."""

    def send(self, body: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


class _Http:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host, self._port = parts.hostname or "", parts.port or 4318
        self._path = (parts.path.rstrip("/") or "") + "/v1/metrics"

    def send(self, body: Mapping[str, Any]) -> None:
        data = json.dumps(body, allow_nan=False).encode()
        connection = self._kind(self._host, self._port, timeout=_PATIENCE)
        try:
            connection.request("POST", self._path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read(_LONGEST)
            if answer.status >= 300:
                raise OSError(f"it answers {answer.status} {answer.reason}")
        finally:
            connection.close()

    def close(self) -> None:
        """Every request has had a connection of its own."""


class _Grpc:
    """The method Export of the protocol's MetricsService. The body in JSON is the message in protobuf's own mapping."""

    def __init__(self, url: str) -> None:
        import grpc
        from google.protobuf import json_format
        from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service

        parts = urlsplit(url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        target = f"{host}:{parts.port or 4317}"
        options = (("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", _LONGEST))
        if parts.scheme == "grpcs":
            self._channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(), options)
        else:
            self._channel = grpc.insecure_channel(target, options)
        self._export: Callable[..., Any] = self._channel.unary_unary(
            "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            request_serializer=service.ExportMetricsServiceRequest.SerializeToString,
            response_deserializer=service.ExportMetricsServiceResponse.FromString,
        )
        self._request: Callable[[Mapping[str, Any]], Any] = lambda body: json_format.ParseDict(
            body, service.ExportMetricsServiceRequest()
        )
        self._error: Any = grpc.RpcError

    def send(self, body: Mapping[str, Any]) -> None:
        try:
            answer = self._export(self._request(body), timeout=_PATIENCE)
        except self._error as error:
            raise OSError(f"{error.code().name}: {error.details()}") from error
        if answer.partial_success.rejected_data_points:
            refused = answer.partial_success
            raise OSError(f"it refuses {refused.rejected_data_points} values: {refused.error_message}")

    def close(self) -> None:
        self._channel.close()
