"""The two programs of an edge node: what they are told, and when the service is ready."""

from __future__ import annotations

import http.server
import socket
import threading

from cosim.testbed.inference.node import answers, service


class _Handler(http.server.BaseHTTPRequestHandler):
    status = 200

    def do_GET(self):
        self.send_response(self.status if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_a_service_is_ready_when_it_says_so():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        assert not answers(found.getsockname()[1])
    for status in (200, 503):
        handler = type("Handler", (_Handler,), {"status": status})
        with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            assert answers(server.server_address[1]) == (status == 200)
            server.shutdown()
            thread.join()


def test_the_command_follows_the_environment():
    assert service(["--capacity", "5"], {"COSIM_CORES": "3"})[-4:] == ["--concurrency", "3", "--capacity", "5"]
    assert service(["--concurrency", "1"], {"COSIM_CORES": "3"}).count("--concurrency") == 1
