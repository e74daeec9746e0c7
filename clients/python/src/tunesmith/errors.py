"""What can go wrong, as exceptions. All of them are a `TunesmithError`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class FieldViolation:
    """A field of a request that breaks a rule."""

    field: str
    """Its path, such as `studyConfig.parameters[0].doubleValueSpec`."""
    description: str
    """What is wrong, and what is allowed."""


class TunesmithError(Exception):
    """Something went wrong between this program and the service."""


class ConfigurationError(TunesmithError):
    """The client cannot be set up: an address, an environment variable or a certificate file is missing or wrong."""


class ConnectionFailed(TunesmithError):
    """The service was not reached, or did not answer, for as long as the client tries."""


class TrialLost(TunesmithError):
    """The trial belongs to this program no longer: its lease ended, or it was completed by somebody else."""


class TrialNotCompleted(TunesmithError):
    """A program is done with a trial, but said neither what came of it nor that it is infeasible."""


class StudyInactive(TunesmithError):
    """The service has given the study up; the text says why."""


class StudyDiffers(TunesmithError):
    """A study of this name exists, and searches something else."""


class JobEnded(TunesmithError):
    """A job that was waited for failed or was cancelled."""


class ApiError(TunesmithError):
    """The service refused a request.

    `http_status` is the number of the answer, `status` the name of its `google.rpc.Code` such as `NOT_FOUND`, `message`
    the service's text, `violations` the fields that break rules, and `request_id` what the service's log calls the
    request (empty if it did not say).
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
    """The request is wrong whatever the state; `violations` name the fields."""


class FailedPrecondition(ApiError):
    """The state does not allow the request."""


class Unauthenticated(ApiError):
    """The token is missing or unknown."""


class PermissionDenied(ApiError):
    """The token does not allow the request."""


class NotFound(ApiError):
    """There is no such study, trial, job or method."""


class AlreadyExists(ApiError):
    """There is a study or job of this name already."""


class Aborted(ApiError):
    """Somebody else was faster, again and again."""


class ResourceExhausted(ApiError):
    """Too many requests, for as long as the client tries."""


class Unavailable(ApiError):
    """The service is not able to answer, for as long as the client tries."""


class ServerError(ApiError):
    """A fault of the service."""
