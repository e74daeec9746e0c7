"""The interface between the objects of this package and what runs their requests: a server, or the engine in process."""

from __future__ import annotations

from typing import Any, Protocol

JsonObject = dict[str, Any]


class Service(Protocol):
    """Requests of the `ml v1` API; threads may share it."""

    def get(self, path: str, query: dict[str, str] | None = None) -> JsonObject:
        """Returns the resource or list at `path`, which begins with `/v1/`."""

    def post(
        self, path: str, body: JsonObject, query: dict[str, str] | None = None, retry_for: float | None = None
    ) -> JsonObject:
        """Calls the method at `path` with `body`."""

    def delete(self, path: str) -> JsonObject:
        """Deletes the resource at `path`."""

    def finished(self, operation: JsonObject) -> JsonObject:
        """Returns the response of an operation, once it is done."""
