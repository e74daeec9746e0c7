"""Candidates of a search over estimators: each point once, and its scores for the search."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from ._sklearn_space import SearchSpace, point_key
from .errors import InvalidArgument, SearchEnded
from .metrics import maximize
from .optimizer import Optimizer
from .trial import Trial

# After so many repeated points in a row, the space has no new ones that the search would find in reasonable time.
_MAX_REPEATS = 50

Scores = Mapping[str, float]
"""Mean test scores by scorer; higher is better."""


class Candidate:
    """A point to evaluate, with its scores."""

    def __init__(self, params: dict[str, Any], trial: Trial) -> None:
        self.params = params
        self.values = trial.parameters
        self.trials = [trial]
        """The trials of the search with this point: several if it asked for the point again."""
        self.reports: list[tuple[int, Scores]] = []
        """Scores by resource, rising; a single entry without early stopping."""
        self.failure = ""
        """Reason for having no scores; empty if there is none."""
        self.is_stopped = False
        """Whether its scores are not those of the whole resource."""
        self.is_finished = False

    def report(self, scores: Scores | None, resource: int) -> None:
        """Adds scores; `None` or scores that are not finite are a failure."""
        if scores is None:
            self.failure = "all fits failed"
        elif not all(math.isfinite(score) for score in scores.values()):
            self.failure = "the score is not finite"
        else:
            self.reports.append((resource, scores))


class Proposals:
    """Candidates for an estimator. Proposes `initial_params` first, and no point twice."""

    def __init__(
        self,
        space: SearchSpace,
        objectives: Sequence[str],
        seed: int,
        initial_params: Sequence[Mapping[str, Any]],
    ) -> None:
        self._space = space
        self._seed = seed
        self._initial = [self._encoded(index, point) for index, point in enumerate(initial_params)]
        self._initial.reverse()
        self._known: dict[Hashable, Candidate] = {}
        self.is_exhausted = False
        """Whether the space has no more points."""
        self._open(objectives)

    def _open(self, objectives: Sequence[str]) -> None:
        self.objectives = tuple(objectives)
        """Scorers that are maximized."""
        self._optimizer = Optimizer(
            self._space.parameters, [maximize(name) for name in objectives], seed=self._seed, name="search-cv"
        )

    def use_objectives(self, objectives: Sequence[str] | None) -> None:
        """Continues with other scorers, which only the first success reveals if `scoring` is a function."""
        if objectives is None or tuple(objectives) == self.objectives:
            return
        self._open(objectives)
        for candidate in self._known.values():
            candidate.trials = [self._optimizer.ask(parameters=candidate.values)]
            if candidate.is_finished:
                self._complete(candidate.trials[0], candidate)

    def next(self, count: int) -> list[Candidate]:
        """Returns the next `count` candidates; fewer, or none, when the space is used up."""
        batch: list[Candidate] = []
        repeats = 0
        while len(batch) < count and not self.is_exhausted:
            for params, trial in self._asked(count - len(batch)):
                key = point_key(params)
                known = self._known.get(key)
                if known is None:
                    repeats = 0
                    self._known[key] = Candidate(params, trial)
                    batch.append(self._known[key])
                    continue
                repeats += 1
                if known.is_finished:
                    self._complete(trial, known)
                else:
                    known.trials.append(trial)
            if repeats >= _MAX_REPEATS:
                self.is_exhausted = True
        return batch

    def finish(self, candidate: Candidate, *, stopped: bool = False) -> None:
        """Gives the scores of a candidate to the search. `stopped`: they are not those of the whole resource."""
        candidate.is_stopped = stopped
        candidate.is_finished = True
        for trial in candidate.trials:
            self._complete(trial, candidate)

    def _asked(self, count: int) -> list[tuple[dict[str, Any], Trial]]:
        """Returns points of the search, which may be known."""
        if self._initial:
            index, given, values = self._initial.pop()
            try:
                trial = self._optimizer.ask(parameters=values)
            except InvalidArgument as error:
                raise ValueError(f"initial_params[{index}]: {error.message}") from error
            params = {**self._space.decode(trial.parameters), **given}
            if point_key(params) in self._known:
                warnings.warn(f"initial_params[{index}] repeats an earlier point and is skipped", stacklevel=2)
            return [(params, trial)]
        try:
            trials = self._optimizer.ask(count)
        except SearchEnded:
            self.is_exhausted = True
            return []
        return [(self._space.decode(trial.parameters), trial) for trial in trials]

    def _encoded(self, index: int, point: Any) -> tuple[int, dict[str, Any], dict[str, Any]]:
        if not isinstance(point, Mapping):
            raise TypeError(f"initial_params[{index}]: {point!r} is not a dictionary")
        try:
            return index, dict(point), self._space.encode(point)
        except ValueError as error:
            raise ValueError(f"initial_params[{index}]: {error}") from None

    def _complete(self, trial: Trial, candidate: Candidate) -> None:
        if candidate.failure:
            trial.infeasible(candidate.failure)
            return
        for resource, scores in candidate.reports:
            trial.report({name: scores[name] for name in self.objectives}, step=resource)
        if candidate.is_stopped:
            self._optimizer.study.stop_trial(trial.number)
        trial.complete()
