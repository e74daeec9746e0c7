"""Results of `tunesmith.minimize` and `tunesmith.maximize`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from ._space import SearchSpace
from ._views import View, Views
from .errors import NoResult
from .metrics import Metric
from .records import TrialRecord

if TYPE_CHECKING:
    from .optimizer import Optimizer


class Result(Views):
    """All trials of a run, and the best of them.

    Parameters are the objects of the search space's lists of choices. A result is independent of the storage.
    """

    def __init__(self, optimizer: Optimizer, space: SearchSpace, interrupted: bool) -> None:
        self._optimizer = optimizer
        self._space = space
        self._interrupted = interrupted

    @classmethod
    def of_optimizer(cls, optimizer: Optimizer, space: SearchSpace, interrupted: bool, is_stored: bool) -> Result:
        """Returns the result of a run that has ended, detached from its storage."""
        if is_stored:
            optimizer = type(optimizer).from_json(optimizer.to_json())
        return cls(optimizer, space, interrupted)

    @cached_property
    def trials(self) -> list[TrialRecord]:
        """All trials by number, with those of earlier runs on the same storage and those that are unfinished."""
        return [self._space.decoded_record(record) for record in self._optimizer.trials]

    @cached_property
    def best(self) -> TrialRecord:
        """The best feasible trial.

        Raises `NoResult` if there is none, and `ValueError` with several metrics, where `front` has the optimal trials.
        """
        return self._space.decoded_record(self._optimizer.best)

    @cached_property
    def recommended(self) -> TrialRecord:
        """The best trial by the model of the search; differs from `best` where results are noisy."""
        return self._space.decoded_record(self._optimizer.recommended)

    @cached_property
    def front(self) -> list[TrialRecord]:
        """The optimal trials: the Pareto front, or the best trial with one metric. Empty if there is no result."""
        return [self._space.decoded_record(record) for record in self._optimizer.front]

    @property
    def value(self) -> float:
        """The metric of the best trial. Raises as `best`."""
        return self.best.metrics[self._objectives[0].name]

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the best trial. Raises as `best`."""
        return dict(self.best.parameters)

    @property
    def interrupted(self) -> bool:
        """True if Ctrl-C ended the run."""
        return self._interrupted

    def importance(self, metric: str | None = None) -> dict[str, float]:
        """Returns the share of a metric's variance that each parameter explains; empty with too few results."""
        return self._optimizer.importance(metric)

    @property
    def _objectives(self) -> list[Metric]:
        return [metric for metric in self._optimizer.metrics if metric.safety_threshold is None]

    def _view(self) -> View:
        return View(self.trials, self._space.parameters, tuple(self._optimizer.metrics), self.importance)

    def _counts(self) -> str:
        counts: Counter[str] = Counter()
        for trial in self.trials:
            if trial.state != "COMPLETED":
                counts["unfinished"] += 1
            elif trial.infeasible:
                counts["failed"] += 1
        kinds = "".join(f", {count} {kind}" for kind, count in sorted(counts.items()))
        number = len(self.trials)
        return f"{number} trial{'' if number == 1 else 's'}{kinds}{', interrupted' if self.interrupted else ''}"

    def _optimal(self) -> list[TrialRecord]:
        if len(self._objectives) > 1:
            return self.front
        try:
            return [self.best]
        except NoResult:
            return []

    def __repr__(self) -> str:
        lines = [f"Result: {self._counts()}"]
        optimal = self._optimal()
        shown = optimal[:_SHOWN]
        for trial in shown:
            values = "  ".join(f"{name}={value:.6g}" for name, value in trial.metrics.items())
            label = "best" if len(self._objectives) == 1 else "optimal"
            lines.append(f"  {label} trial {trial.number}: {values}")
            lines.append(f"    {_text(trial.parameters)}")
        if not optimal:
            lines.append("  no result")
        elif len(optimal) > len(shown):
            lines.append(f"  and {len(optimal) - len(shown)} other optimal trials in `front`")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        optimal = self._optimal()
        if not optimal:
            return f"<p>{escape(self._counts())}; no result</p>"
        metrics = [metric.name for metric in self._optimizer.metrics]
        names = list(dict.fromkeys(name for trial in optimal for name in trial.parameters))
        heads = "".join(f"<th>{escape(name)}</th>" for name in ("trial", *metrics, *names))
        rows = "".join(
            "<tr>"
            + "".join(
                f"<td>{escape(cell)}</td>"
                for cell in (
                    str(trial.number),
                    *(f"{trial.metrics[name]:.6g}" if name in trial.metrics else "" for name in metrics),
                    *(_value(trial.parameters[name]) if name in trial.parameters else "" for name in names),
                )
            )
            + "</tr>"
            for trial in optimal[:_SHOWN]
        )
        others = len(optimal) - _SHOWN
        note = f"; {others} other optimal trials are in <code>front</code>" if others > 0 else ""
        return (
            f"<p>{escape(self._counts())}{note}</p><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
        )


_SHOWN = 10


def _text(parameters: Mapping[str, Any]) -> str:
    return "  ".join(f"{name}={_value(value)}" for name, value in parameters.items())


def _value(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
