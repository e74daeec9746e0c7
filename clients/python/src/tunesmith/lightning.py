"""Lightning callback that reports a metric after each validation and stops training early."""

from __future__ import annotations

import importlib
from typing import Any

from ._callbacks import Reporter, ReportingTrial, missing_framework


def _callback_classes() -> tuple[type, ...]:
    """Returns `Callback` of the installed packages: each has a class tree of its own."""
    classes: list[type] = []
    missing: ModuleNotFoundError | None = None
    for module in ("lightning.pytorch", "pytorch_lightning"):
        try:
            classes.append(importlib.import_module(module).Callback)
        except ModuleNotFoundError as error:
            missing = missing or error
    if not classes and missing is not None:
        raise missing_framework("tunesmith.lightning", "lightning", "lightning", missing) from missing
    return tuple(classes)


_Callbacks: Any = type("_Callbacks", _callback_classes(), {})

__all__ = ["TunesmithCallback"]


class TunesmithCallback(_Callbacks):
    """Reports `monitor` to a trial after each validation, and ends `fit` if the trial should stop.

    `monitor` is a name of `trainer.callback_metrics`, as `self.log` of the module sets it, such as "val_loss". The step
    is the number of completed validations, one an epoch by default. Without `trial`, it is `tunesmith.current_trial()`;
    if there is none, the callback has no effect. Raises `ValueError` if there is no such metric. The trial is completed
    by its owner, not by the callback.
    """

    def __init__(self, monitor: str = "val_loss", *, trial: ReportingTrial | None = None) -> None:
        super().__init__()
        self._reporter = Reporter(monitor, trial)
        self._validations = 0

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Reports the metric, on the first process only."""
        if trainer.sanity_checking:
            return
        metrics = trainer.callback_metrics
        monitor = self._reporter.monitor
        if self._reporter.is_active and monitor not in metrics:
            raise self._reporter.missing(metrics)
        self._validations += 1
        stops = False
        if trainer.is_global_zero and monitor in metrics:
            stops = self._reporter.report(metrics[monitor], self._validations)
        # Processes that end after different numbers of batches would wait for each other forever.
        if trainer.strategy.broadcast(stops):
            trainer.should_stop = True

    def state_dict(self) -> dict[str, Any]:
        """Returns the number of validations, for a checkpoint."""
        return {"validations": self._validations}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues the steps of a checkpoint."""
        self._validations = int(state_dict["validations"])
