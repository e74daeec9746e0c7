"""The study of a sweep: in memory, in a data folder, or on a server."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hydra.errors import HydraException
from tunesmith import (
    Client,
    Metric,
    Optimizer,
    Parameter,
    ParameterValue,
    SearchEnded,
    Study,
    Trial,
    TrialLost,
    TrialRecord,
    maximize,
    minimize,
)

from .config import TunesmithSweeperConf

_LOG = logging.getLogger(__name__)

# A sweep that dies gives its trials back to the others on the server after this many seconds.
_LEASE = 60.0
_DIRECTIONS = {"minimize": minimize, "maximize": maximize}


@dataclass
class Job:
    """A trial to run."""

    number: int
    parameters: dict[str, ParameterValue]
    # The trial itself renews its lease.
    trial: Trial | int


class SweepStudy:
    """A study with its unfinished trials of earlier runs."""

    def __init__(self, study: Study, unfinished: list[TrialRecord]) -> None:
        self._study = study
        self._ready = [Job(record.number, dict(record.parameters), record.number) for record in unfinished]
        self.metrics: list[str] = list(study.metric_names)

    def finished(self) -> int:
        """Returns the number of completed trials."""
        return sum(record.state == "COMPLETED" for record in self._study.all_trials())

    def next_jobs(self, count: int, total: int) -> list[Job]:
        """Returns up to `count` jobs with consecutive numbers, as a launcher numbers them; empty at the end.

        Unfinished trials of an earlier run come first. New ones are suggested until the study has `total` trials.
        """
        if not self._ready:
            self._ready = self._suggested(min(count, total - len(self._study.all_trials())))
        jobs = self._ready[:1]
        while len(jobs) < min(count, len(self._ready)) and self._ready[len(jobs)].number == jobs[-1].number + 1:
            jobs.append(self._ready[len(jobs)])
        del self._ready[: len(jobs)]
        return jobs

    def _suggested(self, count: int) -> list[Job]:
        if count < 1:
            return []
        try:
            trials = self._study.ask(count)
        except SearchEnded:
            return []
        return sorted((Job(trial.number, trial.parameters, trial) for trial in trials), key=lambda job: job.number)

    def tell(self, job: Job, values: list[float]) -> None:
        """Completes a job with its values, by metric."""
        self._tell(job, value=dict(zip(self.metrics, values, strict=True)))

    def fail(self, job: Job, reason: str) -> None:
        """Completes a job as infeasible."""
        self._tell(job, infeasible=reason)

    def _tell(self, job: Job, value: dict[str, float] | None = None, infeasible: str | None = None) -> None:
        try:
            self._study.tell(job.trial, value, infeasible=infeasible)
        except TrialLost as error:
            # The lease expired, such as in a suspended machine, and another sweep has the trial.
            _LOG.warning("The result of job #%d is dropped: %s", job.number - 1, error)

    def optimal(self) -> list[TrialRecord]:
        """Returns the best trial, or those of the Pareto front."""
        return self._study.best_trials()


@contextmanager
def open_study(options: TunesmithSweeperConf, parameters: list[Parameter], default_name: str) -> Iterator[SweepStudy]:
    """Opens the study of the options, which is continued if it exists."""
    name = options.study_name or default_name
    arguments: dict[str, Any] = {"algorithm": options.algorithm, "seed": options.seed}
    metrics = metrics_of(options.direction)
    if options.server is not None:
        with Client(options.server) as client:
            study = client.create_study(name, parameters, metrics, trial_lease=_LEASE, exist_ok=True, **arguments)
            # Others may be running the unfinished ones; the server hands them out once their leases expire.
            yield SweepStudy(study, [])
        return
    with Optimizer(parameters, metrics, storage=options.storage, name=name, **arguments) as optimizer:
        # The folder belongs to this process, so no other process runs them.
        unfinished = [record for record in optimizer.trials if record.state in ("ACTIVE", "STOPPING")]
        yield SweepStudy(optimizer.study, unfinished)


def metrics_of(direction: Any) -> list[Metric]:
    """Returns the metrics of a direction, or of a list of directions."""
    directions = direction if isinstance(direction, list) else [direction]
    for each in directions:
        if each not in _DIRECTIONS:
            raise HydraException(f"hydra.sweeper.direction: {each!r} is not one of {', '.join(_DIRECTIONS)}")
    if not directions:
        raise HydraException("hydra.sweeper.direction: the list is empty")
    if len(directions) == 1:
        return [_DIRECTIONS[directions[0]]("value")]
    return [_DIRECTIONS[each](f"value_{i}") for i, each in enumerate(directions)]
