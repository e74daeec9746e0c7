"""Client of the Tunesmith hyperparameter tuning service.

A worker requests trials, reports measurements, and completes the trials:

    client = tunesmith.Client("http://127.0.0.1:8080")
    study = client.create_study("s", [tunesmith.double("x", -2, 2)], [tunesmith.minimize("loss")], exist_ok=True)
    for trial in study.trials(count=10):
        with trial:
            trial.report((trial.parameters["x"] - 1) ** 2)

A program that the service started as a trial of a job gets this trial from `current_trial`.
"""

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
    NotFound,
    PermissionDenied,
    ResourceExhausted,
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
    "NotFound",
    "Parameter",
    "ParameterValue",
    "PermissionDenied",
    "ResourceExhausted",
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
