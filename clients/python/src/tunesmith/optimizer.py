"""Search within this process: ask for parameters, tell results."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, overload

from . import _engine
from ._engine import EngineService
from ._wire import ParameterValue
from .metrics import Metric
from .parameters import Parameter
from .records import TrialRecord
from .study import Study, create_study, new_client_id, parameter_messages
from .study_config import Algorithm, AutomatedStopping, FinalMeasurement, study_config
from .trial import Trial


class UnknownNotice(UserWarning):
    """A field of the configuration that has no effect, or not the one that may be expected."""


class Optimizer:
    """A search in this process, in memory or in a data folder. Threads may share it.

    `parameters` and `metrics` define the problem; the first metric is the objective, a metric with a `safety_threshold`
    is a constraint, and several objectives have a Pareto front. The other arguments are those of `Client.create_study`.

    With `storage`, the study `name` lives in a data folder, as of `tunesmith serve --data-dir`: an existing study with
    the same arguments is continued, and `StudyDiffers` is raised for another one. The folder belongs to this process
    until `close`; a server started on it afterwards continues the study.

    Suggestions are a function of the results and the seed. A child of `fork` may continue with its copy of a search in
    memory; one with a `storage` stays with the parent.

    >>> search = Optimizer([double("x", -2, 2)], [minimize("loss")], seed=1)
    >>> for _ in range(10):
    ...     trial = search.ask()
    ...     _ = search.tell(trial, (trial.parameters["x"] - 1) ** 2)
    >>> search.best.value < 0.5
    True
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        metrics: Sequence[Metric],
        *,
        algorithm: Algorithm = "automatic",
        seed: int | None = None,
        max_trials: int | None = None,
        automated_stopping: AutomatedStopping | None = None,
        use_elapsed_time: bool = False,
        final_measurement: FinalMeasurement = "last",
        additions: Mapping[str, Any] | None = None,
        storage: str | os.PathLike[str] | None = None,
        name: str = "optimizer",
    ) -> None:
        config = study_config(
            parameters,
            metrics,
            algorithm=algorithm,
            seed=seed,
            max_trials=max_trials,
            automated_stopping=automated_stopping,
            use_elapsed_time=use_elapsed_time,
            final_measurement=final_measurement,
            additions=additions,
        )
        service = EngineService.in_memory() if storage is None else EngineService.in_folder(storage)
        study = create_study(service, _engine.PARENT, name, config, exist_ok=storage is not None)
        for notice in study.notices:
            warnings.warn(notice, UnknownNotice, stacklevel=2)
        self._open(service, study)

    def _open(self, service: EngineService, study: Study) -> None:
        self._service = service
        self._study = study

    @classmethod
    def _of_study(cls, service: EngineService, name: str) -> Optimizer:
        optimizer = cls.__new__(cls)
        optimizer._open(service, Study(service, service.get(f"/v1/{_engine.PARENT}/studies/{name}")))
        return optimizer

    @property
    def study(self) -> Study:
        """The study, as `Client.study` returns it for a server."""
        return self._study

    @property
    def config(self) -> dict[str, Any]:
        """`StudyConfig` of the API: search space, metrics, algorithm."""
        return self._study.config

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The search space."""
        return tuple(Parameter.of_message(message) for message in self.config["parameters"])

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics, objectives and constraints."""
        return tuple(Metric.of_message(message) for message in self.config["metrics"])

    @overload
    def ask(self, count: None = None, *, parameters: Mapping[str, ParameterValue] | None = None) -> Trial: ...

    @overload
    def ask(self, count: int) -> list[Trial]: ...

    def ask(
        self, count: int | None = None, *, parameters: Mapping[str, ParameterValue] | None = None
    ) -> Trial | list[Trial]:
        """Returns the next trial; with `count`, a list of so many, fewer at the end of the search.

        `parameters` are values of one's own; the search supplies missing ones. Raises `SearchEnded` if the search space
        or `max_trials` is exhausted.
        """
        if parameters is None:
            return self._study.ask() if count is None else self._study.ask(count)
        if count is not None:
            raise ValueError("count and parameters exclude each other: values of one's own are one trial")
        body = {"clientId": new_client_id(), "parameters": parameter_messages(self.config, parameters)}
        message = self._service.post(f"/v1/{self._study.name}/trials:start", body)
        return self._study.trial_of_message(message)

    def tell(
        self,
        trial: Trial | int | Mapping[str, ParameterValue],
        value: float | Mapping[str, float] | None = None,
        *,
        infeasible: str | None = None,
    ) -> TrialRecord:
        """Completes a trial; `Study.tell` has the details."""
        return self._study.tell(trial, value, infeasible=infeasible)

    @property
    def best(self) -> TrialRecord:
        """The trial with the best result; `Study.best` has the details."""
        return self._study.best

    @property
    def recommended(self) -> TrialRecord:
        """The trial to use: under noise, the best result is also the luckiest."""
        return self._study.recommended

    @property
    def front(self) -> list[TrialRecord]:
        """The optimal trials: one with one objective, otherwise the Pareto front. Empty without results."""
        return self._study.best_trials()

    @property
    def trials(self) -> list[TrialRecord]:
        """All trials, by number."""
        return self._study.all_trials()

    def importance(self, metric: str | None = None) -> dict[str, float]:
        """Returns the share of the variance of `metric` in which each parameter takes part; `Study.importance`."""
        return self._study.importance(metric)

    def to_json(self) -> str:
        """Returns the study with all its trials as text, for `from_json`."""
        return json.dumps(self._service.call("snapshot", self._study.id))

    @classmethod
    def from_json(cls, text: str) -> Optimizer:
        """Returns a search in memory that continues the one of `to_json`."""
        service, name = EngineService.of_snapshot(text)
        return cls._of_study(service, name)

    @classmethod
    def _in_folder(cls, folder: str, name: str) -> Optimizer:
        return cls._of_study(EngineService.in_folder(folder), name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles a search in memory as its trials, and one with a `storage` as its folder and name."""
        if self._service.folder is None:
            return Optimizer.from_json, (self.to_json(),)
        return Optimizer._in_folder, (self._service.folder, self._study.id)

    def close(self) -> None:
        """Ends the use of the search, and releases the data folder once its last optimizer in this process is closed."""
        self._service.close()

    def __enter__(self) -> Optimizer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Optimizer({self._study.id!r}, {len(self.config['parameters'])} parameters)"
