"""The loop behind `tunesmith.minimize` and `tunesmith.maximize`."""

from __future__ import annotations

import inspect
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from . import metrics as metric_constructors
from ._objective import Call, Catch, Objective, Outcome, Running, reason_of
from ._progress import Progress, progress_display
from ._space import SearchSpace, Space
from ._workers import CallingThread, ExecutorWorkers, Threads, WorkerFailed, Workers
from .current import RunningTrial, running_trial
from .errors import (
    AllTrialsFailed,
    ConfigurationError,
    ExecutorFailed,
    FailedPrecondition,
    InvalidArgument,
    ObjectiveFailed,
    RunFailed,
    SearchEnded,
)
from .metrics import Metric
from .result import Result
from .study_config import Algorithm, AutomatedStopping, FinalMeasurement
from .trial import Trial

if TYPE_CHECKING:
    from .optimizer import Optimizer

Goal = Literal["MINIMIZE", "MAXIMIZE"]

_DEFAULT_METRIC = "value"
_FIRST_TRIALS = 10
_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Options:
    """Arguments of a run; `tunesmith.minimize` documents them."""

    trials: int = 50
    parallel: int | None = None
    algorithm: Algorithm = "automatic"
    seed: int | None = None
    storage: str | PathLike[str] | None = None
    name: str = "optimizer"
    metrics: Sequence[str | Metric] | None = None
    catch: Catch = ()
    timeout: float | None = None
    progress: bool | None = None
    executor: Executor | None = None
    automated_stopping: AutomatedStopping | None = None
    use_elapsed_time: bool = False
    final_measurement: FinalMeasurement = "last"
    additions: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        _check_count("trials", self.trials)
        if self.parallel is not None:
            _check_count("parallel", self.parallel)
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"timeout: {self.timeout!r} is not a number of seconds above 0")
        if self.executor is not None and not isinstance(self.executor, Executor):
            raise TypeError(f"executor: {self.executor!r} is not a concurrent.futures.Executor")
        for each in self.caught:
            if not (isinstance(each, type) and issubclass(each, Exception)):
                raise TypeError(f"catch: {each!r} is not a class of exceptions")

    @property
    def caught(self) -> tuple[type[Exception], ...]:
        """The classes of `catch`."""
        return self.catch if isinstance(self.catch, tuple) else (self.catch,)

    @property
    def workers(self) -> int:
        """Number of trials that run concurrently."""
        if self.parallel is not None:
            return self.parallel
        if self.executor is None:
            return 1
        # Executors have no public attribute for it; those of the standard library and of loky share this one.
        count = getattr(self.executor, "_max_workers", None)
        if not isinstance(count, int):
            raise ValueError(f"parallel: needed, since {type(self.executor).__name__} does not state its workers")
        return count


def run(goal: Goal, objective: Objective, space: Space, options: Options) -> Result:
    """Searches until the trials, the time or the space are used up, or Ctrl-C."""
    if inspect.iscoroutinefunction(objective):
        raise TypeError(
            f"objective: {objective!r} is a coroutine function; use Optimizer.ask and tell in an event loop, or a "
            "function that calls asyncio.run"
        )
    search_space = SearchSpace(space)
    metrics = _metrics(goal, options.metrics)
    workers = options.workers
    if options.storage is None:
        return _search(objective, search_space, metrics, options, workers)
    with _sole_run(options.storage, options.name):
        return _search(objective, search_space, metrics, options, workers)


def _search(objective: Objective, space: SearchSpace, metrics: list[Metric], options: Options, workers: int) -> Result:
    # The client of a server works without the engine.
    from .optimizer import Optimizer

    optimizer = Optimizer(
        space.parameters,
        metrics,
        algorithm=options.algorithm,
        seed=options.seed,
        automated_stopping=options.automated_stopping,
        use_elapsed_time=options.use_elapsed_time,
        final_measurement=options.final_measurement,
        additions=options.additions,
        storage=options.storage,
        name=options.name,
    )
    try:
        return _Run(objective, space, options, workers, optimizer).run()
    finally:
        if options.storage is not None:
            optimizer.close()


_Failure: TypeAlias = "Callable[[Result], RunFailed]"


