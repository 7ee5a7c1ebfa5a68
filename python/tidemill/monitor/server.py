"""Serves health and metrics over HTTP, on the loopback interface unless told otherwise."""

from __future__ import annotations

import ipaddress
import json
import logging
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import ClassVar

from prometheus_client import CONTENT_TYPE_LATEST

from tidemill.monitor.health import Health
from tidemill.monitor.metrics import Metrics
from tidemill.monitor.observer import OBSERVERS, Observers

LOOPBACK = "127.0.0.1"
_LOG = logging.getLogger("tidemill")


class Monitor:
    """Serves health and metrics of this process's views over HTTP, at `/health` and `/metrics`, until `close()`.

    `port`: 0 takes any free one, which `address` tells. `host`: the IPv4 address that it listens at; by default only
    this machine reaches it. `observers`: whose runs are told, by default those of this process. It is a context manager
    that closes itself. Raises OSError if the port is taken.
    """

    def __init__(self, port: int = 0, host: str = LOOPBACK, *, observers: Observers | None = None) -> None:
        self.health, self.metrics = Health(), Metrics()
        self._observers = OBSERVERS if observers is None else observers
        handler = type("Handler", (_Handler,), {"monitor": self, "local": _is_loopback(host)})
        self._server = ThreadingHTTPServer((host, port), handler)
        self._server.daemon_threads = True
        self.host = host
        for observer in (self.health, self.metrics):
            self._observers.attach(observer)
        self._thread = threading.Thread(target=self._server.serve_forever, name="tidemill-monitor", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that it serves at."""
        return int(self._server.server_address[1])

    @property
    def address(self) -> str:
        """Its URL, without a path."""
        return f"http://{self.host}:{self.port}"

    def close(self) -> None:
        """Stops serving and observing. Closing it again does nothing."""
        for observer in (self.health, self.metrics):
            self._observers.detach(observer)
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD. `local`: the server is for this machine alone."""

    monitor: ClassVar[Monitor]
    local: ClassVar[bool]
    timeout = 10  # seconds for which a client may say nothing
    server_version = "tidemill"
    sys_version = ""

    def do_GET(self) -> None:
        if self.local and not _is_local(self.headers.get("Host", "")):
            # A page in a browser may have its own name lead to this machine.
            return self._answer(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", b"ask for localhost\n")
        match self.path.partition("?")[0]:
            case "/health":
                told = self.monitor.health.told()
                status = HTTPStatus.OK if told["ok"] else HTTPStatus.SERVICE_UNAVAILABLE
                body = json.dumps(told, ensure_ascii=False, indent=2).encode() + b"\n"
                return self._answer(status, "application/json", body)
            case "/metrics":
                return self._answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, self.monitor.metrics.text())
            case _:
                return self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"/health or /metrics\n")

    do_HEAD = do_GET  # noqa: N815  # as above

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # a name of the base class
        _LOG.debug("Tidemill: monitor: " + format, *args)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_local(header: str) -> bool:
    """Returns True if a Host header names this machine, with or without a port."""
    name = header.rpartition(":")[0] if header.rpartition(":")[2].isdigit() else header
    return _is_loopback(name.strip("[]"))
