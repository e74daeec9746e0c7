"""Jobs that the service runs: programs, with or without hyperparameter tuning."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ._api import Api
from ._backoff import Backoff
from .errors import JobEnded

JobState = Literal["QUEUED", "PREPARING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLING", "CANCELLED"]

_FINAL_STATES = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})


@dataclass(frozen=True)
class JobTrial:
    """A successful trial of a tuning job."""

    number: int
    hyperparameters: Mapping[str, str]
    """Values as text, as in AI Platform."""
    metric: float
    """The final value of the job's metric."""
    step: int
    stopped_early: bool

    @classmethod
    def of_message(cls, message: Mapping[str, Any]) -> JobTrial:
        """From `HyperparameterOutput` of the API."""
        return cls(
            number=int(message["trialId"]),
            hyperparameters=dict(message.get("hyperparameters", {})),
            metric=float(message["finalMetric"]["objectiveValue"]),
            step=int(message["finalMetric"].get("trainingStep", 0)),
            stopped_early=bool(message.get("isTrialStoppedEarly", False)),
        )


class Job:
    """A job on the service; threads may share it."""

    def __init__(self, api: Api, name: str, message: dict[str, Any]) -> None:
        self._api = api
        self._name = name
        self._message = message

    @property
    def name(self) -> str:
        """Resource name, `projects/{project}/jobs/{id}`."""
        return self._name

    @property
    def id(self) -> str:
        """The name in its project."""
        return str(self._message["jobId"])

    @property
    def state(self) -> JobState:
        """The current state of the job. Each access is a request."""
        state: JobState = self.read()["state"]
        return state

    @property
    def trials(self) -> list[JobTrial]:
        """The successful trials so far, best first; empty for a job without hyperparameters."""
        output = self.read().get("trainingOutput", {})
        return [JobTrial.of_message(trial) for trial in output.get("trials", [])]

    def read(self) -> dict[str, Any]:
        """Returns the job in its present state, as `Job` of the API."""
        self._message = self._api.get(f"/v1/{self._name}")
        return self._message

    def wait(self, timeout: float | None = None) -> dict[str, Any]:
        """Waits for the end of the job, and returns it as `read` does.

        Raises `JobEnded` with the reason if the job failed or was cancelled, and `TimeoutError` if it has not ended
        after `timeout` seconds; the job then continues.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        backoff, polls = Backoff(first=0.1, most=5.0), 0
        while (job := self.read())["state"] not in _FINAL_STATES:
            wait = backoff.seconds(polls)
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"job {self.id!r} is {job['state']} after {timeout} seconds")
                wait = min(wait, left)
            time.sleep(wait)
            polls += 1
        if job["state"] != "SUCCEEDED":
            raise JobEnded(f"job {self.id!r} is {job['state']}: {job.get('errorMessage', 'no reason is known')}")
        return job

    def cancel(self) -> None:
        """Requests that the service cancels the job."""
        self._api.post(f"/v1/{self._name}:cancel", {})

    def __repr__(self) -> str:
        return f"Job({self.name!r})"
