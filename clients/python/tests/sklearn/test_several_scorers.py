"""Several scorers: the one of `refit` is the objective, or all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import uniform

from sklearn_estimators import DATA, Bowl
from tunesmith.sklearn import TunesmithSearchCV

SPACE = {"x": uniform(-5, 10)}
POINTS = [{"x": -4.0}, {"x": 4.0}]


@pytest.fixture
def data() -> tuple[Any, Any]:
    """Samples and classes."""
    return DATA


def low(estimator: Any, x: Any, y: Any) -> float:
    return float(-((estimator.x + 2) ** 2))


def high(estimator: Any, x: Any, y: Any) -> float:
    return float(-((estimator.x - 2) ** 2))


def both(estimator: Any, x: Any, y: Any) -> dict[str, float]:
    return {"low": low(estimator, x, y), "high": high(estimator, x, y)}


def nearest_to_zero(results: dict[str, Any]) -> int:
    return int(np.argmin([abs(params["x"]) for params in results["params"]]))


def fit(data: Any, **options: Any) -> TunesmithSearchCV:
    search = TunesmithSearchCV(Bowl(), SPACE, n_iter=16, cv=2, random_state=0, **options)
    search.fit(*data)
    return search


@pytest.mark.parametrize("scoring", [{"low": low, "high": high}, both], ids=["dict", "function"])
@pytest.mark.parametrize(("refit", "best"), [("low", -2), ("high", 2)])
def test_refit_names_the_objective(data: Any, scoring: Any, refit: str, best: float) -> None:
    search = fit(data, scoring=scoring, refit=refit)
    assert search.best_params_["x"] == pytest.approx(best, abs=0.1)
    assert search.best_score_ == search.cv_results_[f"mean_test_{refit}"].max()
    found = np.array([params["x"] for params in search.cv_results_["params"]])
    assert (abs(found - best) < 1).sum() > (abs(found + best) < 1).sum()


@pytest.mark.parametrize("scoring", [{"low": low, "high": high}, both], ids=["dict", "function"])
@pytest.mark.parametrize("refit", [False, nearest_to_zero], ids=["no refit", "function"])
def test_otherwise_the_search_looks_for_trade_offs(data: Any, scoring: Any, refit: Any) -> None:
    search = fit(data, scoring=scoring, refit=refit)
    found = np.array([params["x"] for params in search.cv_results_["params"]])
    # All from -2 to 2 are optimal trade-offs; a random search would have 40% of its points there.
    inside = found[(found >= -2.2) & (found <= 2.2)]
    assert len(inside) >= 10
    assert (inside < 0).any()
    assert (inside > 0).any()
    if refit is False:
        assert not hasattr(search, "best_index_")
    else:
        assert search.best_index_ == nearest_to_zero(search.cv_results_)
        assert abs(search.best_params_["x"]) < 1


def test_a_function_of_one_score_with_a_function_that_chooses(data: Any) -> None:
    search = fit(data, scoring=high, refit=nearest_to_zero)
    assert search.best_index_ == nearest_to_zero(search.cv_results_)
    assert max(search.cv_results_["mean_test_score"]) > -0.01


def test_refit_has_to_name_a_scorer(data: Any) -> None:
    with pytest.raises(ValueError, match="refit='middle' is not one of the scorers low, high"):
        fit(data, scoring=both, refit="middle")
    with pytest.raises(ValueError, match="For multi-metric scoring, the parameter refit must be set to a scorer key"):
        fit(data, scoring={"low": low, "high": high}, refit="middle")
    with pytest.raises(ValueError, match="For multi-metric scoring, the parameter refit must be set to a scorer key"):
        fit(data, scoring={"low": low, "high": high})
    with pytest.raises(ValueError, match="For multi-metric scoring, the parameter refit must be set to a scorer key"):
        fit(data, scoring=both)
