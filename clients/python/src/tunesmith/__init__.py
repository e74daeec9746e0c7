"""Tunesmith: hyperparameter tuning, in this process or by a server.

In this process, `minimize` and `maximize` search the parameters of a function:

    result = tunesmith.minimize(lambda parameters: (parameters["x"] - 1) ** 2, {"x": (-2.0, 2.0)}, trials=20)
    print(result.value, result.parameters)

With a server, a worker requests trials, reports measurements, and completes the trials:

    client = tunesmith.Client("http://127.0.0.1:8080")
    study = client.create_study("s", [tunesmith.double("x", -2, 2)], [tunesmith.minimize("loss")], exist_ok=True)
    for trial in study.trials(count=10):
        with trial:
            trial.report((trial.parameters["x"] - 1) ** 2)

`current_trial` returns the trial of the surrounding objective, or of the job that started the program.
"""

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
    NotFound,
    ObjectiveFailed,
    PermissionDenied,
    ReportsUnavailable,
    ResourceExhausted,
    RunFailed,
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
    "NotFound",
    "ObjectiveFailed",
    "Parameter",
    "ParameterValue",
    "PermissionDenied",
    "ReportsUnavailable",
    "ResourceExhausted",
    "Result",
    "RunFailed",
    "RunningTrial",
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
