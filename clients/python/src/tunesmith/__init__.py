"""Tunesmith: hyperparameter search in this process, or by its service.

In this process, `minimize` and `maximize` search the parameters of a function:

    result = tunesmith.minimize(lambda parameters: (parameters["x"] - 1) ** 2, {"x": (-2.0, 2.0)}, trials=20)
    print(result.value, result.parameters)

An `Optimizer` suggests parameters and learns from results; the loop is yours:

    search = tunesmith.Optimizer([tunesmith.double("x", -2, 2)], [tunesmith.minimize("loss")])
    for _ in range(20):
        trial = search.ask()
        search.tell(trial, (trial.parameters["x"] - 1) ** 2)
    print(search.best.parameters)

As a client of the service, a worker requests trials, reports measurements, and completes the trials:

    client = tunesmith.Client("http://127.0.0.1:8080")
    study = client.create_study("s", [tunesmith.double("x", -2, 2)], [tunesmith.minimize("loss")], exist_ok=True)
    for trial in study.trials(count=10):
        with trial:
            trial.report((trial.parameters["x"] - 1) ** 2)

`current_trial` returns the trial of the surrounding objective, or of the job that started the program.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ._minimize import maximize, minimize
from ._space import Space
from ._version import __version__
from ._wire import ParameterValue
from .client import Client
from .current import CurrentTrial, RunningTrial, current_trial
from .errors import (
    Aborted,
    AllTrialsFailed,
    AlreadyExists,
    ApiError,
    ConfigurationError,
    ConnectionFailed,
    ExecutorFailed,
    FailedPrecondition,
    FieldViolation,
    InvalidArgument,
    JobEnded,
    NoResult,
    NotFound,
    ObjectiveFailed,
    PermissionDenied,
    ReportsUnavailable,
    ResourceExhausted,
    RunFailed,
    SearchEnded,
    ServerError,
    StudyDiffers,
    StudyInactive,
    TrialLost,
    TrialNotCompleted,
    TunesmithError,
    Unauthenticated,
    Unavailable,
)
from .jobs import Job, JobTrial
from .metrics import Metric
from .parameters import Parameter, categorical, discrete, double, integer
from .records import Measurement, TrialRecord
from .result import Result
from .study import Study
from .trial import Trial

if TYPE_CHECKING:
    from .optimizer import Optimizer as Optimizer

# Loaded on first use: the engine is a library of some size, which clients of a server do not need.
_LAZY = {"Optimizer": "optimizer"}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        loaded = importlib.import_module(f".{module}", __name__)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}._core":
            raise
        raise ModuleNotFoundError(
            f"tunesmith.{name} needs the engine, which this installation lacks: it is the client alone. "
            "Install a wheel of tunesmith for this platform",
            name=error.name,
        ) from None
    value = getattr(loaded, name)
    globals()[name] = value
    return value


__all__ = [
    "Aborted",
    "AllTrialsFailed",
    "AlreadyExists",
    "ApiError",
    "Client",
    "ConfigurationError",
    "ConnectionFailed",
    "CurrentTrial",
    "ExecutorFailed",
    "FailedPrecondition",
    "FieldViolation",
    "InvalidArgument",
    "Job",
    "JobEnded",
    "JobTrial",
    "Measurement",
    "Metric",
    "NoResult",
    "NotFound",
    "ObjectiveFailed",
    "Optimizer",
    "Parameter",
    "ParameterValue",
    "PermissionDenied",
    "ReportsUnavailable",
    "ResourceExhausted",
    "Result",
    "RunFailed",
    "RunningTrial",
    "SearchEnded",
    "ServerError",
    "Space",
    "Study",
    "StudyDiffers",
    "StudyInactive",
    "Trial",
    "TrialLost",
    "TrialNotCompleted",
    "TrialRecord",
    "TunesmithError",
    "Unauthenticated",
    "Unavailable",
    "__version__",
    "categorical",
    "current_trial",
    "discrete",
    "double",
    "integer",
    "maximize",
    "minimize",
]