class _Run:
    """One run, driven by the calling thread: it alone asks and tells."""

    def __init__(
        self, objective: Objective, space: SearchSpace, options: Options, count: int, optimizer: Optimizer
    ) -> None:
        self._objective = objective
        self._space = space
        self._options = options
        self._count = count
        self._optimizer = optimizer
        self._workers: Workers
        if options.executor is not None:
            self._workers = ExecutorWorkers(options.executor)
        else:
            self._workers = CallingThread() if count == 1 else Threads(count)
        self._running: dict[int, Running] = {}
        self._trials: dict[int, Trial] = {}
        self._deadline = None if options.timeout is None else time.monotonic() + options.timeout
        trials = optimizer.trials
        before = [record for record in trials if record.state == "COMPLETED"]
        # The owners of trials that an earlier run has left unfinished.
        self._owners = deque(record.client_id for record in trials if record.state != "COMPLETED")
        self._left = max(options.trials - len(before), 0)
        self._outer = running_trial.get()
        self._has_ended = False
        self._told = 0
        self._caught: list[str] = []
        self._failure: _Failure | None = None
        self._cause: BaseException | None = None
        self._progress = Progress(
            total=options.trials,
            finished=len(before),
            failed=sum(record.infeasible for record in before),
            optimizer=optimizer,
            display=progress_display(options.progress),
            name=options.name if options.name != "optimizer" else None,
        )

    def run(self) -> Result:
        is_interrupted = False
        try:
            self._loop()
        except KeyboardInterrupt:
            is_interrupted = True
        finally:
            with _without_interrupts():
                self._end(is_interrupted)
        with _without_interrupts():
            is_stored = self._options.storage is not None
            result = Result.of_optimizer(self._optimizer, self._space, is_interrupted, is_stored)
        if self._failure is not None:
            raise self._failure(result) from self._cause
        if is_interrupted and self._outer is not None:
            # The interrupt is meant for the surrounding run as well.
            raise KeyboardInterrupt
        return result

    def _end(self, is_interrupted: bool) -> None:
        # An interrupt just before a call may have left its trial.
        running_trial.set(self._outer)
        self._workers.end()
        try:
            if is_interrupted:
                self._tell_finished()
        finally:
            for running in list(self._running.values()):
                running.end()
            self._progress.end()

    def _loop(self) -> None:
        self._progress.update()
        while True:
            while self._may_start():
                self._start()
            if not self._running:
                return
            self._finish(self._workers.head(_POLL_SECONDS))
            self._progress.update()

    def _may_start(self) -> bool:
        return (
            self._left > 0
            and len(self._running) < self._count
            and not self._has_ended
            and self._failure is None
            and (self._deadline is None or time.monotonic() < self._deadline)
        )

    def _start(self) -> None:
        try:
            trial = self._next_trial()
        except SearchEnded:
            self._has_ended = True
            return
        parameters = self._space.decoded(trial.parameters)
        call = Call(self._objective, parameters, trial.number, self._options.caught)
        self._trials[call.key] = trial
        self._running[call.key] = Running(call, RunningTrial(trial.number, parameters, trial))
        self._left -= 1
        self._workers.start(call)

    def _next_trial(self) -> Trial:
        while self._owners:
            # Asking in the name of its owner returns the unfinished trial itself.
            trials = self._optimizer.study.suggest(1, client_id=self._owners.popleft())
            if trials:
                return trials[0]
        return self._optimizer.ask()

    def _tell_finished(self) -> None:
        """Tells the outcomes that an interrupt has left behind, without waiting for others."""
        while (finished := self._workers.head(0)) is not None:
            call, outcome = finished
            # A result may have been told just before the interrupt. An executor has cancelled calls, and Ctrl-C in a
            # terminal reaches its processes as well, which breaks it: neither is a failure to report.
            is_over = isinstance(outcome.error, WorkerFailed)
            if is_over or self._optimizer.study.trial(call.number).state == "COMPLETED":
                self._forget(call)
                self._workers.pop()
                continue
            try:
                self._finish(finished)
            except KeyboardInterrupt:  # Raised in the objective, in a thread.
                self._workers.pop()

    def _finish(self, finished: tuple[Call, Outcome] | None) -> None:
        if finished is None:
            return
        call, outcome = finished
        if outcome.error is None or isinstance(outcome.error, Exception):
            self._tell(call, outcome)
            self._forget(call)
            self._workers.pop()
        elif isinstance(outcome.error, KeyboardInterrupt):
            raise outcome.error
        else:
            self._forget(call)
            self._workers.pop()
            raise outcome.error

    def _forget(self, call: Call) -> None:
        self._trials.pop(call.key, None)
        running = self._running.pop(call.key, None)
        if running is not None:
            running.end()

    def _tell(self, call: Call, outcome: Outcome) -> None:
        error, reason = outcome.error, outcome.reason
        if isinstance(error, WorkerFailed):
            self._fail(
                lambda result: ExecutorFailed(
                    f"trial {call.number} stays unfinished, because the executor failed: {error}", result
                ),
                error.__cause__,
            )
            return
        trial = self._trials[call.key]
        if error is None:
            try:
                record = self._optimizer.tell(trial, outcome.result)
            except (InvalidArgument, FailedPrecondition, TypeError, ValueError) as refusal:
                error, reason = refusal, reason_of(refusal)
        if error is not None:
            record = self._optimizer.tell(trial, infeasible=reason)
            if outcome.is_caught:
                self._caught.append(f"trial {call.number}: {reason}")
            else:
                self._fail(
                    lambda result: ObjectiveFailed(
                        f"trial {call.number} failed: {reason}; its parameters were {call.parameters}. "
                        "`result` of this exception has the trials so far",
                        result,
                        self._space.decoded_record(record),
                    ),
                    error,
                )
        self._told += 1
        self._progress.finished(record)
        if self._told == len(self._caught) == _FIRST_TRIALS:
            reasons = "\n".join(self._caught)
            self._fail(
                lambda result: AllTrialsFailed(
                    f"each of the first {_FIRST_TRIALS} trials raised an exception of `catch`:\n{reasons}", result
                ),
                error,
            )

    def _fail(self, failure: _Failure, cause: BaseException | None) -> None:
        # The first failure is the one to see; later ones are reasons of infeasible trials.
        if self._failure is None:
            self._failure, self._cause = failure, cause


