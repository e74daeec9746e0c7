"""The forms of `param_distributions`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import optuna
import pytest
import scipy.stats
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from scipy.stats import loguniform, norm, poisson, randint, uniform
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import tunesmith
from sklearn_estimators import DATA, Bowl
from tunesmith.sklearn import TunesmithSearchCV


@pytest.fixture
def data() -> tuple[Any, Any]:
    """Samples and classes."""
    return DATA


def values(distribution: Any, data: Any, count: int = 20, **options: Any) -> list[Any]:
    """Returns the values that a search tries for a parameter."""
    search = TunesmithSearchCV(
        Bowl(), {"kind": distribution}, n_iter=count, cv=2, random_state=0, batch_size=5, **options
    ).fit(*data)
    return [params["kind"] for params in search.cv_results_["params"]]


@pytest.mark.parametrize(
    ("distribution", "low", "high", "kind"),
    [
        (uniform(2, 3), 2, 5, float),
        (uniform(loc=-1, scale=2), -1, 1, float),
        (loguniform(1e-3, 1e2), 1e-3, 1e2, float),
        (scipy.stats.reciprocal(1e-3, 1e2), 1e-3, 1e2, float),
        (randint(3, 30), 3, 29, int),
        (randint(0, 2**31), 0, 2**31 - 1, int),
        (norm(10, 1), 6.9, 13.1, float),
        (scipy.stats.beta(2, 5), 0, 1, float),
        (poisson(4), 0, 14, int),
        (poisson(100_000), 99_000, 101_000, int),
        (scipy.stats.norm, -3.1, 3.1, float),
        (FloatDistribution(1e-3, 10, log=True), 1e-3, 10, float),
        (FloatDistribution(-1, 1), -1, 1, float),
        (IntDistribution(1, 1000, log=True), 1, 1000, int),
        (IntDistribution(-5, 50), -5, 50, int),
        (tunesmith.double("kind", 0.5, 2), 0.5, 2, float),
        (tunesmith.integer("kind", 1, 100, scale="log"), 1, 100, int),
    ],
    ids=lambda value: None if isinstance(value, type) else str(value),
)
def test_ranges(data: Any, distribution: Any, low: float, high: float, kind: type) -> None:
    # A log scale of optuna begins at 1 for integers, and all values are plain numbers.
    found = values(distribution, data, 12)
    assert {type(value) for value in found} == {kind}
    assert all(low <= value <= high for value in found)
    assert len(set(found)) == 12
    assert max(found) - min(found) > 0.3 * (high - low)


@pytest.mark.parametrize("distribution", [loguniform(1e-4, 1e4), FloatDistribution(1e-4, 1e4, log=True)], ids=str)
def test_log_ranges_are_searched_by_orders_of_magnitude(data: Any, distribution: Any) -> None:
    found = sorted(values(distribution, data))
    assert 5 <= sum(value < 1 for value in found) <= 15


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        (randint(2, 6), [2, 3, 4, 5]),
        (randint(2, 6, loc=10), [12, 13, 14, 15]),
        (scipy.stats.binom(2, 0.5), [0, 1, 2]),
        (scipy.stats.rv_discrete(values=([1, 4, 9], [0.2, 0.3, 0.5])), [1, 4, 9]),
        (IntDistribution(1, 9, step=4), [1, 5, 9]),
        (FloatDistribution(0.1, 0.5, step=0.1), [0.1, 0.2, 0.3, 0.4, 0.5]),
        (tunesmith.discrete("kind", [1, 4, 9]), [1, 4, 9]),
        (np.array([0.5, 1.5]), [0.5, 1.5]),
        (range(3), [0, 1, 2]),
        ([5, 1, 5, 1.0, 3], [1, 3, 5]),
        ([7], [7]),
        (FloatDistribution(2, 2), [2.0]),
        (CategoricalDistribution([4, "b", None]), [4, "b", None]),
    ],
    ids=str,
)
def test_finite_spaces_are_used_up_without_repetition(data: Any, distribution: Any, expected: list[Any]) -> None:
    with pytest.warns(
        UserWarning, match=f"no further points: {len(expected)} candidates were evaluated, fewer than n_i"
    ):
        found = values(distribution, data)
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_objects_are_given_back_themselves(data: Any) -> None:
    def function() -> None:
        pass

    array, scaler = np.array([1, 2]), StandardScaler()
    objects = [None, True, False, 1, 1.5, "True", "1", (1, 2), (1, "2"), function, array, scaler, math.nan, {"a": 1}]
    with pytest.warns(UserWarning, match="no further points: 14 candidates"):
        found = values(objects, data, 30)
    assert {id(value) for value in found} == {id(value) for value in objects}


def test_estimators_are_values(data: Any) -> None:
    pipeline = Pipeline([("scale", StandardScaler()), ("model", Ridge())])
    scalers = [StandardScaler(), MinMaxScaler(), "passthrough"]
    search = TunesmithSearchCV(
        pipeline, {"scale": scalers, "model__alpha": loguniform(0.1, 10)}, n_iter=9, cv=2, random_state=0
    ).fit(*data)
    found = [params["scale"] for params in search.cv_results_["params"]]
    assert {id(value) for value in found} == {id(value) for value in scalers}
    assert isinstance(search.best_estimator_["scale"], (type(search.best_params_["scale"]), str))
    assert not hasattr(scalers[0], "mean_"), "candidates are fitted as clones"


def test_long_lists(data: Any) -> None:
    numbers = list(np.geomspace(1, 1e6, 3000))
    found = values(numbers, data, 10)
    assert set(found) <= set(numbers)
    assert max(found) > 1e4
    texts = [f"text {index}" for index in range(2000)]
    assert set(values(texts, data, 10)) <= set(texts)


def test_a_list_of_dicts_is_a_choice(data: Any) -> None:
    space = [
        {"kind": ["a"], "x": uniform(0, 1)},
        {"kind": ["b"], "n": randint(1, 5), "x": [10.0, 20.0]},
        {"n": [99]},
    ]
    search = TunesmithSearchCV(Bowl(), space, n_iter=30, cv=2, random_state=0).fit(*data)
    kinds = {"a": set(), "b": set(), None: set()}  # type: ignore[var-annotated]
    for params in search.cv_results_["params"]:
        kinds[params.get("kind")].add(tuple(params))
        if params.get("kind") == "b":
            assert params["x"] in (10.0, 20.0)
            assert 1 <= params["n"] < 5
    assert kinds == {"a": {("kind", "x")}, "b": {("kind", "n", "x")}, None: {("n",)}}
    assert np.ma.is_masked(search.cv_results_["param_x"])


def test_points_that_two_dicts_have_are_tried_once(data: Any) -> None:
    space = [{"n": [1, 2, 3]}, {"n": [2, 3, 4]}]
    with pytest.warns(UserWarning, match="no further points: 4 candidates"):
        search = TunesmithSearchCV(Bowl(), space, n_iter=10, cv=2, random_state=0, batch_size=3).fit(*data)
    assert sorted(params["n"] for params in search.cv_results_["params"]) == [1, 2, 3, 4]
    assert search.best_params_ == {"n": 4}


def test_conditional_parameters(data: Any) -> None:
    kind = (
        tunesmith.categorical("kind", ["a", "b"])
        .when("a", tunesmith.double("x", 0, 1))
        .when("b", tunesmith.integer("n", 1, 20), tunesmith.double("x", 5, 6))
    )
    for space in ({"kind": kind, "resource": [1, 2]}, [kind, tunesmith.integer("resource", 1, 2)]):
        search = TunesmithSearchCV(Bowl(), space, n_iter=20, cv=2, random_state=0).fit(*data)
        for params in search.cv_results_["params"]:
            names = {"kind", "x", "resource"} if params["kind"] == "a" else {"kind", "x", "n", "resource"}
            assert set(params) == names
            assert (params["x"] <= 1) == (params["kind"] == "a")
        assert {params["kind"] for params in search.cv_results_["params"]} == {"a", "b"}


def test_the_search_uses_the_order_of_numbers(data: Any) -> None:
    # 1000 numbers, of which the model finds the best by their distances.
    space = {"x": list(np.linspace(-5, 5, 1000))}
    search = TunesmithSearchCV(Bowl(), space, n_iter=15, cv=2, random_state=0).fit(*data)
    assert abs(search.best_params_["x"] - 0.3) < 0.02


@pytest.mark.parametrize(
    ("space", "error", "message"),
    [
        ({"x": []}, ValueError, r"param_distributions\['x'\] has no values"),
        ([], ValueError, "param_distributions is empty"),
        ({"x": "abc"}, TypeError, r"param_distributions\['x'\]: 'abc' is not a list of values"),
        ({"x": 3}, TypeError, "3 is not a list of values"),
        ({"x": np.zeros((2, 2))}, TypeError, "is not a list of values"),
        ({3: [1]}, ValueError, "3 is not the name of a parameter"),
        ({"x": scipy.stats.multivariate_normal([0, 0])}, TypeError, "multivariate_normal_frozen has no quantile"),
        ({"x": np.random.default_rng}, TypeError, "is not a list of values"),
        ({"x": tunesmith.double("y", 0, 1)}, ValueError, "the parameter has another name, 'y'"),
        ([tunesmith.double("x", 0, 1), {"n": [1]}], TypeError, "is not a dictionary; a list has either"),
        ([tunesmith.double("x", 0, 1)] * 2, ValueError, "parameter 'x' is defined twice"),
        (
            {"x": [1], "kind": tunesmith.categorical("kind", ["a"]).when("a", tunesmith.double("x", 0, 1))},
            ValueError,
            "parameter 'x' is defined twice",
        ),
        (
            {"x": uniform(3, 0)},
            ValueError,
            r"param_distributions\['x'\]: scipy.stats.uniform\(3, 0\) is no distribution",
        ),
        ({"x": loguniform(a=-1, b=1)}, ValueError, r"\(a=-1, b=1\) is no distribution"),
        ({"x": randint(5, 5)}, ValueError, r"scipy.stats.randint\(5, 5\) is no distribution"),
        ({"x": randint(0, 2**60)}, ValueError, r"param_distributions\['x'\]: whole numbers are limited"),
    ],
    ids=lambda value: None if isinstance(value, type) else str(value)[:40],
)
def test_other_spaces_are_refused(data: Any, space: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        TunesmithSearchCV(Bowl(), space, cv=2).fit(*data)


def test_an_empty_dict_is_the_estimator_as_it_is(data: Any) -> None:
    with pytest.warns(UserWarning, match="no further points: 1 candidates"):
        search = TunesmithSearchCV(Bowl(), {}, cv=2).fit(*data)
    assert search.cv_results_["params"] == [{}]


def test_initial_points_come_first(data: Any) -> None:
    scaler = StandardScaler()
    space = {
        "x": uniform(0, 1),
        "n": [1, 3, 7],
        "kind": [None, scaler, PCA()],
        "resource": norm(10, 1),
    }
    points = [
        {"x": 0.25, "n": 7, "kind": scaler, "resource": 9.5},
        {"n": 3.0},
        {"kind": None, "x": 1},
    ]
    search = TunesmithSearchCV(Bowl(), space, n_iter=6, cv=2, random_state=0, initial_params=points, batch_size=2)
    found = search.fit(*data).cv_results_["params"]
    assert len(found) == 6
    assert found[0] == points[0]
    assert found[0]["kind"] is scaler
    assert found[1]["n"] == 3
    assert set(found[1]) == set(space)
    assert (found[2]["kind"], found[2]["x"]) == (None, 1)


def test_the_search_learns_from_initial_points(data: Any) -> None:
    points = [{"x": 0}, {"x": 1}]
    search = TunesmithSearchCV(
        Bowl(), {"x": uniform(-50, 100)}, n_iter=12, cv=2, random_state=0, initial_params=points
    ).fit(*data)
    # Random points of so wide a range are not this near.
    assert search.best_score_ > -0.01


@pytest.mark.parametrize(
    ("space", "point", "message"),
    [
        ({"x": uniform(0, 1)}, {"y": 1}, r"initial_params\[1\]: 'y' is not among the parameters x"),
        ({"x": uniform(0, 1)}, {"x": 1.5}, r"initial_params\[1\]: 'x': 1.5 is not a number from 0 to 1"),
        ({"x": uniform(0, 1)}, {"x": "a"}, "'x': 'a' is not a number from 0 to 1"),
        ({"x": uniform(0, 1)}, {"x": True}, "'x': True is not a number from 0 to 1"),
        ({"x": randint(0, 10)}, {"x": 2.5}, "'x': 2.5 is not a whole number"),
        ({"x": [1, 2, 3]}, {"x": 4}, "'x': 4 is not one of the values 1, 2, 3"),
        ({"x": ["a", None]}, {"x": "b"}, "'x': 'b' is not one of the values 'a', None"),
        ({"x": ["a"]}, {"x": "b"}, "'x': 'b' is not one of the values 'a'"),
        ({"x": norm()}, {"x": 40}, "'x': 40 is not a number from -3.09023 to 3.09023"),
        ({"x": FloatDistribution(0, 1, step=0.25)}, {"x": 0.3}, "'x': 0.3 is not 0.0 plus a multiple of the step 0.25"),
        ([{"x": [1, 2]}, {"n": [1, 2]}], {"x": 1, "n": 1}, "'n' is not among the parameters x; 'x' is not among"),
        ({"x": tunesmith.double("x", 0, 1)}, {"x": 7}, r"initial_params\[1\]: parameters: .* outside the search space"),
        (
            [tunesmith.categorical("kind", ["a", "b"]).when("a", tunesmith.double("x", 0, 1))],
            {"kind": "b", "x": 0.5},
            r"initial_params\[1\]: .*\"x\" is not a parameter of the study, or does not exist for these values",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_initial_points_outside_the_space_are_refused(data: Any, space: Any, point: Any, message: str) -> None:
    search = TunesmithSearchCV(Bowl(), space, cv=2, initial_params=[{}, point], random_state=0)
    with pytest.raises(ValueError, match=message):
        search.fit(*data)


def test_more_initial_points_than_candidates_are_refused(data: Any) -> None:
    search = TunesmithSearchCV(Bowl(), {"x": uniform(0, 1)}, cv=2, n_iter=2, initial_params=[{"x": 0.1}] * 3)
    with pytest.raises(ValueError, match="initial_params has 3 points, more than n_iter=2"):
        search.fit(*data)
    with pytest.raises(TypeError, match=r"initial_params\[0\]: 3 is not a dictionary"):
        search.set_params(initial_params=[3]).fit(*data)


def test_a_repeated_initial_point_is_skipped_with_a_warning(data: Any) -> None:
    search = TunesmithSearchCV(
        Bowl(), {"x": uniform(0, 1)}, cv=2, n_iter=3, initial_params=[{"x": 0.1}, {"x": 0.1}], random_state=0
    )
    with pytest.warns(UserWarning, match=r"initial_params\[1\] repeats an earlier point"):
        search.fit(*data)
    found = [params["x"] for params in search.cv_results_["params"]]
    assert len(set(found)) == len(found) == 3


@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")
def test_older_distributions_of_optuna(data: Any) -> None:
    from optuna.distributions import DiscreteUniformDistribution, IntLogUniformDistribution

    assert all(1 <= value <= 100 for value in values(IntLogUniformDistribution(1, 100), data, 5))
    assert set(values(DiscreteUniformDistribution(0, 1, q=0.25), data, 5)) == {0.0, 0.25, 0.5, 0.75, 1.0}


def test_distributions_of_optuna_are_those_that_it_has() -> None:
    # A new kind has to be added here: others are refused by name.
    base = optuna.distributions.BaseDistribution
    kinds = {kind.__name__ for kind in base.__subclasses__()}
    assert kinds == {"FloatDistribution", "IntDistribution", "CategoricalDistribution"}
