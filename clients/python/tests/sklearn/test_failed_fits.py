"""Fits that fail: a candidate that fails is a row, and not the end of the search."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from scipy.stats import uniform
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import RandomizedSearchCV

from sklearn_estimators import DATA, Fussy
from tunesmith.sklearn import TunesmithSearchCV

KINDS = ["broken", "a", "b"]


@pytest.fixture
def data() -> tuple[Any, Any]:
    """Samples and classes."""
    return DATA


def fit(data: Any, kinds: list[str], **options: Any) -> tuple[TunesmithSearchCV, list[warnings.WarningMessage]]:
    """Returns a search that tries the kinds in this order, and its warnings."""
    options = {"n_iter": len(kinds), "cv": 2, "random_state": 0} | options
    search = TunesmithSearchCV(Fussy(), {"kind": kinds}, initial_params=[{"kind": kind} for kind in kinds], **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(*data)
    return search, caught


@pytest.mark.parametrize("order", [["broken", "a", "b"], ["a", "broken", "b"], ["a", "b", "broken"]], ids=str)
@pytest.mark.parametrize("options", [{}, {"n_jobs": 2}, {"batch_size": 3}], ids=str)
def test_a_failed_candidate_is_a_row(data: Any, order: list[str], options: dict[str, Any]) -> None:
    search, caught = fit(data, order, return_train_score=True, **options)
    results = search.cv_results_
    assert [params["kind"] for params in results["params"]] == order
    assert list(results["param_kind"]) == order
    failed = order.index("broken")
    for column in ("mean_test_score", "split0_test_score", "split1_test_score", "mean_train_score"):
        assert np.flatnonzero(np.isnan(results[column])).tolist() == [failed]
    assert results["rank_test_score"][failed] == 3
    assert results["mean_fit_time"][failed] >= 0
    assert results["mean_score_time"][failed] == 0
    assert search.best_params_ == {"kind": "b"}
    kinds = [warning.category for warning in caught]
    assert kinds.count(FitFailedWarning) == 1
    (text,) = (str(warning.message) for warning in caught if warning.category is FitFailedWarning)
    assert "RuntimeError: kind broken cannot be fitted" in text
    # For test and train scores, once each.
    assert sum("scores are non-finite" in str(warning.message) for warning in caught) == 2


def test_the_rows_are_those_of_the_random_search(data: Any) -> None:
    search, _ = fit(data, KINDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        random = RandomizedSearchCV(Fussy(), {"kind": KINDS}, n_iter=3, cv=2, random_state=0).fit(*data)

    def rows(results: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
        columns = [name for name in results if "time" not in name and name != "params"]
        return {
            params["kind"]: tuple(str(results[name][index]) for name in columns)
            for index, params in enumerate(results["params"])
        }

    assert rows(search.cv_results_) == rows(random.cv_results_)


def test_a_candidate_that_fails_in_some_folds(data: Any) -> None:
    search, caught = fit(data, ["half", "b"])
    scores = search.cv_results_["mean_test_score"]
    assert math.isnan(scores[0])
    assert np.isnan([search.cv_results_[f"split{fold}_test_score"][0] for fold in range(2)]).sum() == 1
    assert sum(warning.category is FitFailedWarning for warning in caught) == 1


def test_a_score_that_is_not_a_number(data: Any) -> None:
    search, caught = fit(data, ["unscorable", "a", "b"])
    assert math.isnan(search.cv_results_["mean_test_score"][0])
    assert search.best_params_ == {"kind": "b"}
    assert [warning.category for warning in caught] == [UserWarning]


def test_a_number_as_error_score(data: Any) -> None:
    search, _ = fit(data, KINDS, error_score=-7)
    assert search.cv_results_["mean_test_score"][0] == -7
    assert search.cv_results_["std_test_score"][0] == 0


def test_errors_are_raised_on_request(data: Any) -> None:
    with pytest.raises(RuntimeError, match="kind broken cannot be fitted"):
        fit(data, KINDS, error_score="raise")


def test_all_candidates_fail(data: Any) -> None:
    search = TunesmithSearchCV(Fussy(kind="broken"), {"x": [1.0, 2.0, 3.0]}, n_iter=3, cv=2, random_state=0)
    with (
        pytest.warns(FitFailedWarning) as caught,
        pytest.raises(ValueError, match=r"All the 2 fits failed(.|\n)*cannot be"),
    ):
        search.fit(*data)
    assert len(caught) == 3
    assert not hasattr(search, "cv_results_")


def test_other_errors_are_not_taken_for_failed_fits(data: Any) -> None:
    search = TunesmithSearchCV(Fussy(), {"unknown": [1, 2]}, cv=2)
    with pytest.raises(ValueError, match="Invalid parameter 'unknown'"):
        search.fit(*data)


def scores_by_name(estimator: Any, x: Any, y: Any) -> dict[str, float]:
    return {"bowl": estimator.score(x), "size": -float(estimator.n)}


@pytest.mark.parametrize("order", [["broken", "a", "b"], ["a", "b", "broken"]], ids=str)
def test_failures_with_several_scorers(data: Any, order: list[str]) -> None:
    search, _ = fit(data, order, scoring=scores_by_name, refit="bowl", return_train_score=True)
    for column in ("mean_test_bowl", "mean_test_size", "mean_train_bowl"):
        assert np.flatnonzero(np.isnan(search.cv_results_[column])).tolist() == [order.index("broken")]
    assert search.best_params_ == {"kind": "b"}


def test_the_search_avoids_what_fails(data: Any) -> None:
    space = {"kind": ["broken", "b"], "x": uniform(-5, 10)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = TunesmithSearchCV(Fussy(), space, n_iter=30, cv=2, random_state=0).fit(*data)
    kinds = [params["kind"] for params in search.cv_results_["params"]]
    assert kinds.count("broken") <= 8
    assert kinds[-10:].count("broken") <= 1
