"""One request and its answer over HTTP, on a persistent connection per thread, without retries."""

from __future__ import annotations

import http.client
import os
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from .errors import ConfigurationError


@dataclass(frozen=True)
class Answer:
    """An answer of the service."""

    http_status: int
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes


class Transport:
    """Sends requests to one server; threads may share it."""

    def __init__(self, server: str, timeout: float, cafile: str | None) -> None:
        parts = urlsplit(server if "//" in server else f"//{server}")
        try:
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ConfigurationError(f"server {server!r}: {error}") from error
        if parts.scheme not in ("http", "https") or not host:
            raise ConfigurationError(
                f"server {server!r} is not an address such as http://127.0.0.1:8080 or https://tunesmith.example.com"
            )
        if parts.query or parts.fragment or parts.username:
            raise ConfigurationError(f"server {server!r}: an address has no query, no fragment and no user name")
        self._host, self._port, self._timeout = host, port, timeout
        self._prefix = parts.path.rstrip("/")
        self._tls = _tls(cafile) if parts.scheme == "https" else None
        if cafile is not None and self._tls is None:
            raise ConfigurationError(f"cafile {cafile!r} is given, but the server {server!r} is not an https address")
        self._local = threading.local()

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        """Sends one request.

        Raises `OSError` or `http.client.HTTPException` if there was no complete answer. The request may
        still have had an effect.
        """
        kept: _Kept | None = getattr(self._local, "kept", None)
        if kept is not None and kept.process == os.getpid():
            try:
                return self._exchange(kept, method, path, headers, body)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                # The server may have closed an idle connection: a new one can still succeed.
                pass
        # A connection from before a fork belongs to the parent process.
        kept = self._local.kept = _Kept(self._connection())
        return self._exchange(kept, method, path, headers, body)

    def close(self) -> None:
        """Closes the connection of this thread. Connections of other threads end with their threads."""
        self._local.__dict__.pop("kept", None)

    def _exchange(self, kept: _Kept, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        try:
            kept.connection.request(method, self._prefix + path, body=body, headers=dict(headers))
            response = kept.connection.getresponse()
            content = response.read()
        except BaseException:
            # After an incomplete exchange, the next answer could not be separated from the rest of this one.
            self._local.__dict__.pop("kept", None)
            kept.connection.close()
            raise
        names = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, names, content)

    def _connection(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._tls)


class _Kept:
    """A thread's connection, closed when the thread ends."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection = connection
        self.process = os.getpid()

    def __del__(self) -> None:
        self.connection.close()


def _tls(cafile: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=cafile)
    except OSError as error:
        raise ConfigurationError(f"cafile {cafile!r} cannot be used: {error}") from error
