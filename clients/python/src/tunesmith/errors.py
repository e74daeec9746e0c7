"""Exceptions. All of them are a `TunesmithError`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class FieldViolation:
    """An invalid field of a request."""

    field: str
    """Its path, such as `studyConfig.parameters[0].doubleValueSpec`."""
    description: str
    """What is wrong, and what is allowed."""


class TunesmithError(Exception):
    """Base class of all exceptions of this package."""


class ConfigurationError(TunesmithError):
    """The client cannot be set up: an address, an environment variable or a certificate file is missing or wrong."""


class ConnectionFailed(TunesmithError):
    """The service could not be reached or did not answer within the time for retries."""


class TrialLost(TunesmithError):
    """The trial no longer belongs to this program: its lease expired, or another client completed it."""


class TrialNotCompleted(TunesmithError):
    """A program has left a trial without completing it or declaring it infeasible."""


class StudyInactive(TunesmithError):
    """The service has deactivated the study; the text has the reason."""


class SearchEnded(TunesmithError):
    """There are no more trials: the search space or the number of trials is exhausted."""


class NoResult(TunesmithError):
    """No trial of the study has a result yet."""


class StudyDiffers(TunesmithError):
    """A study of this name exists with another configuration."""


class JobEnded(TunesmithError):
    """A job failed or was cancelled."""


class ApiError(TunesmithError):
    """The service refused a request.

    `http_status` is the HTTP status, `status` the name of the `google.rpc.Code` such as `NOT_FOUND`, `message` the
    service's text, `violations` the invalid fields, and `request_id` the ID of the request in the service's log (empty
    if the answer had none).
    """

    def __init__(
        self,
        http_status: int,
        status: str,
        message: str,
        violations: Sequence[FieldViolation] = (),
        request_id: str = "",
    ) -> None:
        super().__init__(f"{status}: {message}")
        self.http_status = http_status
        self.status = status
        self.message = message
        self.violations = tuple(violations)
        self.request_id = request_id


class InvalidArgument(ApiError):
    """The request is invalid in any state; `violations` name the fields."""


class FailedPrecondition(ApiError):
    """The state does not allow the request."""


class Unauthenticated(ApiError):
    """The token is missing or unknown."""


class PermissionDenied(ApiError):
    """The token does not allow the request."""


class NotFound(ApiError):
    """The study, trial, job or method does not exist."""


class AlreadyExists(ApiError):
    """A study or job of this name already exists."""


class Aborted(ApiError):
    """Other requests were faster, repeatedly."""


class ResourceExhausted(ApiError):
    """Too many requests, beyond the time for retries."""


class StudyCompleted(ResourceExhausted):
    """The study is completed and has no more trials for this client."""


class Unavailable(ApiError):
    """The service was unable to answer within the time for retries."""


class ServerError(ApiError):
    """A fault of the service."""
