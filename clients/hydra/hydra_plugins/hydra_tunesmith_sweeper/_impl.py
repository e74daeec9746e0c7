"""The loop of a sweep: suggest, launch, learn."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from hydra._internal.core_plugins.basic_launcher import BasicLauncher
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException
from omegaconf import OmegaConf
from tunesmith.study_config import Algorithm

from ._space import Space, space_of
from ._study import Job, SweepStudy, metrics_of, open_study
from .config import TunesmithSweeperConf

if TYPE_CHECKING:
    from .tunesmith_sweeper import TunesmithSweeper

_LOG = logging.getLogger(__name__)

RESULTS = "optimization_results.yaml"


def run_sweep(sweeper: TunesmithSweeper, arguments: list[str]) -> None:
    """Runs trials until the study has `n_trials`, and writes the results."""
    options, config, launcher = sweeper.options, sweeper.config, sweeper.launcher
    assert config is not None
    assert launcher is not None
    assert sweeper.hydra_context is not None
    _check(options)
    space = space_of(
        options.params, arguments, sweeper.hydra_context.config_loader, options.custom_search_space, config
    )
    folder = Path(str(config.hydra.sweep.dir))
    folder.mkdir(parents=True, exist_ok=True)
    OmegaConf.save(config, folder / "multirun.yaml")
    # The basic launcher runs the jobs of a batch one after the other: more than one would only be suggested too early.
    batch_size = 1 if isinstance(launcher, BasicLauncher) else options.n_jobs
    if batch_size < options.n_jobs:
        _LOG.info("The basic launcher runs one job at a time: n_jobs=%d has no effect", options.n_jobs)
    with open_study(options, space.parameters, str(config.hydra.job.name)) as study:
        finished = study.finished()
        if finished:
            _LOG.info("Continuing with %d finished trials of %d", finished, options.n_trials)
        try:
            _run_trials(sweeper, study, space, batch_size)
        finally:
            _save_results(study, space, folder / RESULTS)


def _run_trials(sweeper: TunesmithSweeper, study: SweepStudy, space: Space, batch_size: int) -> None:
    options, launcher = sweeper.options, sweeper.launcher
    assert launcher is not None
    failures = 0
    while jobs := study.next_jobs(batch_size, options.n_trials):
        batch = [space.overrides(job.parameters) for job in jobs]
        sweeper.validate_batch_is_legal(batch)
        # The number of a job is that of its trial, so that a restart never uses the folder of another one.
        returns = launcher.launch(batch, initial_job_idx=jobs[0].number - 1)
        failed: list[tuple[Job, Exception]] = []
        for job, returned in zip(jobs, returns, strict=True):
            try:
                values = _values(returned, len(study.metrics))
            except Exception as error:
                failed.append((job, error))
            else:
                study.tell(job, values)
        for job, failure in failed:
            failures += 1
            # A product such as 0.29 * 100 is slightly below the whole number.
            if failures > options.max_failure_rate * options.n_trials + 1e-9:
                _LOG.error(
                    "Job #%d failed: more failures than max_failure_rate=%g of %d trials allows",
                    job.number - 1,
                    options.max_failure_rate,
                    options.n_trials,
                )
                # Without a result, so that a restart runs this trial again.
                raise failure
            _LOG.warning("Job #%d failed and is infeasible: %s", job.number - 1, _reason(failure))
            study.fail(job, _reason(failure))


def _values(returned: JobReturn, count: int) -> list[float]:
    """Returns the values of a job. Raises the exception of one that failed."""
    if returned.status != JobStatus.COMPLETED:
        # Raises the exception of the job.
        _ = returned.return_value
    value: Any = returned.return_value
    values = list(value) if count > 1 and isinstance(value, Sequence) and not isinstance(value, str) else [value]
    if len(values) != count or not all(_is_number(each) for each in values):
        expected = "a number" if count == 1 else f"{count} numbers"
        raise TypeError(f"the function returned {value!r}; the sweep needs {expected}")
    return [float(each) for each in values]


def _is_number(value: Any) -> bool:
    if value is None or isinstance(value, (bool, str)):
        return False
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _reason(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _save_results(study: SweepStudy, space: Space, path: Path) -> None:
    optimal = study.optimal()
    results: dict[str, Any] = {"name": "tunesmith"}
    if len(study.metrics) == 1:
        best = optimal[0] if optimal else None
        results["best_params"] = {} if best is None else space.values(best.parameters)
        results["best_value"] = None if best is None else best.value
        _LOG.info("Best value: %s, with %s", results["best_value"], results["best_params"])
    else:
        results["solutions"] = [
            {
                "params": space.values(record.parameters),
                "values": [record.metrics[name] for name in study.metrics],
            }
            for record in optimal
        ]
        _LOG.info("Number of Pareto-optimal solutions: %d", len(optimal))
    if not optimal:
        _LOG.warning("No trial has a result")
    OmegaConf.save(OmegaConf.create(results), path)


def _check(options: TunesmithSweeperConf) -> None:
    """Refuses options that the rest cannot use."""
    metrics_of(options.direction)
    algorithms = get_args(Algorithm)
    if options.algorithm not in algorithms:
        raise HydraException(f"hydra.sweeper.algorithm: {options.algorithm!r} is not one of {', '.join(algorithms)}")
    if options.n_trials < 1:
        raise HydraException(f"hydra.sweeper.n_trials: {options.n_trials} is not positive")
    if options.n_jobs < 1:
        raise HydraException(f"hydra.sweeper.n_jobs: {options.n_jobs} is not positive")
    if not 0 <= options.max_failure_rate <= 1:
        raise HydraException(f"hydra.sweeper.max_failure_rate: {options.max_failure_rate} is not from 0 to 1")
    if options.storage is not None and options.server is not None:
        raise HydraException("hydra.sweeper.storage and hydra.sweeper.server exclude each other")
    if options.storage is not None and "://" in options.storage:
        raise HydraException(
            f"hydra.sweeper.storage: {options.storage!r} is an address; storage is a folder, and server an address"
        )
