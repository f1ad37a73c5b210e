"""The server of the dashboard: the page, the scene, series, events, frames, and commands with the token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Header, Query, Request, WebSocket
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles

from cosim.contract.errors import CosimError
from cosim.report.web.candidates import Candidates
from cosim.report.web.feed import Feed
from cosim.report.web.guard import WebGuard
from cosim.report.web.live import LiveSource
from cosim.report.web.message import strict
from cosim.report.web.pictures import BOUNDARY, parts
from cosim.report.web.source import RunSource
from cosim.talk.control import MAX_REQUEST, ControlError, command, same_token

STATIC = Path(__file__).parent / "static"
VIEWERS = 32  # browsers at a time
FIGURES = 12  # asked for at a time


class _Files(StaticFiles):
    """Static files, with the type that browsers require for modules, independent of the system's table."""

    def file_response(self, *args: Any, **more: Any) -> Response:  # noqa: ANN401 - as in the base class
        response = super().file_response(*args, **more)
        if str(args[0]).endswith(".mjs"):
            response.headers["content-type"] = "text/javascript; charset=utf-8"
        return response


def make_app(
    source: RunSource, *, token: str = "", hosts: Iterable[str] = (), candidates: Candidates | None = None,
    password: str = "",
) -> FastAPI:  # fmt: skip
    """The dashboard of `source`, which it closes when it ends. Without a `token` it is read-only.

    With a `password` nothing is shown without it.

    `hosts` are names besides localhost that browsers may call it by. `candidates` are changes whose effect on the
    next minutes the page may ask for, one question at a time.
    """

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(source.close)

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.add_middleware(WebGuard, hosts=tuple(hosts), password=password)
    app.mount("/static", _Files(directory=STATIC), name="static")
    watching: set[WebSocket] = set()
    streams: list[int] = []  # nodes whose pictures are sent
    answering = asyncio.Lock()

    @app.get("/")
    def page() -> FileResponse:
        return FileResponse(STATIC / "index.html", media_type="text/html; charset=utf-8")

    @app.get("/api/scene")
    def scene() -> JSONResponse:
        offered = list(candidates.names) if candidates is not None else []
        controllable = bool(token) and source.live
        return JSONResponse(strict({**source.scene(), "controllable": controllable, "candidates": offered}))

    @app.get("/api/series")
    def series(figure: Annotated[list[str], Query(max_length=FIGURES)], since: float = -1.0) -> JSONResponse:
        return JSONResponse(strict(source.series(figure, since)))

    @app.get("/api/events")
    def events() -> JSONResponse:
        return JSONResponse(strict({"events": source.events()}))

    @app.get("/api/picture")
    def picture(node: Annotated[int, Query(ge=0)], at: float | None = None) -> Response:
        found = source.picture(node, at)
        if found is None:
            return _refusal(404, "no picture of this node can be shown")
        return Response(found, media_type="image/png", headers={"Cache-Control": "no-store"})

    @app.get("/api/stream")
    async def stream(node: Annotated[int, Query(ge=0)]) -> Response:
        if len(streams) >= VIEWERS:
            return _refusal(503, "too many streams of pictures")
        if await asyncio.to_thread(source.picture, node, None) is None:
            return _refusal(404, "no picture of this node can be shown")

        async def body() -> AsyncIterator[bytes]:
            streams.append(node)
            try:
                async for part in parts(lambda: source.picture(node, None), lambda: source.live):
                    yield part
            finally:
                streams.remove(node)

        kind = f"multipart/x-mixed-replace; boundary={BOUNDARY}"
        return StreamingResponse(body(), media_type=kind, headers={"Cache-Control": "no-store"})

    @app.get("/api/find")
    def find(name: Annotated[str, Query(max_length=200)]) -> JSONResponse:
        return JSONResponse({"nodes": source.find(name)})

    @app.websocket("/api/frames")
    async def frames(socket: WebSocket) -> None:
        if len(watching) >= VIEWERS:
            await socket.close(1013)
            return
        await socket.accept()
        watching.add(socket)
        try:
            await Feed(source, socket).serve()
        finally:
            watching.discard(socket)

    @app.post("/api/control")
    async def control(request: Request, authorization: Annotated[str, Header()] = "") -> JSONResponse:
        if not token:
            return _refusal(403, "this dashboard is read-only; start it with --token, the token of the run")
        if not same_token(authorization.removeprefix("Bearer "), token):
            return _refusal(401, "the token is wrong")
        if not isinstance(source, LiveSource) or not source.control:
            return _refusal(409, "this run takes no commands; start it with --control")
        try:
            if int(request.headers.get("content-length", MAX_REQUEST + 1)) > MAX_REQUEST:
                return _refusal(413, "the command is too long")
            asked = await request.json()
            verb = asked.pop("do")
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            return _refusal(400, "a command is an object with 'do'")
        if not isinstance(verb, str) or {"address", "token", "verb", "timeout"} & set(asked):
            return _refusal(400, "'do' is the name of a command, and the others are its arguments")
        try:
            answer = await asyncio.to_thread(command, source.control, token, verb, **asked)
        except ControlError as error:
            return _refusal(400, str(error))
        return JSONResponse(strict({"ok": True, "error": "", **answer}))

    @app.post("/api/what-if")
    async def what_if(request: Request) -> JSONResponse:
        if candidates is None:
            return _refusal(409, "no candidates: start the dashboard with --scenario and --change")
        try:
            if int(request.headers.get("content-length", MAX_REQUEST + 1)) > MAX_REQUEST:
                return _refusal(413, "the question is too long")
            asked = candidates.asked(await request.json())
        except (ValueError, RecursionError) as error:
            return _refusal(400, str(error))
        if answering.locked():
            return _refusal(409, "another question is being answered; ask again in a moment")
        async with answering:
            try:
                found = await asyncio.to_thread(candidates.answer, *asked)
            except CosimError as error:
                return _refusal(400, str(error))
        return JSONResponse(strict({"ok": True, "error": "", "answers": list(found)}))

    return app


def _refusal(status: int, reason: str) -> JSONResponse:
    return JSONResponse({"ok": False, "error": reason}, status)
