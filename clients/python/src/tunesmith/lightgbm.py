"""LightGBM callback that reports a metric after boosting rounds and stops training early."""

from __future__ import annotations

from typing import Any

from ._callbacks import Reporter, ReportingTrial, checked_period, missing_framework

try:
    from lightgbm.callback import EarlyStopException
except ModuleNotFoundError as error:
    raise missing_framework("tunesmith.lightgbm", "lightgbm", "lightgbm", error) from error

__all__ = ["tunesmith_callback"]


def tunesmith_callback(monitor: str, *, trial: ReportingTrial | None = None, every: int = 1) -> TunesmithCallback:
    """Returns a callback that reports `monitor` to a trial, and ends training if the trial should stop.

    `monitor` is a data set and a metric with a hyphen, such as "valid_0-l2". In `lightgbm.cv` the mean over the folds
    is reported. The step is the number of completed rounds; `every` is the number of rounds from one report to the
    next. Without `trial`, it is `tunesmith.current_trial()`; if there is none, the callback has no effect. Raises
    `ValueError` if there is no such metric, and for training on several machines, which LightGBM cannot stop together.
    The trial is completed by its owner, not by the callback.

    >>> callback = tunesmith_callback("valid_0-l2")  # for lightgbm.train(..., callbacks=[callback])
    """
    return TunesmithCallback(monitor, trial, every)


class TunesmithCallback:
    """Callback of LightGBM, created by `tunesmith_callback`."""

    # After the callbacks that log and record, and before `lightgbm.early_stopping`, which may end the same round.
    order = 25
    before_iteration = False

    def __init__(self, monitor: str, trial: ReportingTrial | None, every: int) -> None:
        self._reporter = Reporter(monitor, trial)
        self._every = checked_period(every)

    def __call__(self, env: Any) -> None:
        """Reports the metric of a round. Raises LightGBM's `EarlyStopException` if the trial should stop."""
        if not self._reporter.is_active:
            return
        machines = max(int(env.params.get(name, 1)) for name in ("num_machines", "num_machine"))
        if machines > 1:
            raise ValueError(
                f"num_machines={machines}: a trial cannot report from, or stop, training on several machines"
            )
        # Named tuples since LightGBM 4.7, and tuples before.
        values = {f"{result[0]}-{result[1]}": result[2] for result in env.evaluation_result_list or ()}
        if self._reporter.monitor not in values:
            raise self._reporter.missing(values)
        rounds = env.iteration - env.begin_iteration + 1
        if rounds % self._every == 0 and self._reporter.report(values[self._reporter.monitor], rounds):
            raise EarlyStopException(env.iteration, env.evaluation_result_list)
