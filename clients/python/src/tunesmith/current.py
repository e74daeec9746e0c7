"""The trial that this program runs, if the service started it as part of a job."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from typing import Any

from ._api import Api
from ._service import Service
from ._transport import Transport
from ._wire import metrics_message
from .errors import ConfigurationError
from .records import TrialRecord, number_of
from .trial import by_metric

_VARIABLES = ("TUNESMITH_ENDPOINT", "TUNESMITH_STUDY", "TUNESMITH_TRIAL", "TUNESMITH_TOKEN")
_METRIC = "CLOUD_ML_HP_METRIC_TAG"
_DEFAULT_METRIC = "training/hptuning/metric"


class CurrentTrial:
    """The trial of a job that this program runs.

    The service determines its result from the program's exit code and last report. Early stopping sends SIGTERM, which
    ends the program by default; this is not a failure of the trial.
    """

    def __init__(self, api: Service, study: str, name: str, metric: str, whole_discrete: frozenset[str]) -> None:
        self._api = api
        self._study = study
        self._name = name
        self._metric = metric
        self._whole_discrete = whole_discrete
        self._lock = threading.Lock()
        self._steps = 0
        self._parameters: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """Resource name."""
        return self._name

    @property
    def number(self) -> int:
        """Number in the job, from 1."""
        return number_of(self._name)

    @property
    def study(self) -> str:
        """Resource name of the job's study."""
        return self._study

    @property
    def parameters(self) -> dict[str, Any]:
        """The values to try by name; the program also gets them as flags. The first access is a request."""
        with self._lock:
            if self._parameters is None:
                record = TrialRecord.of_message(self._api.get(f"/v1/{self._name}"), self._whole_discrete)
                self._parameters = dict(record.parameters)
            return dict(self._parameters)

    def report(self, value: float | Mapping[str, float], *, step: int | None = None) -> None:
        """Adds a measurement: the value of the job's metric, or values by metric.

        By default `step` is one more than the last one, starting with 1.
        """
        with self._lock:
            if step is None:
                step = self._steps + 1
            metrics = metrics_message(by_metric(value, (self._metric,)))
            body = {"measurement": {"stepCount": str(step), "metrics": metrics}}
            self._api.post(f"/v1/{self._name}:addMeasurement", body)
            self._steps = max(step, self._steps)

    def __repr__(self) -> str:
        return f"CurrentTrial({self.name!r})"


def current_trial(*, timeout: float = 60.0, retry_for: float = 120.0) -> CurrentTrial | None:
    """Returns the trial that this program was started for, or `None` if it was not started by a job.

    Raises `ConfigurationError` if only some of the variables that the service sets are set.
    """
    values = {name: os.environ.get(name, "") for name in _VARIABLES}
    missing = [name for name, value in values.items() if not value]
    if len(missing) == len(_VARIABLES):
        return None
    if missing:
        raise ConfigurationError(f"a trial's environment is incomplete: {', '.join(missing)} not set")
    endpoint, study, name, token = values.values()
    api = Api(Transport(endpoint, timeout, None), token, retry_for)
    return CurrentTrial(api, study, name, os.environ.get(_METRIC) or _DEFAULT_METRIC, _whole_discrete_of_job())


def _whole_discrete_of_job() -> frozenset[str]:
    """Returns the DISCRETE parameters of the job that have whole numbers only."""
    try:
        job = json.loads(os.environ.get("CLOUD_ML_JOB", "{}"))
        specs = job.get("hyperparameters", {}).get("params", [])
        return frozenset(
            str(spec["parameterName"])
            for spec in specs
            if spec["type"] == "DISCRETE" and all(float(value).is_integer() for value in spec["discreteValues"])
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"CLOUD_ML_JOB does not describe the job of this trial: {error!r}") from error
