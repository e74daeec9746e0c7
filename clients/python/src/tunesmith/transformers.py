"""Callback of the `Trainer` of Transformers that reports a metric after each evaluation and stops training early."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from ._callbacks import Reporter, ReportingTrial, missing_framework

try:
    from transformers import TrainerCallback
except ModuleNotFoundError as error:
    raise missing_framework("tunesmith.transformers", "transformers", "transformers", error) from error

__all__ = ["TunesmithCallback"]


class TunesmithCallback(TrainerCallback):
    """Reports `monitor` to a trial, and ends `train` if the trial should stop.

    `monitor` is a metric of the evaluation, such as "eval_loss", or one of the logs of the training, such as "loss".
    The step is `state.global_step`, the number of optimizer steps. Without `trial`, it is `tunesmith.current_trial()`;
    if there is none, the callback has no effect. Raises `ValueError` if neither has such a metric. The trial is
    completed by its owner, not by the callback.

    >>> callback = TunesmithCallback("eval_loss")  # for Trainer(..., callbacks=[callback])
    """

    def __init__(self, monitor: str = "eval_loss", *, trial: ReportingTrial | None = None) -> None:
        self._reporter = Reporter(monitor, trial)
        self._start()

    def _start(self) -> None:
        self._names: set[str] = set()
        self._has_reported = False
        self._first_evaluation: int | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Starts a run of `train`."""
        self._start()

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Reports a metric of the evaluation, on the first process only."""
        metrics = metrics or {}
        self._names.update(metrics)
        if self._reporter.monitor in metrics:
            self._report(metrics, state, control)
            return
        # Several evaluation sets are evaluated one after the other at the same step.
        if self._first_evaluation is None:
            self._first_evaluation = state.global_step
        elif state.global_step > self._first_evaluation:
            self._check()

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        """Reports a metric of the training. The logs repeat metrics of the evaluation, which `on_evaluate` reports."""
        logs = logs or {}
        self._names.update(logs)
        if self._reporter.monitor in logs and not self._reporter.monitor.startswith("eval_"):
            self._report(logs, state, control)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Raises if neither evaluations nor logs had the metric."""
        if self._names:
            self._check()

    def _check(self) -> None:
        if self._reporter.is_active and not self._has_reported:
            raise self._reporter.missing(self._names)

    def _report(self, metrics: Mapping[str, Any], state: Any, control: Any) -> None:
        self._has_reported = True
        stops = False
        if state.is_world_process_zero:
            stops = self._reporter.report(metrics[self._reporter.monitor], state.global_step)
        if _of_first_process(stops):
            control.should_training_stop = True


def _of_first_process(stops: bool) -> bool:
    """Returns the decision of the first process: others would wait forever for one that ends alone."""
    # Without PyTorch there is one process.
    torch = sys.modules.get("torch")
    if torch is None or not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return stops
    decision = [stops]
    torch.distributed.broadcast_object_list(decision, src=0)
    return bool(decision[0])
