"""A server with scripted answers, for answers that the real one rarely gives."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class Scripted:
    """One answer; status 0 closes the connection without any."""

    status: int
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    then_close: bool = False
    """Closes the connection afterwards, without announcing it."""


def refusal(status: int, name: str, **headers: str) -> Scripted:
    """An error in the form of the service."""
    return Scripted(status, {"error": {"code": status, "status": name, "message": "as scripted"}}, headers)


class ScriptedServer:
    """Answers one request after the other, and records their heads."""

    def __init__(self, answers: Sequence[Scripted], tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        """Method and path, and headers by name in lower case."""
        self.connections = 0
        left = iter(answers)
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                script.connections += 1

            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                script.requests.append((f"{self.command} {self.path}", headers))
                answer = next(left)
                self.close_connection = answer.then_close or answer.status == 0
                if answer.status == 0:
                    return
                body = answer.body.encode() if isinstance(answer.body, str) else json.dumps(answer.body).encode()
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_DELETE = _answer  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        self.address = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def keys(self) -> list[str]:
        """The idempotency keys of the requests."""
        return [headers["idempotency-key"] for _, headers in self.requests]

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
