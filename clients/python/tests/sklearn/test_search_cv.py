"""`TunesmithSearchCV` as a search of scikit-learn."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pandas
import pytest
from scipy.stats import loguniform, randint, uniform
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, KFold, RandomizedSearchCV, ShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import sklearn
from sklearn_estimators import DATA, Bowl
from tunesmith.sklearn import TunesmithSearchCV

SPACE = {"x": uniform(0, 1), "n": randint(1, 20), "kind": ["a", "b", "c"]}


@pytest.fixture
def data() -> tuple[Any, Any]:
    """Samples and classes."""
    return DATA


def candidates(search: Any) -> list[dict[str, Any]]:
    params: list[dict[str, Any]] = search.cv_results_["params"]
    return params


def test_it_finds_more_than_a_random_search(data: Any) -> None:
    scores = {}
    for kind in (TunesmithSearchCV, RandomizedSearchCV):
        scores[kind] = [
            kind(Bowl(), SPACE, n_iter=25, cv=2, random_state=seed).fit(*data).best_score_ for seed in range(5)
        ]
    assert min(scores[TunesmithSearchCV]) > -0.01
    assert np.median(scores[TunesmithSearchCV]) > np.max(scores[RandomizedSearchCV])


def test_on_real_data_it_beats_the_random_search() -> None:
    x, y = load_digits(return_X_y=True)
    space = {"C": loguniform(1e-3, 1e3), "gamma": loguniform(1e-6, 1)}
    ours = TunesmithSearchCV(SVC(), space, n_iter=12, cv=3, random_state=0).fit(x[:600], y[:600])
    random = RandomizedSearchCV(SVC(), space, n_iter=12, cv=3, random_state=0).fit(x[:600], y[:600])
    assert ours.best_score_ >= random.best_score_
    assert ours.best_score_ > 0.9
    assert ours.score(x[600:], y[600:]) > 0.9


@pytest.mark.parametrize(
    "options",
    [{}, {"return_train_score": True}, {"scoring": ["accuracy", "f1_macro"], "refit": "f1_macro"}, {"refit": False}],
    ids=["default", "train scores", "several scorers", "no refit"],
)
def test_results_have_the_form_of_the_random_search(options: dict[str, Any]) -> None:
    x, y = load_iris(return_X_y=True)
    space = {"C": loguniform(1e-2, 1e2), "fit_intercept": [True, False]}
    searches = [
        kind(LogisticRegression(max_iter=1000), space, n_iter=4, cv=3, random_state=1, **options).fit(x, y)
        for kind in (TunesmithSearchCV, RandomizedSearchCV)
    ]
    ours, random = (
        {name: np.ma.asarray(column) for name, column in s.cv_results_.items() if name != "params"} for s in searches
    )
    assert list(ours) == list(random)
    assert {name: (column.shape, column.dtype) for name, column in ours.items()} == {
        name: (column.shape, column.dtype) for name, column in random.items()
    }
    attributes = [{name for name in vars(s) if name.endswith("_") and not name.startswith("_")} for s in searches]
    assert attributes[0] == attributes[1]
    # The same candidate has the same scores.
    again = RandomizedSearchCV(
        LogisticRegression(max_iter=1000),
        [{name: [value] for name, value in candidates(searches[0])[2].items()}],
        n_iter=1,
        cv=3,
        **options,
    ).fit(x, y)
    name = "mean_test_f1_macro" if "scoring" in options else "mean_test_score"
    assert again.cv_results_[name][0] == searches[0].cv_results_[name][2]


def test_equal_seeds_give_equal_candidates(data: Any) -> None:
    def run(random_state: Any, **options: Any) -> list[dict[str, Any]]:
        return candidates(
            TunesmithSearchCV(Bowl(), SPACE, n_iter=8, cv=2, random_state=random_state, **options).fit(*data)
        )

    first = run(3)
    assert run(3) == first
    assert run(np.random.RandomState(5)) == run(np.random.RandomState(5))
    assert run(4) != first
    assert run(3, batch_size=4) != first
    assert run(3, batch_size=4, n_jobs=2) == run(3, batch_size=4)
    np.random.seed(1)
    unseeded = run(None)
    assert run(None) != unseeded


@pytest.mark.parametrize(
    ("options", "sizes"), [({}, [1] * 5), ({"n_jobs": 2}, [2, 2, 1]), ({"batch_size": 4}, [4, 1])], ids=str
)
def test_candidates_are_chosen_in_batches(data: Any, capfd: Any, options: dict[str, Any], sizes: list[int]) -> None:
    TunesmithSearchCV(Bowl(), SPACE, n_iter=5, cv=2, verbose=1, random_state=0, **options).fit(*data)
    printed = re.findall(r"Fitting 2 folds for each of (\d+) candidates", capfd.readouterr().out)
    assert [int(size) for size in printed] == sizes


def test_nothing_is_printed_by_default(data: Any, capfd: Any) -> None:
    TunesmithSearchCV(Bowl(), SPACE, n_iter=5, cv=2, random_state=0).fit(*data)
    assert tuple(capfd.readouterr()) == ("", "")


def test_no_batch_starts_after_the_timeout(data: Any) -> None:
    search = TunesmithSearchCV(Bowl(), SPACE, n_iter=50, cv=2, random_state=0, timeout=1e-9, batch_size=3).fit(*data)
    assert len(candidates(search)) == 3
    search.set_params(timeout=3600.0, n_iter=5).fit(*data)
    assert len(candidates(search)) == 5


def test_all_candidates_have_the_same_folds(data: Any) -> None:
    for cv in (ShuffleSplit(3), KFold(2, shuffle=True), iter([([0, 1], [2, 3]), ([4, 5, 6], [7, 8])])):
        search = TunesmithSearchCV(
            Ridge(alpha=0.5), {"copy_X": [True, False], "tol": [1e-4, 1e-3, 1e-2]}, n_iter=6, cv=cv, random_state=0
        ).fit(*data)
        scores = search.cv_results_["split1_test_score"]
        assert len(scores) == 6
        assert len(set(scores)) == 1


def test_groups_reach_the_splitter(data: Any) -> None:
    search = TunesmithSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, n_iter=2, cv=GroupKFold(4), random_state=0)
    search.fit(*data, groups=np.arange(20) // 5)
    assert search.n_splits_ == 4
    with pytest.raises(ValueError, match="groups"):
        search.fit(*data)


def test_a_fitted_search_predicts_and_is_pickled() -> None:
    x, y = load_iris(return_X_y=True)
    search = TunesmithSearchCV(
        LogisticRegression(max_iter=1000), {"C": loguniform(0.01, 100)}, n_iter=4, random_state=0
    )
    search.fit(x, y)
    restored = pickle.loads(pickle.dumps(search))
    assert (restored.predict(x) == search.predict(x)).all()
    assert candidates(restored) == candidates(search)
    assert restored.best_params_ == search.best_params_ == candidates(search)[search.best_index_]
    assert list(search.classes_) == [0, 1, 2]
    assert not [name for name in vars(search) if "rows" in name]


def test_clone_and_parameters() -> None:
    search = TunesmithSearchCV(SVC(), {"C": [1, 2]}, n_iter=3, timeout=5.0, initial_params=[{"C": 2}], factor=2)
    copy = clone(search)
    assert copy.get_params(deep=False).keys() == search.get_params(deep=False).keys()
    assert (copy.n_iter, copy.timeout, copy.initial_params, copy.factor) == (3, 5.0, [{"C": 2}], 2)
    assert set(RandomizedSearchCV(SVC(), {}).get_params()) < set(search.get_params())
    copy.set_params(n_iter=2, estimator__kernel="linear")
    assert (copy.n_iter, copy.estimator.kernel, search.estimator.kernel) == (2, "linear", "rbf")


def test_it_is_a_step_of_a_nested_cross_validation() -> None:
    x, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), SVC())
    search = TunesmithSearchCV(pipeline, {"svc__C": loguniform(0.01, 100)}, n_iter=4, cv=2, random_state=0)
    scores = cross_val_score(search, x, y, cv=3)
    assert (scores > 0.9).all()


def test_data_frames_keep_their_names() -> None:
    x, y = load_iris(return_X_y=True, as_frame=True)
    search = TunesmithSearchCV(LogisticRegression(max_iter=1000), {"C": [0.1, 1.0]}, n_iter=2, cv=2, random_state=0)
    search.fit(x, y)
    assert list(search.feature_names_in_) == list(x.columns)
    assert isinstance(pandas.DataFrame(search.cv_results_), pandas.DataFrame)


def test_sample_weights_are_routed_as_in_the_random_search(data: Any) -> None:
    weights = np.linspace(0.01, 5, 20)
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = Ridge().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        space = {"alpha": [0.1, 1.0, 10.0]}
        ours = TunesmithSearchCV(estimator, space, n_iter=3, cv=2, random_state=0).fit(*data, sample_weight=weights)
        random = RandomizedSearchCV(estimator, space, n_iter=3, cv=2, random_state=0).fit(*data, sample_weight=weights)
        plain = TunesmithSearchCV(estimator, space, n_iter=3, cv=2, random_state=0).fit(*data)

        def by_alpha(search: Any) -> dict[float, float]:
            scores = search.cv_results_["mean_test_score"]
            return {params["alpha"]: score for params, score in zip(candidates(search), scores, strict=True)}

        assert by_alpha(ours) == by_alpha(random)
        assert by_alpha(ours) != by_alpha(plain)


@pytest.mark.parametrize(
    "options",
    [
        {"n_iter": 0},
        {"batch_size": 0},
        {"timeout": 0},
        {"initial_params": {"C": 1}},
        {"resource": 3},
        {"min_resources": 0},
        {"max_resources": "all"},
        {"factor": 1},
        {"param_distributions": "C"},
        {"random_state": "seed"},
    ],
    ids=str,
)
def test_arguments_are_checked_by_fit(data: Any, options: dict[str, Any]) -> None:
    search = TunesmithSearchCV(SVC(), {"C": [1, 2]}).set_params(**options)
    with pytest.raises(ValueError, match=f"The '{next(iter(options))}' parameter of TunesmithSearchCV must be"):
        search.fit(*data)


def test_a_parameter_that_the_estimator_lacks_is_refused_by_it(data: Any) -> None:
    with pytest.raises(ValueError, match="Invalid parameter 'c' for estimator SVC"):
        TunesmithSearchCV(SVC(), {"c": [1, 2]}).fit(*data)


class Tasks:
    """A callback of scikit-learn that notes the tasks."""

    def __init__(self) -> None:
        self.started: list[tuple[str, Any]] = []
        self.ended: list[str] = []

    def setup(self, estimator: Any, context: Any) -> None:
        pass

    def teardown(self, estimator: Any, context: Any) -> None:
        pass

    def on_fit_task_begin(self, estimator: Any, context: Any, **_: Any) -> None:
        self.started.append((context.task_name, context.max_subtasks))

    def on_fit_task_end(self, estimator: Any, context: Any, **_: Any) -> None:
        self.ended.append(context.task_name)


def test_callbacks_see_each_batch(data: Any) -> None:
    tasks = Tasks()
    search = TunesmithSearchCV(Bowl(), SPACE, n_iter=5, cv=2, batch_size=3, random_state=0).set_callbacks(tasks)
    search.fit(*data)
    started = [name for name, _ in tasks.started]
    assert [task for task in tasks.started if task[0] in ("search", "batch")] == [
        ("search", None),
        ("batch", 6),
        ("batch", 4),
    ]
    assert started.count("candidate-split-evaluation") == 10
    assert sorted(started) == sorted(tasks.ended)


def test_a_process_pool_gets_no_rows_of_the_search(data: Any) -> None:
    # Fits in other processes, with failures, so that the search is pickled while it has rows.
    search = TunesmithSearchCV(Bowl(), SPACE, n_iter=6, cv=2, n_jobs=2, random_state=0).fit(*data)
    alone = TunesmithSearchCV(Bowl(), SPACE, n_iter=6, cv=2, batch_size=2, random_state=0).fit(*data)
    assert candidates(search) == candidates(alone)


def test_importing_the_adapter_imports_no_other_framework() -> None:
    program = "import sys, tunesmith.sklearn\nprint('optuna' in sys.modules, 'xgboost' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output == "False False\n"


def test_no_warning_in_a_search_that_succeeds(data: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TunesmithSearchCV(Bowl(), SPACE, n_iter=4, cv=2, random_state=0).fit(*data)
