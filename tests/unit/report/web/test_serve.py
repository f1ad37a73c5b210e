"""The dashboard's socket: connections without a request do not stay."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, nullcontext

import pytest

uvicorn = pytest.importorskip("uvicorn")
serve = pytest.importorskip("cosim.report.web.serve")


async def app(scope, receive, send):
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"here"})


def test_half_a_request_ends_and_a_whole_one_is_answered(monkeypatch):
    monkeypatch.setattr(serve, "PATIENCE", 0.2)

    async def visit(listener):
        server = uvicorn.Server(uvicorn.Config(app, http=serve.Impatient, lifespan="off", log_level="error"))
        running = asyncio.create_task(server.serve(sockets=[listener]))
        guests = [await asyncio.open_connection(*listener.getsockname()) for _ in range(6)]
        for k, (_, out) in enumerate(guests):
            out.write((b"GET / HTTP/1.1\r\n" if k % 2 else b"") + (b"Host: x\r\n\r\n" if k == 5 else b""))
        heard = [await asyncio.wait_for(answer.read(4096), 10.0) for answer, _ in guests]
        for _, out in guests:
            out.close()
        server.should_exit = True
        await running
        return heard

    monkeypatch.setattr(uvicorn.Server, "capture_signals", lambda _: nullcontext())
    with serve.bind("127.0.0.1", 0) as listener:
        heard = asyncio.run(visit(listener))
    assert heard[:5] == [b""] * 5
    assert b"here" in heard[5]


def test_many_guests_of_one_address_do_not_show_out_another(monkeypatch):
    async def visit(listener):
        server = uvicorn.Server(uvicorn.Config(app, http=serve.Impatient, lifespan="off", log_level="error"))
        running = asyncio.create_task(server.serve(sockets=[listener]))
        at = listener.getsockname()
        with ExitStack() as stack:
            answer, out = await asyncio.open_connection(*at, local_addr=("127.0.0.2", 0))
            for _ in range(3 * serve.SILENT):
                _, guest = await asyncio.open_connection(*at)
                stack.callback(guest.close)
            out.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            heard = await asyncio.wait_for(answer.read(4096), 10.0)
            out.close()
        server.should_exit = True
        await running
        return heard

    monkeypatch.setattr(serve, "PATIENCE", 30.0)
    monkeypatch.setattr(uvicorn.Server, "capture_signals", lambda _: nullcontext())
    with serve.bind("127.0.0.1", 0) as listener:
        assert b"here" in asyncio.run(visit(listener))
