"""The client: studies and jobs of one server."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any
from urllib.parse import quote

from ._api import Api
from ._transport import Transport
from .errors import ConfigurationError
from .jobs import Job
from .metrics import Metric
from .parameters import Parameter
from .study import Study, create_study
from .study_config import Algorithm, AutomatedStopping, FinalMeasurement, study_config


class Client:
    """A client of one project and location on a server. Threads may share it: each has its own connection.

    `server` is an address such as `http://127.0.0.1:8080`; `TUNESMITH_SERVER` if absent. `token` is sent with every
    request; `TUNESMITH_ACCESS_TOKEN` if absent, and no token if that is not set either. `timeout` limits the seconds
    for the connection and for each part of an answer. A request is repeated for up to `retry_for` seconds while the
    server cannot be reached, is overloaded or restarts. `cafile` names certificates to trust, for https.
    """

    def __init__(
        self,
        server: str | None = None,
        project: str = "local",
        location: str = "local",
        token: str | None = None,
        *,
        timeout: float = 60.0,
        retry_for: float = 120.0,
        cafile: str | None = None,
    ) -> None:
        server = server or os.environ.get("TUNESMITH_SERVER")
        if not server:
            raise ConfigurationError(
                "no server is given: pass Client(server=...) or set TUNESMITH_SERVER, such as http://127.0.0.1:8080"
            )
        token = token or os.environ.get("TUNESMITH_ACCESS_TOKEN") or None
        if token is not None and not (token.isascii() and token.isprintable()):
            raise ConfigurationError("the token contains characters that are not allowed, perhaps a line break")
        self._api = Api(Transport(server, timeout, cafile), token, retry_for)
        self._project = f"projects/{quote(project, safe='')}"
        self._parent = f"{self._project}/locations/{quote(location, safe='')}"

    def create_study(
        self,
        name: str,
        parameters: Sequence[Parameter],
        metrics: Sequence[Metric],
        *,
        algorithm: Algorithm = "automatic",
        seed: int | None = None,
        max_trials: int | None = None,
        trial_lease: float | timedelta | None = None,
        automated_stopping: AutomatedStopping | None = None,
        use_elapsed_time: bool = False,
        final_measurement: FinalMeasurement = "last",
        additions: Mapping[str, Any] | None = None,
        exist_ok: bool = False,
    ) -> Study:
        """Creates a study.

        `seed` makes the trials repeatable. `max_trials` limits the number of trials in all. After `trial_lease` seconds
        without a request of its owner, a trial is offered to the next worker; without it, never. `automated_stopping`
        is the rule behind `Trial.should_stop`; it compares curves by step or, with `use_elapsed_time`, by elapsed time.
        `final_measurement` selects the report that becomes the result of a trial that is completed without one.
        `additions` are further fields of `studyConfig.tunesmith`, such as `priors`, `initialTrials`,
        `continuedStudies`, `priorStudies`, `earlyStopping` and `studyStoppingConfig`.

        Raises `AlreadyExists` if a study of this name exists. With `exist_ok` the existing study is returned if it was
        created with the same arguments, and `StudyDiffers` is raised otherwise.
        """
        config = study_config(
            parameters,
            metrics,
            algorithm=algorithm,
            seed=seed,
            max_trials=max_trials,
            trial_lease=trial_lease,
            automated_stopping=automated_stopping,
            use_elapsed_time=use_elapsed_time,
            final_measurement=final_measurement,
            additions=additions,
        )
        return create_study(self._api, self._parent, name, config, exist_ok=exist_ok)

    def study(self, name: str) -> Study:
        """Returns the study of this name. Raises `NotFound` if it does not exist."""
        return Study(self._api, self._api.get(f"/v1/{self._parent}/studies/{quote(name, safe='')}"))

    def studies(self) -> list[Study]:
        """Returns all studies of the project at the location, sorted by name."""
        message = self._api.get(f"/v1/{self._parent}/studies")
        return [Study(self._api, study) for study in message.get("studies", [])]

    def submit_job(
        self, name: str, training_input: Mapping[str, Any], *, labels: Mapping[str, str] | None = None
    ) -> Job:
        """Creates a job that the service runs; `training_input` is AI Platform's `TrainingInput`."""
        body: dict[str, Any] = {"jobId": name, "trainingInput": dict(training_input)}
        if labels:
            body["labels"] = dict(labels)
        return self._job(self._api.post(f"/v1/{self._project}/jobs", body))

    def job(self, name: str) -> Job:
        """Returns the job of this name. Raises `NotFound` if it does not exist."""
        return self._job(self._api.get(f"/v1/{self._project}/jobs/{quote(name, safe='')}"))

    def jobs(self, filter: str = "") -> list[Job]:
        """Returns the jobs that match `filter`, such as `jobId:census* AND state:FAILED`; all by default."""
        jobs: list[Job] = []
        query = {"pageSize": "100", "filter": filter}
        while True:
            page = self._api.get(f"/v1/{self._project}/jobs", query)
            jobs.extend(self._job(job) for job in page.get("jobs", []))
            token = page.get("nextPageToken", "")
            if not token:
                return jobs
            query["pageToken"] = token

    def close(self) -> None:
        """Closes the connection of this thread. The client stays usable; other connections end with their threads."""
        self._api.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _job(self, message: dict[str, Any]) -> Job:
        return Job(self._api, f"{self._project}/jobs/{message['jobId']}", message)
