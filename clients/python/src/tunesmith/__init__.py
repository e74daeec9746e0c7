"""Tunesmith: hyperparameter search in this process, or by its service.

In process, an `Optimizer` suggests parameters and learns from results:

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

A program that the service started as a trial of a job gets this trial from `current_trial`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__
from ._wire import ParameterValue
from .client import Client
from .current import CurrentTrial, current_trial
from .errors import (
    Aborted,
    AlreadyExists,
    ApiError,
    ConfigurationError,
    ConnectionFailed,
    FailedPrecondition,
    FieldViolation,
    InvalidArgument,
    JobEnded,
    NoResult,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
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
from .metrics import Metric, maximize, minimize
from .parameters import Parameter, categorical, discrete, double, integer
from .records import Measurement, TrialRecord
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
    "AlreadyExists",
    "ApiError",
    "Client",
    "ConfigurationError",
    "ConnectionFailed",
    "CurrentTrial",
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
    "Optimizer",
    "Parameter",
    "ParameterValue",
    "PermissionDenied",
    "ResourceExhausted",
    "SearchEnded",
    "ServerError",
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
