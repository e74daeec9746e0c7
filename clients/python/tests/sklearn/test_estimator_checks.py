"""The checks of scikit-learn for estimators: all that RandomizedSearchCV passes."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from scipy.stats import loguniform
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.model_selection import RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from tunesmith.sklearn import TunesmithSearchCV

CASES = {
    "classifier": (RidgeClassifier(), {"alpha": [0.1, 1.0]}),
    "regressor": (Ridge(), {"alpha": loguniform(0.1, 1)}),
    "pipeline": (make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [0.1, 1.0]}),
}


def passed(search: Any) -> set[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {check["check_name"] for check in check_estimator(search, on_fail=None) if check["status"] == "passed"}


@pytest.mark.parametrize("case", CASES)
def test_it_passes_what_the_random_search_passes(case: str) -> None:
    estimator, distributions = CASES[case]
    options: dict[str, Any] = {"n_iter": 2, "cv": 2, "random_state": 0}
    expected = passed(RandomizedSearchCV(estimator, distributions, **options))
    assert len(expected) > 30
    assert expected - passed(TunesmithSearchCV(estimator, distributions, **options)) == set()
    halving = TunesmithSearchCV(estimator, distributions, resource="n_samples", min_resources=4, **options)
    assert expected - passed(halving) == set()
