"""`tunesmith.minimize` and `tunesmith.maximize`: metrics by name, and runs of an objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from os import PathLike
from typing import Any, overload

from . import metrics as _metrics
from ._objective import Catch, Objective
from ._run import Goal, Options, run
from ._space import Space
from .metrics import Metric
from .result import Result
from .study_config import Algorithm, AutomatedStopping, FinalMeasurement


@overload
def minimize(
    name: str, *, safety_threshold: float | None = None, desired_min_safe_trials_fraction: float | None = None
) -> Metric: ...


@overload
def minimize(
    objective: Objective,
    space: Space,
    *,
    trials: int = 50,
    parallel: int | None = None,
    algorithm: Algorithm = "automatic",
    seed: int | None = None,
    storage: str | PathLike[str] | None = None,
    name: str = "optimizer",
    metrics: Sequence[str | Metric] | None = None,
    catch: Catch = (),
    timeout: float | None = None,
    progress: bool | None = None,
    executor: Executor | None = None,
    automated_stopping: AutomatedStopping | None = None,
    use_elapsed_time: bool = False,
    final_measurement: FinalMeasurement = "last",
    additions: Mapping[str, Any] | None = None,
) -> Result: ...


def minimize(*arguments: Any, **options: Any) -> Metric | Result:
    """Searches the parameters with the least result of an objective: `minimize(objective, space, trials=50)`.

    With a name in place of the objective it returns a metric to minimize, as described at the end.

    `objective` is called with a dict of parameters. It returns a number, numbers by metric or, after reports to
    `tunesmith.current_trial()`, `None`: then the reports decide. A result that is not finite makes the trial
    infeasible.

    `space` is a list of parameters or a mapping of names to shorthand: `(low, high)` is an integer between two ints
    and otherwise a double; `(low, high, "log")` has a scale; a list has choices, of which the objective receives the
    very objects. A list of numbers only is ordered, a `discrete` parameter; any other list is a `categorical` one.

    - `trials`: their total, including those in the storage.
    - `parallel`: number of trials that run concurrently, in threads; with `executor`, by default its workers.
    - `executor`: a `concurrent.futures.Executor` that calls the objective, such as a `ProcessPoolExecutor`. Reports
      are not available in other processes.
    - `algorithm`, `seed`, `automated_stopping`, `use_elapsed_time`, `final_measurement`, `additions`: as of
      `Optimizer`.
    - `storage`: a data folder, which keeps each result; the same call continues there. `name`: the study's name in it.
    - `metrics`: names (goal as of this function) and metrics, by default one named `value`.
    - `catch`: exceptions of the objective that make a trial infeasible. Any other one ends the run.
    - `timeout`: seconds after which no trial starts.
    - `progress`: whether a line shows the progress; by default in a terminal or notebook. True also writes to a log.

    Ctrl-C ends the run and returns the result so far, with `interrupted`. Trials that were running stay unfinished,
    and the next run on the same storage repeats them.

    Raises `ObjectiveFailed` if the objective raises an exception that is not in `catch`, `AllTrialsFailed` if each of
    the first 10 trials raised one that is, and `ExecutorFailed` if the executor breaks. Running trials are awaited
    first, and each of these exceptions has the `result` so far.

    >>> minimize(lambda parameters: (parameters["x"] - 1) ** 2, {"x": (-2.0, 2.0)}, trials=20, seed=1).value < 0.1
    True

    A metric: `minimize("loss")`, or a constraint: results up to `safety_threshold` satisfy it.
    """
    return _dispatch("MINIMIZE", arguments, options)


@overload
def maximize(
    name: str, *, safety_threshold: float | None = None, desired_min_safe_trials_fraction: float | None = None
) -> Metric: ...


@overload
def maximize(
    objective: Objective,
    space: Space,
    *,
    trials: int = 50,
    parallel: int | None = None,
    algorithm: Algorithm = "automatic",
    seed: int | None = None,
    storage: str | PathLike[str] | None = None,
    name: str = "optimizer",
    metrics: Sequence[str | Metric] | None = None,
    catch: Catch = (),
    timeout: float | None = None,
    progress: bool | None = None,
    executor: Executor | None = None,
    automated_stopping: AutomatedStopping | None = None,
    use_elapsed_time: bool = False,
    final_measurement: FinalMeasurement = "last",
    additions: Mapping[str, Any] | None = None,
) -> Result: ...


def maximize(*arguments: Any, **options: Any) -> Metric | Result:
    """Searches the parameters with the greatest result of an objective: `maximize(objective, space, trials=50)`.

    The arguments are those of `minimize`. `maximize("accuracy")` returns a metric to maximize, or a constraint: results
    from `safety_threshold` on satisfy it.
    """
    return _dispatch("MAXIMIZE", arguments, options)


def _dispatch(goal: Goal, arguments: tuple[Any, ...], options: dict[str, Any]) -> Metric | Result:
    function = goal.lower()
    first = arguments[0] if arguments else options.get("objective", options.get("name"))
    if isinstance(first, str):
        constructor = _metrics.minimize if goal == "MINIMIZE" else _metrics.maximize
        return constructor(*arguments, **options)
    if not callable(first):
        raise TypeError(f"{function}() takes an objective, or the name of a metric, not {first!r}")
    return _run(goal, *arguments, **options)


def _run(goal: Goal, objective: Objective, space: Space, **options: Any) -> Result:
    try:
        checked = Options(**options)
    except TypeError as error:
        unknown = options.keys() - Options.__dataclass_fields__.keys()
        if not unknown:
            raise
        raise TypeError(
            f"{goal.lower()}() has no argument {', '.join(map(repr, sorted(unknown)))}; "
            f"it has {', '.join(Options.__dataclass_fields__)}"
        ) from error
    return run(goal, objective, space, checked)
