"""Tunesmith's stopping rules as a pruner of Optuna."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from optuna.pruners import BasePruner
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from ..metrics import maximize, minimize
from ..optimizer import Optimizer
from ..parameters import integer
from ..study_config import AutomatedStopping
from ..trial import Trial
from ._history import constraint_values

# One for each study that a pruner serves concurrently; more cost a rebuild.
_MOST_STUDIES = 4
_LARGEST_NUMBER = 2**53


class TunesmithPruner(BasePruner):
    """Prunes trials that are unlikely to become the best, by one of Tunesmith's stopping rules.

    `decay_curve` extrapolates the intermediate values of a trial and prunes it if its chance to beat the best trial is
    below 5%. `median` prunes a trial whose best value is worse than the median of what the others had reported on
    average up to that step. `decay_curve` decides nothing before three trials have finished, `median` before five.

    The decision depends on nothing but the intermediate values of the study's trials. Trials that violate a constraint
    are no measure for others. Values that are not finite count as not reported. Studies of several objectives have no
    intermediate values.
    """

    def __init__(self, *, rule: AutomatedStopping = "decay_curve") -> None:
        """Creates a pruner with the stopping rule `rule`."""
        if rule not in get_args(AutomatedStopping):
            raise ValueError(f"rule {rule!r} is not one of {', '.join(get_args(AutomatedStopping))}")
        self._rule: AutomatedStopping = rule
        self._create_transient_state()

    def _create_transient_state(self) -> None:
        self._lock = threading.Lock()
        self._curves: dict[str, _Curves] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"_rule": self._rule}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._create_transient_state()

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Returns whether `trial` should end now."""
        reports = _reports(trial)
        if not reports:
            return False
        with self._lock:
            finished = self._finished(study)
            name = study.study_name
            curves = self._curves.pop(name, None)
            if curves is None or not curves.continue_in(finished, trial.number, reports):
                curves = _Curves(study.direction, self._rule)
            # The least recently used study comes first.
            self._curves[name] = curves
            while len(self._curves) > _MOST_STUDIES:
                del self._curves[next(iter(self._curves))]
            return curves.decide(finished, trial.number, reports)

    def _finished(self, study: Study) -> dict[int, dict[int, float]]:
        """Returns the curves to compare with, by number of the trial."""
        # The decay-curve rule compares trials that ran to their end. The median would rise without the pruned ones.
        states: Sequence[TrialState] = (TrialState.COMPLETE, TrialState.PRUNED)
        if self._rule == "decay_curve":
            states = (TrialState.COMPLETE,)
        trials = sorted(study.get_trials(deepcopy=False, states=states), key=lambda each: each.number)
        satisfying = (each for each in trials if all(v <= 0 for v in constraint_values(each.system_attrs).values()))
        curves = {each.number: _reports(each) for each in satisfying}
        return {number: reports for number, reports in curves.items() if reports}


class _Curves:
    """Curves of a study's trials in an optimizer, which applies the rule."""

    def __init__(self, direction: StudyDirection, rule: AutomatedStopping) -> None:
        metric = maximize("value") if direction == StudyDirection.MAXIMIZE else minimize("value")
        # The rules compare curves alone; the parameter only tells the trials apart.
        self._optimizer = Optimizer(
            [integer("trial", 0, _LARGEST_NUMBER)], [metric], algorithm="random_search", seed=0, automated_stopping=rule
        )
        self._running: dict[int, _Curve] = {}
        self._finished: dict[int, dict[int, float]] = {}

    def continue_in(self, finished: Mapping[int, dict[int, float]], number: int, reports: dict[int, float]) -> bool:
        """Returns whether the curves known so far are still those of the study."""
        if any(finished.get(other) != known for other, known in self._finished.items()):
            return False
        candidate = {**finished, number: reports}
        return all(
            curve.reports.items() <= candidate[other].items()
            for other, curve in self._running.items()
            if other in candidate
        )

    def decide(self, finished: Mapping[int, dict[int, float]], number: int, reports: dict[int, float]) -> bool:
        """Returns whether the trial `number` should end, after adding the curves that are new."""
        for other in sorted(finished.keys() - self._finished.keys()):
            self._curve(other, finished[other]).trial.complete()
            del self._running[other]
            self._finished[other] = finished[other]
        curve = self._curve(number, reports)
        stops = curve.trial.should_stop()
        if stops:
            # Should the trial go on all the same, its next decision starts afresh.
            curve.trial.infeasible("pruned")
            del self._running[number]
        return stops

    def _curve(self, number: int, reports: dict[int, float]) -> _Curve:
        """Returns the running curve of a trial, with all of `reports`."""
        curve = self._running.get(number)
        if curve is None:
            curve = self._running[number] = _Curve(self._optimizer.ask(parameters={"trial": number}))
        for step in sorted(reports.keys() - curve.reports.keys()):
            curve.trial.report(reports[step], step=step)
            curve.reports[step] = reports[step]
        return curve


class _Curve:
    """A trial of the optimizer with the reports that it has got."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.reports: dict[int, float] = {}


def _reports(trial: FrozenTrial) -> dict[int, float]:
    """Returns the finite intermediate values by step."""
    return {step: float(value) for step, value in trial.intermediate_values.items() if math.isfinite(value)}
