"""Requests with JSON bodies, repeated until they are answered, each with one effect."""

from __future__ import annotations

import http.client
import json
import ssl
import time
import uuid
from typing import Any
from urllib.parse import urlencode

from . import _status
from ._backoff import Backoff, retry_after
from ._service import JsonObject
from ._transport import Transport
from ._version import __version__
from .errors import ApiError, ConnectionFailed, ServerError, StudyCompleted

# The service or a proxy answers these if a request had no effect or may be repeated.
_RETRIED_STATUSES = frozenset({429, 502, 503, 504})


class Api:
    """The requests of a `Client`; threads may share it."""

    def __init__(
        self, transport: Transport, token: str | None, retry_for: float, backoff: Backoff | None = None
    ) -> None:
        self._transport = transport
        self._token = token
        self._retry_for = retry_for
        self._backoff = backoff or Backoff()

    def get(self, path: str, query: dict[str, str] | None = None) -> JsonObject:
        """Sends a GET of `path`, which begins with `/v1/`."""
        return self._call("GET", path, query, None, None)

    def post(
        self, path: str, body: JsonObject, query: dict[str, str] | None = None, retry_for: float | None = None
    ) -> JsonObject:
        """Sends a POST of `body`. All attempts have the same `Idempotency-Key`, and together one effect."""
        return self._call("POST", path, query, body, retry_for)

    def delete(self, path: str) -> JsonObject:
        """Sends a DELETE of `path`."""
        return self._call("DELETE", path, None, None, None)

    def finished(self, operation: JsonObject) -> JsonObject:
        """Returns the response of an operation, which is polled until it is done."""
        backoff = Backoff(first=0.05, most=1.0)
        polls = 0
        while not operation.get("done"):
            time.sleep(backoff.seconds(polls))
            polls += 1
            operation = self.get(f"/v1/{operation['name']}")
        if "error" in operation:
            raise _status.of_operation(operation["error"])
        response: JsonObject = operation.get("response", {})
        return response

    def close(self) -> None:
        """Closes the connection of this thread."""
        self._transport.close()

    def _call(
        self, method: str, path: str, query: dict[str, str] | None, body: JsonObject | None, retry_for: float | None
    ) -> JsonObject:
        target = f"{path}?{urlencode(query)}" if query else path
        content = None if body is None else json.dumps(body, allow_nan=False).encode()
        headers = self._headers(method, content)
        deadline = time.monotonic() + (self._retry_for if retry_for is None else retry_for)
        attempt = 0
        while True:
            asked_for: float | None = None
            failure: ApiError | ConnectionFailed
            cause: Exception | None = None
            try:
                answer = self._transport.send(method, target, headers, content)
            except ssl.SSLCertVerificationError as error:
                raise ConnectionFailed(f"{method} {path}: the server's certificate is not trusted: {error}") from error
            except (OSError, http.client.HTTPException) as error:
                failure = ConnectionFailed(
                    f"{method} {path}: no answer after {attempt + 1} attempts: {str(error) or type(error).__name__}"
                )
                cause = error
            else:
                if 200 <= answer.http_status < 300:
                    return _read(answer.body)
                refusal = _status.of_answer(answer.http_status, answer.body, answer.headers.get("x-request-id", ""))
                # ABORTED: another request was faster and this one had no effect. No request depends on earlier reads.
                is_temporary = answer.http_status in _RETRIED_STATUSES or refusal.status == "ABORTED"
                if not is_temporary or isinstance(refusal, StudyCompleted):
                    raise refusal
                failure = refusal
                asked_for = retry_after(answer.headers.get("retry-after"))
            wait = max(self._backoff.seconds(attempt), asked_for or 0.0)
            if time.monotonic() + wait > deadline:
                raise failure from cause
            time.sleep(wait)
            attempt += 1

    def _headers(self, method: str, content: bytes | None) -> dict[str, str]:
        headers = {"accept": "application/json", "user-agent": f"tunesmith-python/{__version__}"}
        if content is not None:
            headers["content-type"] = "application/json"
        if method != "GET":
            headers["idempotency-key"] = str(uuid.uuid4())
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token}"
        return headers


def _read(body: bytes) -> JsonObject:
    try:
        message = json.loads(body or b"{}")
    except ValueError as error:
        raise ServerError(200, "UNKNOWN", f"the answer is not JSON: {body[:300]!r}") from error
    if not isinstance(message, dict):
        raise ServerError(200, "UNKNOWN", f"the answer is not a JSON object: {body[:300]!r}")
    return message
