"""Keras callback that reports a metric after each epoch and stops training early."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._callbacks import Reporter, ReportingTrial, missing_framework

try:
    import keras
except ModuleNotFoundError as error:
    raise missing_framework("tunesmith.keras", "keras", "keras", error) from error

__all__ = ["TunesmithCallback"]


class TunesmithCallback(keras.callbacks.Callback):
    """Reports `monitor` to a trial after each epoch, and ends `fit` if the trial should stop.

    `monitor` is a name of the logs of `fit`, such as "val_loss". The step is the number of completed epochs. Without
    `trial`, it is `tunesmith.current_trial()`; if there is none, the callback has no effect. Raises `ValueError` if the
    logs have no such metric. The trial is completed by its owner, not by the callback.

    >>> callback = TunesmithCallback("val_loss")  # for model.fit(..., callbacks=[callback])
    """

    def __init__(self, monitor: str = "val_loss", *, trial: ReportingTrial | None = None) -> None:
        super().__init__()
        self._reporter = Reporter(monitor, trial)
        self._names: set[str] = set()
        self._has_reported = False

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Starts a run of `fit`."""
        self._names.clear()
        self._has_reported = False

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Reports the metric, on the first process only."""
        logs = logs or {}
        self._names.update(logs)
        monitor = self._reporter.monitor
        stops = False
        if monitor not in logs:
            # With `validation_freq`, only some epochs have results of the validation.
            if self._reporter.is_active and not (monitor.startswith("val_") and not _has_validation(logs)):
                raise self._reporter.missing(self._names)
            return
        self._has_reported = True
        rank, size = _processes()
        if rank == 0:
            stops = self._reporter.report(logs[monitor], epoch + 1)
        if size > 1:
            stops = _of_first_process(stops)
        if stops:
            self.model.stop_training = True

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Raises if no epoch had the metric."""
        if self._reporter.is_active and self._names and not self._has_reported:
            raise self._reporter.missing(self._names)


def _has_validation(logs: Mapping[str, Any]) -> bool:
    return any(name.startswith("val_") for name in logs)


def _processes() -> tuple[int, int]:
    """Returns the rank of this process and the number of processes. Only the JAX backend trains with several."""
    if keras.backend.backend() != "jax":
        return 0, 1
    import jax

    return jax.process_index(), jax.process_count()


def _of_first_process(stops: bool) -> bool:
    from jax.experimental import multihost_utils

    return bool(multihost_utils.broadcast_one_to_all(stops))
