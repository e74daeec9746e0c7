"""Search of an estimator's hyperparameters by cross-validation, in the manner of scikit-learn's searches."""

from __future__ import annotations

import math
import numbers
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

try:
    import numpy as np
    from joblib import effective_n_jobs
    from sklearn.base import is_classifier
    from sklearn.model_selection._search import BaseSearchCV
    from sklearn.utils import check_random_state
    from sklearn.utils._param_validation import Interval, StrOptions
    from sklearn.utils.validation import _num_samples
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"tunesmith.sklearn needs scikit-learn ({error}): pip install 'tunesmith[sklearn]'", name=error.name
    ) from error

from ._sklearn_evaluation import Evaluation, Rows
from ._sklearn_proposals import Candidate, Proposals, Scores
from ._sklearn_space import SearchSpace

__all__ = ["TunesmithSearchCV"]

# With early stopping, so many factors of candidates start together by default: 9, 3 and 1 candidates for factor 3.
_BRACKET_POWER = 2


class TunesmithSearchCV(BaseSearchCV):
    """Search over hyperparameters in which each candidate is chosen by a model of the scores so far.

    A replacement of `RandomizedSearchCV` with the same arguments, attributes and `cv_results_`, which usually needs
    fewer candidates for the same score.

    Parameters
    ----------
    estimator : estimator object
        As for `RandomizedSearchCV`.
    param_distributions : dict, list of dicts, or list of parameters
        By name, one of: a list of values, which may be any objects; a frozen distribution of `scipy.stats`; a
        distribution of optuna; a parameter of tunesmith (`tunesmith.double(...)`), also with conditional children. The
        search chooses among several dicts. A list of tunesmith's parameters stands for a dict by their names.
    n_iter : int, default=10
        Number of candidates.
    scoring, refit, cv, verbose, pre_dispatch, error_score, return_train_score
        As for `RandomizedSearchCV`. With several scorers, the search maximizes the one that `refit` names; if `refit`
        is a function or false, it looks for good trade-offs of all of them. All candidates get the same folds.
    n_jobs : int, default=None
        Number of parallel fits.
    random_state : int, RandomState or None, default=None
        Seed of the search. Equal seeds give equal candidates if the estimator is deterministic and `batch_size` equal.
    batch_size : int, default=None
        Number of candidates that are chosen together, before any of them has scores. By default the number of parallel
        jobs; with `resource`, at least `factor ** 2`.
    timeout : float, default=None
        Seconds after which no further batch starts.
    initial_params : list of dicts, default=None
        Points to try first, counted in `n_iter`. The search supplies missing parameters.
    resource : str, default=None
        Early stopping by successive halving: the candidates of a batch get little of the resource first, and the best
        `1 / factor` of them `factor` times as much, up to `max_resources`. Either "n_samples", the number of samples
        of which each fold's training part gets its share, or the name of an integer parameter of the estimator.
    min_resources : int or "smallest", default="smallest"
        Lower limit of the resource. "smallest": 1, and for "n_samples" twice the number of folds, times the number of
        classes for a classifier.
    max_resources : int or "auto", default="auto"
        The whole resource, of which only complete evaluations compete for `best_index_`. "auto" is the number of
        samples; another resource needs a number.
    factor : float, default=3
        Ratio of successive resources and of successive numbers of candidates; above 1.

    Attributes
    ----------
    cv_results_, best_estimator_, best_score_, best_params_, best_index_, scorer_, n_splits_, refit_time_, multimetric_
        As for `RandomizedSearchCV`. With `resource`, `cv_results_` has a row for each candidate and resource, and the
        columns `n_resources` and `iter`, its position in `n_resources_`.
    n_resources_, min_resources_, max_resources_
        With `resource`: the possible resources, rising, and their limits.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> search = TunesmithSearchCV(SVC(), {"C": loguniform(1e-3, 1e3), "kernel": ["rbf", "linear"]}, random_state=0)
    >>> bool(search.fit(*load_iris(return_X_y=True)).best_score_ > 0.97)
    True

    """

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012  scikit-learn's own form
        **BaseSearchCV._parameter_constraints,
        "param_distributions": [dict, list, tuple],
        "n_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "batch_size": [Interval(numbers.Integral, 1, None, closed="left"), None],
        "timeout": [Interval(numbers.Real, 0, None, closed="neither"), None],
        "initial_params": [list, tuple, None],
        "resource": [str, None],
        "min_resources": [Interval(numbers.Integral, 1, None, closed="left"), StrOptions({"smallest"})],
        "max_resources": [Interval(numbers.Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "factor": [Interval(numbers.Real, 1, None, closed="neither")],
    }

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        n_iter: int = 10,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: bool | str | Callable[[dict[str, Any]], int] = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: int | str = "2*n_jobs",
        random_state: Any = None,
        error_score: float | str = np.nan,
        return_train_score: bool = False,
        batch_size: int | None = None,
        timeout: float | None = None,
        initial_params: Sequence[Mapping[str, Any]] | None = None,
        resource: str | None = None,
        min_resources: int | str = "smallest",
        max_resources: int | str = "auto",
        factor: float = 3,
    ) -> None:
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.random_state = random_state
        self.batch_size = batch_size
        self.timeout = timeout
        self.initial_params = initial_params
        self.resource = resource
        self.min_resources = min_resources
        self.max_resources = max_resources
        self.factor = factor
        super().__init__(
            estimator=estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )

    # The hooks of scikit-learn's `fit`, in their order.

    def _check_input_parameters(self, X: Any, y: Any, split_params: Mapping[str, Any]) -> None:  # noqa: N803
        """Determines the resources; called before the search with the whole data."""
        if self.resource is not None:
            n_splits = self._checked_cv_orig.get_n_splits(X, y, **split_params)
            self._set_resources(_num_samples(X), n_splits, y)

    def _run_search(self, evaluate_candidates: Callable[..., dict[str, Any]], *, callback_ctx: Any = None) -> None:
        """Evaluates candidates in batches; called by `fit`."""
        started = time.monotonic()
        space = SearchSpace(self.param_distributions)
        if self.resource is not None and self.resource in space.names:
            raise ValueError(f"resource={self.resource!r} is among the searched parameters: take it out of one of them")
        initial_params = self.initial_params or ()
        if len(initial_params) > self.n_iter:
            raise ValueError(f"initial_params has {len(initial_params)} points, more than n_iter={self.n_iter}")
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        proposals = Proposals(space, self._expected_objectives(), seed, initial_params)
        self._rows = Rows()
        try:
            evaluation = Evaluation(self, evaluate_candidates, self._rows, seed, callback_ctx)
            n_candidates = 0
            while n_candidates < self.n_iter:
                if n_candidates and self.timeout is not None and time.monotonic() - started >= self.timeout:
                    break
                batch = proposals.next(min(self._batch_size(), self.n_iter - n_candidates))
                if not batch:
                    break
                n_candidates += len(batch)
                self._evaluate_batch(evaluation, proposals, batch)
            if proposals.is_exhausted and n_candidates < self.n_iter:
                warnings.warn(
                    f"the search space has no further points: {n_candidates} candidates were evaluated, "
                    f"fewer than n_iter={self.n_iter}",
                    UserWarning,
                    stacklevel=2,
                )
            evaluation.end()
        finally:
            del self._rows

    def _format_results(
        self, candidate_params: list[Any], n_splits: int, out: list[Any], more_results: Any = None
    ) -> dict[str, Any]:
        """Returns `cv_results_` so far, with the candidates of which all fits failed."""
        rows = self._rows.share(candidate_params, n_splits, out, more_results)
        with warnings.catch_warnings():
            # Once for all candidates, at the end, and not after each batch.
            warnings.filterwarnings("ignore", "One or more of the (test|train) scores are non-finite", UserWarning)
            return super()._format_results(rows.candidates, rows.n_splits, rows.out, rows.more)  # type: ignore[no-any-return]

    @staticmethod
    def _select_best_index(refit: Any, refit_metric: str, results: dict[str, Any]) -> Any:
        """Returns the best row; with early stopping, of those with the largest resource."""
        if callable(refit) or "n_resources" not in results:
            return BaseSearchCV._select_best_index(refit, refit_metric, results)
        largest = np.flatnonzero(results["n_resources"] == results["n_resources"].max())
        return largest[results[f"rank_test_{refit_metric}"][largest].argmin()]

    # Parts of the search.

    def _expected_objectives(self) -> tuple[str, ...]:
        """Returns the scorers to maximize, before any evaluation."""
        if self.scoring is None or isinstance(self.scoring, str) or callable(self.scoring):
            return ("score",)
        names = tuple(str(name) for name in self.scoring)
        return (self.refit,) if isinstance(self.refit, str) else names

    def _batch_size(self) -> int:
        if self.batch_size is not None:
            return int(self.batch_size)
        workers = int(effective_n_jobs(self.n_jobs))
        if self.resource is None:
            return workers
        return max(workers, round(self.factor ** min(len(self.n_resources_) - 1, _BRACKET_POWER)))

    def _evaluate_batch(self, evaluation: Evaluation, proposals: Proposals, batch: list[Candidate]) -> None:
        if self.resource is not None:
            self._halve(evaluation, proposals, batch)
            return
        all_scores = evaluation.scores([candidate.params for candidate in batch])
        proposals.use_objectives(evaluation.objectives)
        for candidate, scores in zip(batch, all_scores, strict=True):
            candidate.report(scores, 1)
            proposals.finish(candidate)

    def _halve(self, evaluation: Evaluation, proposals: Proposals, batch: list[Candidate]) -> None:
        """Evaluates the batch with rising resources, and only its best with the whole resource."""
        alive = batch
        # A small batch starts with more: the last of it gets the whole resource in as few steps as its halving needs.
        needed = 1 + math.floor(math.log(len(batch), self.factor) + 1e-9)
        resources = self.n_resources_[-needed:]
        for resource in resources:
            all_scores = self._scores_with(evaluation, alive, resource)
            proposals.use_objectives(evaluation.objectives)
            for candidate, scores in zip(alive, all_scores, strict=True):
                candidate.report(scores, resource)
                if candidate.failure:
                    proposals.finish(candidate)
            (objective,) = evaluation.objectives or ("",)
            ranked = sorted(
                (candidate for candidate in alive if not candidate.failure),
                key=lambda candidate: -candidate.reports[-1][1][objective],
            )
            n_kept = len(ranked) if resource == resources[-1] else math.ceil(len(alive) / self.factor)
            alive = ranked[:n_kept]
            for candidate in ranked[n_kept:]:
                proposals.finish(candidate, stopped=True)
            if not alive:
                return
        for candidate in alive:
            proposals.finish(candidate)

    def _scores_with(self, evaluation: Evaluation, candidates: list[Candidate], resource: int) -> list[Scores | None]:
        columns = {"n_resources": resource, "iter": self.n_resources_.index(resource)}
        params = [candidate.params for candidate in candidates]
        if self.resource is None or self.resource == "n_samples":
            scores = evaluation.scores(params, columns, n_samples=resource)
        else:
            scores = evaluation.scores([{**each, self.resource: resource} for each in params], columns)
        if evaluation.objectives is not None and len(evaluation.objectives) > 1:
            raise ValueError(
                "early stopping compares candidates by one score: with several scorers, refit has to name one of "
                f"{', '.join(evaluation.objectives)}"
            )
        return scores

    def _set_resources(self, n_samples: int, n_splits: int, y: Any) -> None:
        assert self.resource is not None
        is_samples = self.resource == "n_samples"
        if not is_samples and self.resource not in self.estimator.get_params():
            raise ValueError(
                f'resource={self.resource!r} is neither "n_samples" nor a parameter of {type(self.estimator).__name__}'
            )
        if len(self._expected_objectives()) > 1:
            raise ValueError(
                "early stopping compares candidates by one score: with several scorers, refit has to name one of "
                f"{', '.join(self._expected_objectives())}"
            )
        if self.max_resources == "auto":
            if not is_samples:
                raise ValueError(f"resource={self.resource!r} needs max_resources, the whole of it, as a number")
            largest = n_samples
        else:
            largest = int(self.max_resources)
            if is_samples and largest > n_samples:
                raise ValueError(f"max_resources={largest} is above the number of samples, {n_samples}")
        smallest = 1
        if self.min_resources != "smallest":
            smallest = int(self.min_resources)
        elif is_samples:
            smallest = 2 * n_splits
            if y is not None and is_classifier(self.estimator):
                smallest *= len(np.unique(y))
        if smallest > largest:
            raise ValueError(f"min_resources={smallest} is above max_resources={largest}, with n_samples={n_samples}")
        self.min_resources_, self.max_resources_ = smallest, largest
        resources = [largest]
        while largest / self.factor ** len(resources) >= smallest:
            resources.append(int(largest / self.factor ** len(resources)))
        self.n_resources_ = sorted(set(resources))
