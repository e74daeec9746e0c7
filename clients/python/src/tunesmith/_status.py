"""Conversion of error answers to exceptions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from . import errors
from .errors import ApiError, FieldViolation

# google.rpc.Code: number, name, HTTP status, exception.
_CODES: tuple[tuple[int, str, int, type[ApiError]], ...] = (
    (1, "CANCELLED", 499, ApiError),
    (2, "UNKNOWN", 500, errors.ServerError),
    (3, "INVALID_ARGUMENT", 400, errors.InvalidArgument),
    (4, "DEADLINE_EXCEEDED", 504, errors.Unavailable),
    (5, "NOT_FOUND", 404, errors.NotFound),
    (6, "ALREADY_EXISTS", 409, errors.AlreadyExists),
    (7, "PERMISSION_DENIED", 403, errors.PermissionDenied),
    (8, "RESOURCE_EXHAUSTED", 429, errors.ResourceExhausted),
    (9, "FAILED_PRECONDITION", 400, errors.FailedPrecondition),
    (10, "ABORTED", 409, errors.Aborted),
    (11, "OUT_OF_RANGE", 400, errors.InvalidArgument),
    (12, "UNIMPLEMENTED", 501, errors.ServerError),
    (13, "INTERNAL", 500, errors.ServerError),
    (14, "UNAVAILABLE", 503, errors.Unavailable),
    (15, "DATA_LOSS", 500, errors.ServerError),
    (16, "UNAUTHENTICATED", 401, errors.Unauthenticated),
)
_BY_NAME = {name: exception for _, name, _, exception in _CODES}
_BY_NUMBER = {number: (name, http_status) for number, name, http_status, _ in _CODES}
_BY_HTTP_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def of_answer(http_status: int, body: bytes, request_id: str) -> ApiError:
    """Returns the exception for an HTTP answer, also for answers of a proxy."""
    try:
        error = json.loads(body)["error"]
        name, message = str(error["status"]), str(error["message"])
        violations, reasons = _violations(error), _reasons(error)
    except (ValueError, KeyError, TypeError, AttributeError):
        name = _BY_HTTP_STATUS.get(http_status, "UNKNOWN")
        message = f"HTTP {http_status}: {body[:300].decode('utf-8', 'replace').strip() or 'no text'}"
        violations, reasons = [], []
    return _exception(name, reasons)(http_status, name, message, violations, request_id)


def of_operation(status: Mapping[str, Any]) -> ApiError:
    """Returns the exception for the `google.rpc.Status` of a failed operation."""
    name, http_status = _BY_NUMBER.get(int(status.get("code", 2)), ("UNKNOWN", 500))
    message = str(status.get("message", "the operation failed without a message"))
    return _exception(name, _reasons(status))(http_status, name, message, _violations(status))


def _exception(name: str, reasons: list[str]) -> type[ApiError]:
    return errors.StudyCompleted if "STUDY_COMPLETED" in reasons else _BY_NAME.get(name, ApiError)


def _reasons(status: Mapping[str, Any]) -> list[str]:
    return [str(detail.get("reason", "")) for detail in status.get("details", [])]


def _violations(status: Mapping[str, Any]) -> list[FieldViolation]:
    return [
        FieldViolation(str(violation.get("field", "")), str(violation.get("description", "")))
        for detail in status.get("details", [])
        for violation in detail.get("fieldViolations", [])
    ]
