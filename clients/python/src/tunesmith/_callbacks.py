"""Connection of a training loop to its trial, shared by the callbacks of all frameworks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from .current import current_trial


class ReportingTrial(Protocol):
    """A trial that accepts reports: of `Optimizer.ask`, of a study's client, or `tunesmith.current_trial()`."""

    def report(self, value: float, *, step: int | None = None) -> None:
        """Adds a measurement."""

    def should_stop(self) -> bool:
        """Returns whether the trial should end early."""


class Reporter:
    """Reports the monitored metric of a training loop to a trial, if there is one.

    Without `trial`, it is the current trial: of the surrounding objective, or of the job that started this program.
    """

    def __init__(self, monitor: str, trial: ReportingTrial | None) -> None:
        if not isinstance(monitor, str) or not monitor:
            raise TypeError(f"monitor is the name of a metric, not {monitor!r}")
        self.monitor = monitor
        self._is_current = trial is None
        # Now, as the loop may run in another thread than the objective.
        self._trial: ReportingTrial | None = current_trial() if trial is None else trial

    @property
    def is_active(self) -> bool:
        """Whether there is a trial."""
        return self._trial is not None

    def report(self, value: Any, step: int) -> bool:
        """Adds a measurement, and returns whether the loop should stop."""
        if self._trial is None:
            return False
        self._trial.report(float(value), step=step)
        return self._trial.should_stop()

    def missing(self, names: Iterable[str]) -> ValueError:
        """Returns the error for a monitored metric that is not among `names`."""
        found = ", ".join(sorted(names)) or "there are none"
        return ValueError(f"the monitored metric {self.monitor!r} is not among those of the training loop: {found}")

    def __deepcopy__(self, memo: dict[int, Any]) -> Reporter:
        """Returns itself: copies of a callback, such as scikit-learn's `clone` makes, have the same trial."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles a reporter of the current trial; another process looks up its own."""
        if not self._is_current:
            raise TypeError(
                f"the callback for {self.monitor!r} cannot be pickled, since it has the trial of this process: leave "
                "out trial= where another process trains, which then takes its current trial"
            )
        return Reporter, (self.monitor, None)


def missing_framework(module: str, requirement: str, extra: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Returns the error for an adapter whose framework is not installed."""
    return ModuleNotFoundError(
        f"{module} needs {requirement} ({error}): pip install 'tunesmith[{extra}]'", name=error.name
    )


def checked_period(every: int) -> int:
    """Returns the number of rounds from one report to the next."""
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise ValueError(f"every={every!r} is not a positive number of rounds")
    return every
