"""Tunesmith's search as a sampler of Optuna."""

from __future__ import annotations

import logging
import math
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, get_args

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from ..errors import SearchEnded
from ..study_config import Algorithm
from ._dimension import dimension
from ._history import CONSTRAINTS, SUGGESTION, history, known_values
from ._search import Problem, SearchCache
from ._space import Space, infer

_LOG = logging.getLogger("tunesmith")
_SEEDS = 2**63


class TunesmithSampler(BaseSampler):
    """Suggests points by Tunesmith's search, by default Bayesian optimisation.

    Supports several objectives, constraints, conditional spaces, failed and pruned trials, and concurrent trials. A
    suggestion depends on nothing but the trials of the study and the seed, so the sampler may be replaced at any time,
    copied, pickled, and used by several studies and threads.

    >>> import optuna
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> study = optuna.create_study(sampler=TunesmithSampler(seed=1))
    >>> study.optimize(lambda trial: (trial.suggest_float("x", -10, 10) - 2) ** 2, n_trials=20)
    >>> abs(study.best_params["x"] - 2) < 0.1
    True
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        algorithm: Algorithm = "automatic",
        search_space: Mapping[str, BaseDistribution] | None = None,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
        independent_sampler: BaseSampler | None = None,
        warn_independent_sampling: bool = True,
    ) -> None:
        """Creates a sampler.

        `seed`: from 0 to 2^63 - 1; random by default. `algorithm`: as in `tunesmith.Optimizer`. `search_space`: the
        distributions, if they are known in advance; otherwise the first trial of the study reveals them.
        `constraints_func`: returns the constraints of a completed or pruned trial, each satisfied up to 0; an
        alternative to `Trial.set_constraint`. `independent_sampler`: draws parameters that the search cannot use, such
        as those whose range changes from trial to trial; uniformly by default. `warn_independent_sampling`: whether to
        log a warning, once a parameter, if that happens to one that earlier trials had.
        """
        if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < _SEEDS):
            raise ValueError(f"seed {seed!r} is not an integer from 0 to 2^63 - 1")
        if algorithm not in get_args(Algorithm):
            raise ValueError(f"algorithm {algorithm!r} is not one of {', '.join(get_args(Algorithm))}")
        for name, distribution in (search_space or {}).items():
            dimension(name, distribution)
        self._seed = secrets.randbelow(_SEEDS) if seed is None else seed
        self._algorithm: Algorithm = algorithm
        self._declared = dict(search_space or {})
        self._constraints_func = constraints_func
        self._independent_sampler = independent_sampler
        self._warns = warn_independent_sampling
        self._warned: set[str] = set()
        self._create_transient_state()

    def _create_transient_state(self) -> None:
        # Concurrent trials are suggested one after the other, so that each sees the suggestions before it as pending.
        self._lock = threading.Lock()
        self._cache = SearchCache()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_cache")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._create_transient_state()

    def reseed_rng(self) -> None:
        """Replaces the seed by a random one."""
        with self._lock:
            self._seed = secrets.randbelow(_SEEDS)
        if self._independent_sampler is not None:
            self._independent_sampler.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Returns the parameters that the search can use, by name, those of a single value excepted."""
        space = self._space(_other_trials(study, trial))
        return {name: each.distribution for name, each in space.dimensions.items()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Returns the search's suggestion for the parameters in `search_space` that exist in it.

        Values that the trial already has, or was queued with, are part of the suggestion. The suggestion is stored with
        the trial (system attribute `tunesmith:suggestion`): for other workers it is a point in progress.
        """
        if not search_space:
            return {}
        with self._lock:
            trials = _other_trials(study, trial)
            space = self._space(trials).restricted(search_space)
            values = _single_values(search_space)
            if space.dimensions:
                observed = history(study.directions, trials, space)
                problem = Problem(tuple(space.parameters()), observed.metrics, self._algorithm, self._seed)
                given = space.settled(known_values(trial, space))
                quoted = {repr(name): value for name, value in given.items()}
                try:
                    suggestion = self._cache.suggest(problem, observed.finished, observed.pending, quoted)
                except SearchEnded:
                    # Optuna knows no end of a space: repeat points, at random.
                    suggestion = {
                        repr(name): given[name] if name in given else each.draw(self._random(trial, name))
                        for name, each in space.dimensions.items()
                    }
                for name, each in space.dimensions.items():
                    if repr(name) in suggestion:
                        values[name] = each.to_external(suggestion[repr(name)])
            internal = {name: search_space[name].to_internal_repr(value) for name, value in values.items()}
            study._storage.set_trial_system_attr(trial._trial_id, SUGGESTION, internal)
            return values

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draws a parameter that the search cannot use.

        By default uniformly, depending on the seed, the number of the trial and the name alone. The first trial of a
        study gets the middle of each range, with which the search's own initial design starts.
        """
        if self._warns and param_name not in self._warned:
            self._warn(study, trial, param_name)
        if self._independent_sampler is not None:
            return self._independent_sampler.sample_independent(study, trial, param_name, param_distribution)
        each = dimension(param_name, param_distribution)
        value = each.middle() if trial.number == 0 else each.draw(self._random(trial, param_name))
        return each.to_external(value)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Passes the call on to the independent sampler, if any."""
        if self._independent_sampler is not None:
            self._independent_sampler.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Stores the constraints of a completed or pruned trial if there is a `constraints_func`."""
        if self._constraints_func is not None and state in (TrialState.COMPLETE, TrialState.PRUNED):
            found = self._constraints_func(trial)
            if not isinstance(found, Iterable):
                raise TypeError(f"constraints_func: {found!r} of trial {trial.number} is not a sequence of numbers")
            constraints = [float(value) for value in found]
            for index, value in enumerate(constraints):
                if math.isnan(value):
                    raise ValueError(f"constraints_func: value {index} of trial {trial.number} is NaN, not a number")
            study._storage.set_trial_system_attr(trial._trial_id, CONSTRAINTS, constraints)
        if self._independent_sampler is not None:
            self._independent_sampler.after_trial(study, trial, state, values)

    def _space(self, trials: Sequence[FrozenTrial]) -> Space:
        return infer(trials, self._declared)

    def _random(self, trial: FrozenTrial, name: str) -> Random:
        # Seeded by a text, which does not depend on the process's hash of strings.
        return Random(f"{self._seed}/{trial.number}/{name}")

    def _warn(self, study: Study, trial: FrozenTrial, name: str) -> None:
        trials = _other_trials(study, trial)
        if not any(name in other.params and other.state.is_finished() for other in trials):
            # Nothing can be known of a parameter before its first trial.
            return
        reason = self._space(trials).unmodelled.get(name)
        if reason is None and name in self._declared:
            reason = "the suggestion made with its distribution in search_space does not fit"
        if reason is None:
            # A range that has just changed, or a wrong guess about a condition: this trial corrects it.
            return
        self._warned.add(name)
        _LOG.warning(
            "trial %d: parameter %r is drawn independently of the search, because %s "
            "(warn_independent_sampling=False suppresses this warning)",
            trial.number,
            name,
            reason,
        )


def _other_trials(study: Study, trial: FrozenTrial) -> list[FrozenTrial]:
    """Returns the trials of the study by number, without `trial`."""
    trials = study.get_trials(deepcopy=False)
    return sorted((each for each in trials if each.number != trial.number), key=lambda each: each.number)


def _single_values(search_space: Mapping[str, BaseDistribution]) -> dict[str, Any]:
    """Returns the values of the parameters that have only one."""
    each = (dimension(name, distribution) for name, distribution in search_space.items() if distribution.single())
    return {one.name: one.to_external(one.middle()) for one in each}
