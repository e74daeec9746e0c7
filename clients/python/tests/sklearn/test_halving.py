"""Early stopping by successive halving."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.stats import loguniform, uniform
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from sklearn_estimators import Bowl, Fussy, Recorder
from tunesmith.sklearn import TunesmithSearchCV


def fit(data: Any, estimator: Any = None, space: Any = None, **options: Any) -> TunesmithSearchCV:
    options = {"n_iter": 9, "cv": 2, "random_state": 0} | options
    search = TunesmithSearchCV(estimator or Bowl(), space or {"x": uniform(0, 1)}, **options)
    search.fit(*data)
    return search


@pytest.fixture
def samples() -> tuple[Any, Any]:
    """Ninety samples."""
    return np.arange(90.0).reshape(-1, 1), np.arange(90) % 2


def test_few_candidates_get_the_whole_resource(samples: Any) -> None:
    search = fit(samples, resource="n_samples", min_resources=10)
    results = search.cv_results_
    assert search.n_resources_ == [10, 30, 90]
    assert (search.min_resources_, search.max_resources_) == (10, 90)
    assert results["n_resources"].tolist() == [10] * 9 + [30] * 3 + [90]
    assert results["iter"].tolist() == [0] * 9 + [1] * 3 + [2]
    # The best go on.
    scores = results["mean_test_score"]
    points = [params["x"] for params in results["params"]]
    best = sorted(range(9), key=lambda index: -scores[index])
    assert points[9:12] == [points[index] for index in best[:3]]
    assert points[12] == points[best[0]]
    assert search.best_index_ == 12


def test_training_parts_have_their_share_of_the_samples(samples: Any) -> None:
    search = fit(samples, Recorder(), resource="n_samples", min_resources=10, cv=3)
    results = search.cv_results_
    # Two thirds of the samples are the training part.
    assert results["mean_test_score"].tolist() == [pytest.approx(n * 2 / 3, abs=0.5) for n in results["n_resources"]]
    assert search.best_estimator_.n_samples_ == 90


def test_a_parameter_is_the_resource(samples: Any) -> None:
    search = fit(samples, resource="resource", min_resources=2, max_resources=16, factor=2, n_iter=8)
    results = search.cv_results_
    assert search.n_resources_ == [2, 4, 8, 16]
    assert results["n_resources"].tolist()[:7] == [4] * 4 + [8] * 2 + [16]
    assert [params["resource"] for params in results["params"]] == results["n_resources"].tolist()
    assert search.best_params_["resource"] == search.best_estimator_.resource == 16


def test_batches_learn_from_earlier_ones(samples: Any) -> None:
    search = fit(samples, resource="n_samples", min_resources=10, n_iter=27, space={"x": uniform(-20, 40)})
    results = search.cv_results_
    assert (results["n_resources"] == 90).sum() == 3
    firsts = [params["x"] for params, n in zip(results["params"], results["n_resources"], strict=True) if n == 10]
    assert len(set(firsts)) == len(firsts) == 27
    errors = np.abs(np.array(firsts) - 0.3)
    assert min(errors[:9]) > 0.2
    assert min(errors[18:]) < 0.01
    assert search.best_score_ > -0.0001


def test_a_batch_that_is_small_starts_with_more(samples: Any) -> None:
    search = fit(samples, resource="n_samples", min_resources=10, n_iter=4, batch_size=3)
    assert search.cv_results_["n_resources"].tolist() == [30] * 3 + [90] * 2
    large = fit(samples, resource="n_samples", min_resources=2, n_iter=27, batch_size=27)
    assert large.cv_results_["n_resources"].tolist() == [3] * 27 + [10] * 9 + [30] * 3 + [90]


def test_best_score_is_one_of_the_whole_resource(samples: Any) -> None:
    class Deceptive(Bowl):
        def score(self, x: Any, y: Any = None) -> float:
            return super().score(x, y) + 100 / self.n_samples_

    search = fit(samples, Deceptive(), resource="n_samples", min_resources=10, n_iter=18)
    results = search.cv_results_
    assert results["n_resources"][search.best_index_] == 90
    assert search.best_score_ < results["mean_test_score"].max()
    assert search.best_score_ == results["mean_test_score"][results["n_resources"] == 90].max()


def test_the_smallest_resource_by_default(samples: Any) -> None:
    # Twice the folds; for a classifier times the classes.
    assert fit(samples, resource="n_samples").min_resources_ == 4
    assert fit(samples, SVC(), {"C": loguniform(0.1, 10)}, resource="n_samples").min_resources_ == 8
    assert fit(samples, resource="resource", max_resources=9).min_resources_ == 1


def test_failures_leave_the_batch(samples: Any) -> None:
    space = {"kind": ["broken", "a", "b", "c", "d", "e", "half", "unscorable", "f"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = fit(samples, Fussy(), space, resource="n_samples", min_resources=10, batch_size=9)
    results = search.cv_results_
    assert results["n_resources"].tolist() == [10] * 9 + [30] * 3 + [90]
    assert search.best_params_ == {"kind": "b"}


def test_a_batch_may_fail_as_a_whole(samples: Any) -> None:
    points = [{"kind": "broken", "x": x} for x in (0.1, 0.2, 0.3)]
    space = {"kind": ["broken", "b"], "x": uniform(0, 1)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = fit(
            samples,
            Fussy(),
            space,
            resource="n_samples",
            min_resources=10,
            batch_size=3,
            n_iter=9,
            initial_params=points,
        )
    results = search.cv_results_
    assert results["n_resources"][:3].tolist() == [30] * 3
    assert np.isnan(results["mean_test_score"][:3]).all()
    assert results["iter"].tolist() == [search.n_resources_.index(n) for n in results["n_resources"]]
    assert search.best_params_["kind"] == "b"


def test_it_saves_samples_on_real_data() -> None:
    x, y = load_digits(return_X_y=True)
    space = {"C": loguniform(1e-3, 1e3), "gamma": loguniform(1e-6, 1)}
    halving = fit((x, y), SVC(), space, resource="n_samples", min_resources=100, n_iter=27, cv=3)
    whole = fit((x, y), SVC(), space, n_iter=27, cv=3)
    assert halving.best_score_ > whole.best_score_ - 0.01
    assert sum(halving.cv_results_["n_resources"]) < 0.4 * 27 * len(x)


def by_size(estimator: Any, x: Any, y: Any) -> dict[str, float]:
    return {"bowl": estimator.score(x), "size": -float(estimator.n)}


def test_several_scorers_need_one_objective(samples: Any) -> None:
    search = fit(samples, resource="n_samples", scoring=by_size, refit="bowl")
    assert search.best_score_ == search.cv_results_["mean_test_bowl"][search.best_index_]
    for scoring in (by_size, {"one": "accuracy", "two": "f1"}):
        with pytest.raises(ValueError, match=r"with several scorers, refit has to name one of (bowl, size|one, two)"):
            fit(samples, resource="n_samples", scoring=scoring, refit=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resource": "epochs"}, "resource='epochs' is neither \"n_samples\" nor a parameter of Bowl"),
        ({"resource": "resource"}, "resource='resource' needs max_resources, the whole of it, as a number"),
        ({"resource": "x", "max_resources": 9}, "resource='x' is among the searched parameters"),
        ({"resource": "n_samples", "max_resources": 91}, "max_resources=91 is above the number of samples, 90"),
        (
            {"resource": "n_samples", "min_resources": 95},
            "min_resources=95 is above max_resources=90, with n_samples=90",
        ),
    ],
    ids=str,
)
def test_wrong_resources_are_refused(samples: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(samples, **options)


def test_part_of_the_samples_may_be_the_whole_resource(samples: Any) -> None:
    search = fit(samples, Recorder(), resource="n_samples", min_resources=5, max_resources=45)
    assert search.n_resources_ == [5, 15, 45]
    assert search.best_score_ == pytest.approx(45 / 2, abs=1)


def test_equal_seeds_use_equal_samples(samples: Any) -> None:
    class Mean(Bowl):
        def fit(self, x: Any, y: Any = None) -> Any:
            self.mean_ = x.mean()
            return self

        def score(self, x: Any, y: Any = None) -> float:
            return float(self.mean_)

    first, second, third = (
        fit(samples, Mean(), resource="n_samples", random_state=seed).cv_results_["mean_test_score"].tolist()
        for seed in (0, 0, 1)
    )
    assert first == second
    assert first != third
