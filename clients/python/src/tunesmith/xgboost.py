"""XGBoost callback that reports a metric after boosting rounds and stops training early."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._callbacks import Reporter, ReportingTrial, checked_period, missing_framework

try:
    import xgboost
except ModuleNotFoundError as error:
    raise missing_framework("tunesmith.xgboost", "xgboost", "xgboost", error) from error

__all__ = ["TunesmithCallback"]


class TunesmithCallback(xgboost.callback.TrainingCallback):
    """Reports `monitor` to a trial after boosting rounds, and ends training if the trial should stop.

    `monitor` is a data set and a metric as XGBoost prints them, such as "validation_0-logloss". In `xgboost.cv` the
    mean over the folds is reported. The step is the number of completed rounds; `every` is the number of rounds from
    one report to the next. Without `trial`, it is `tunesmith.current_trial()`; if there is none, the callback has no
    effect. Raises `ValueError` if there is no such metric. The trial is completed by its owner, not by the callback.

    >>> callback = TunesmithCallback("validation_0-logloss")  # for XGBClassifier(..., callbacks=[callback])
    """

    def __init__(self, monitor: str, *, trial: ReportingTrial | None = None, every: int = 1) -> None:
        super().__init__()
        self._reporter = Reporter(monitor, trial)
        self._every = checked_period(every)

    def after_iteration(self, model: Any, epoch: int, evals_log: Mapping[str, Mapping[str, Sequence[Any]]]) -> bool:
        """Reports the metric, on the first worker only, and returns whether this round was the last."""
        values = {
            f"{data}-{metric}": history[-1]
            for data, metrics in evals_log.items()
            for metric, history in metrics.items()
        }
        monitor = self._reporter.monitor
        if self._reporter.is_active and monitor not in values:
            raise self._reporter.missing(values)
        rounds = epoch + 1
        if rounds % self._every:
            return False
        stops = False
        if monitor in values and xgboost.collective.get_rank() == 0:
            value = values[monitor]
            # Cross-validation has a mean and a standard deviation.
            stops = self._reporter.report(value[0] if isinstance(value, tuple) else value, rounds)
        if xgboost.collective.is_distributed():
            # Workers that boost different numbers of rounds would wait for each other forever.
            stops = xgboost.collective.broadcast(stops, 0)
        return stops