def _metrics(goal: Goal, metrics: Sequence[str | Metric] | None) -> list[Metric]:
    """Returns the metrics of a run. A name stands for a metric with the goal of the function that was called."""
    constructor = metric_constructors.minimize if goal == "MINIMIZE" else metric_constructors.maximize
    if metrics is None:
        return [constructor(_DEFAULT_METRIC)]
    if isinstance(metrics, (str, Metric)):
        raise TypeError(f"metrics: {metrics!r} is not a list of names and metrics")
    made = []
    for metric in metrics:
        if not isinstance(metric, (str, Metric)):
            raise TypeError(f"metrics: {metric!r} is neither a name nor a metric")
        made.append(constructor(metric) if isinstance(metric, str) else metric)
    objectives = [metric for metric in made if metric.safety_threshold is None]
    if not any(metric.goal == goal for metric in objectives):
        raise ValueError(
            f"metrics: {goal.lower()}() needs a metric with this goal that is no constraint, not only "
            f"{', '.join(repr(metric.name) for metric in made) or 'an empty list'}"
        )
    return made


_STUDIES: set[tuple[str, str]] = set()


@contextmanager
def _sole_run(storage: str | PathLike[str], name: str) -> Iterator[None]:
    """Refuses concurrent runs of one study, which would take each other's trials for unfinished ones."""
    study = (os.path.realpath(storage), name)
    if study in _STUDIES:
        raise ConfigurationError(
            f"another run of study {name!r} in {study[0]!r} is in progress in this process; "
            "use parallel= for concurrent trials, or another name"
        )
    try:
        _STUDIES.add(study)
        yield
    finally:
        _STUDIES.discard(study)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ignores Ctrl-C while the block runs: a second one, from an impatient user, does not lose the results."""
    former = signal.getsignal(signal.SIGINT)
    # Only the main thread may set handlers, and only those that Python has set can be restored.
    if threading.current_thread() is not threading.main_thread() or former is None:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


def _check_count(name: str, count: object) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError(f"{name}: {count!r} is not a whole number from 1 on")
