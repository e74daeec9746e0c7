"""Suggestions as a pure function of the problem and its observations, with a cache of searches."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .._wire import ParameterValue
from ..metrics import Metric
from ..optimizer import Optimizer
from ..parameters import Parameter
from ..study_config import Algorithm
from ._history import Observation

# One for each study that a sampler serves concurrently, or for each bracket of a HyperbandPruner; more cost a rebuild.
_MOST_SEARCHES = 8


@dataclass(frozen=True)
class Problem:
    """Everything that determines suggestions besides the observations."""

    parameters: tuple[Parameter, ...]
    metrics: tuple[Metric, ...]
    algorithm: Algorithm
    seed: int


@dataclass
class _Search:
    problem: Problem
    optimizer: Optimizer
    told: list[Observation] = field(default_factory=list)

    def continues(self, problem: Problem, finished: list[Observation]) -> bool:
        return self.problem == problem and self.told == finished[: len(self.told)]


class SearchCache:
    """Recently used searches by their content, so that two studies with the same history share one. Not thread-safe."""

    def __init__(self) -> None:
        self._searches: list[_Search] = []

    def suggest(
        self,
        problem: Problem,
        finished: Sequence[Observation],
        pending: Sequence[Observation],
        given: Mapping[str, ParameterValue],
    ) -> dict[str, ParameterValue]:
        """Returns the values of the next trial by quoted name. `given` has values that are decided already.

        Raises `SearchEnded` if a finite space has no points left.
        """
        search = self._search(problem, list(finished))
        # Pending points may end in any order, and the suggestion itself is not part of the history.
        optimizer = copy.deepcopy(search.optimizer)
        for observation in pending:
            optimizer.ask(parameters=dict(observation.parameters))
        trial = optimizer.ask(parameters=dict(given)) if given else optimizer.ask()
        return dict(trial.parameters)

    def _search(self, problem: Problem, finished: list[Observation]) -> _Search:
        """Returns the search that has been told exactly `finished`."""
        found = max(
            (search for search in self._searches if search.continues(problem, finished)),
            key=lambda search: len(search.told),
            default=None,
        )
        if found is None:
            optimizer = Optimizer(problem.parameters, problem.metrics, algorithm=problem.algorithm, seed=problem.seed)
            found = _Search(problem, optimizer)
        else:
            self._searches.remove(found)
        for observation in finished[len(found.told) :]:
            _tell(found.optimizer, problem, observation)
            found.told.append(observation)
        self._searches = [*self._searches, found][-_MOST_SEARCHES:]
        return found


def _tell(optimizer: Optimizer, problem: Problem, observation: Observation) -> None:
    parameters = dict(observation.parameters)
    if observation.metrics is None:
        optimizer.tell(parameters, infeasible=observation.infeasible)
    else:
        names = (metric.name for metric in problem.metrics)
        optimizer.tell(parameters, dict(zip(names, observation.metrics, strict=True)))
