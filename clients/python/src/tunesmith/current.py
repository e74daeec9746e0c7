"""The current trial: of the objective that surrounds the call, or of the job that started this program."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Protocol

from ._api import Api
from ._service import Service
from ._transport import Transport
from ._wire import metrics_message
from .errors import ConfigurationError, ReportsUnavailable, TrialLost
from .records import TrialRecord, number_of
from .trial import by_metric

_VARIABLES = ("TUNESMITH_ENDPOINT", "TUNESMITH_STUDY", "TUNESMITH_TRIAL", "TUNESMITH_TOKEN")
_METRIC = "CLOUD_ML_HP_METRIC_TAG"
_DEFAULT_METRIC = "training/hptuning/metric"


class Reportable(Protocol):
    """Trial of the search behind a `RunningTrial`."""

    def report(self, value: float | Mapping[str, float], *, step: int | None = None) -> None:
        """Adds a measurement."""

    def should_stop(self) -> bool:
        """Returns whether the trial should end early."""


class RunningTrial:
    """The trial whose objective `tunesmith.minimize` or `tunesmith.maximize` is calling.

    Reports need the process of the search: in another process, of an executor, only number and parameters are known.
    """

    def __init__(self, number: int, parameters: Mapping[str, Any], trial: Reportable | None) -> None:
        self._number = number
        self._parameters = dict(parameters)
        self._trial = trial
        self._lock = threading.Lock()
        self._is_released = False

    @property
    def number(self) -> int:
        """Number in the study, from 1."""
        return self._number

    @property
    def parameters(self) -> dict[str, Any]:
        """The values to try by name, as the objective receives them."""
        return dict(self._parameters)

    def report(self, value: float | Mapping[str, float], *, step: int | None = None) -> None:
        """Adds a measurement: the value of the only metric, or values by metric.

        By default `step` is one more than the last one, starting with 1. Raises `ReportsUnavailable` in another process
        than that of the search, and `TrialLost` after the run was interrupted.
        """
        with self._lock:
            if self._is_released:
                raise TrialLost(f"trial {self._number} was released: its run has ended")
            if self._trial is None:
                raise ReportsUnavailable(
                    f"trial {self._number} runs in another process than its search and cannot report: "
                    "return the result, or run trials in threads (parallel=N without an executor)"
                )
            self._trial.report(value, step=step)

    def should_stop(self) -> bool:
        """Returns whether the trial should end early: by the stopping rule, or because the run was interrupted."""
        with self._lock:
            if self._is_released:
                return True
            return self._trial is not None and self._trial.should_stop()

    def release(self) -> None:
        """Detaches the trial from the search, once a report in progress has ended."""
        with self._lock:
            self._is_released = True

    def __repr__(self) -> str:
        return f"RunningTrial({self._number}, {self._parameters})"


running_trial: ContextVar[RunningTrial | None] = ContextVar("tunesmith.running_trial", default=None)
"""The trial of the surrounding objective."""


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

    def should_stop(self) -> bool:
        """Returns whether the trial should end early. Each call is a request; the service also sends SIGTERM then."""
        return bool(self._api.get(f"/v1/{self._name}")["state"] == "STOPPING")

    def __repr__(self) -> str:
        return f"CurrentTrial({self.name!r})"


def current_trial(*, timeout: float = 60.0, retry_for: float = 120.0) -> RunningTrial | CurrentTrial | None:
    """Returns the trial of the surrounding objective, else that of the job that started this program, else `None`.

    A thread that the objective starts has the trial only if it runs in a copy of the objective's context
    (`contextvars.copy_context`), as with `asyncio.to_thread`. `timeout` and `retry_for` concern requests of a job's
    trial, in seconds. Raises `ConfigurationError` if only some of the variables that the service sets are set.
    """
    running = running_trial.get()
    if running is not None:
        return running
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
