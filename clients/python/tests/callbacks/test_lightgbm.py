"""The callback of LightGBM with the real package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm
import pytest
from sklearn.datasets import load_breast_cancer

from training_trials import curve, search
from tunesmith.lightgbm import tunesmith_callback

X, Y = load_breast_cancer(return_X_y=True)
PARAMS = {"objective": "binary", "num_leaves": 4, "num_threads": 1, "verbosity": -1}


def train(rounds: int, *callbacks: Callable[[Any], None], **params: Any) -> lightgbm.Booster:
    data = lightgbm.Dataset(X[:400], Y[:400])
    return lightgbm.train(
        PARAMS | params, data, rounds, valid_sets=[data.create_valid(X[400:], Y[400:])], callbacks=list(callbacks)
    )


def stop_at(optimizer: Any, trial: Any, rounds: int) -> Callable[[Any], None]:
    """Returns a callback that requests that the trial stops after a round."""

    def callback(env: Any) -> None:
        if env.iteration + 1 == rounds:
            optimizer.study.stop_trial(trial.number)

    return callback


def test_each_round_is_reported_with_its_step() -> None:
    optimizer = search()
    trial = optimizer.ask()
    history: dict[str, Any] = {}
    booster = train(6, lightgbm.record_evaluation(history), tunesmith_callback("valid_0-binary_logloss", trial=trial))
    assert booster.current_iteration() == 6
    assert curve(optimizer, trial) == dict(enumerate(history["valid_0"]["binary_logloss"], start=1))
    assert optimizer.tell(trial).value == history["valid_0"]["binary_logloss"][-1]


def test_a_stopped_trial_ends_training_after_the_round() -> None:
    optimizer = search()
    trial = optimizer.ask()
    booster = train(50, stop_at(optimizer, trial, 3), tunesmith_callback("valid_0-binary_logloss", trial=trial))
    assert (booster.current_iteration(), booster.best_iteration) == (3, 3)
    assert list(curve(optimizer, trial)) == [1, 2, 3]
    assert booster.best_score["valid_0"]["binary_logloss"] == curve(optimizer, trial)[3]


def test_early_stopping_of_lightgbm_works_beside_it() -> None:
    optimizer = search()
    trial = optimizer.ask()
    booster = train(
        500,
        lightgbm.early_stopping(3, verbose=False),
        tunesmith_callback("valid_0-binary_logloss", trial=trial),
        learning_rate=1.0,
    )
    values = curve(optimizer, trial)
    assert len(values) == booster.best_iteration + 3 < 500
    assert min(values, key=lambda step: values[step]) == booster.best_iteration


def test_only_each_nth_round_is_reported() -> None:
    optimizer = search()
    trial = optimizer.ask()
    train(10, tunesmith_callback("valid_0-binary_logloss", trial=trial, every=4))
    assert list(curve(optimizer, trial)) == [4, 8]


def test_cross_validation_reports_means_and_stops() -> None:
    optimizer = search()
    trial = optimizer.ask()
    callbacks = [stop_at(optimizer, trial, 4), tunesmith_callback("valid-binary_logloss", trial=trial)]
    table = lightgbm.cv(PARAMS, lightgbm.Dataset(X, Y), 20, nfold=3, callbacks=callbacks)
    assert list(curve(optimizer, trial).values()) == table["valid binary_logloss-mean"]
    assert len(table["valid binary_logloss-mean"]) == 4


def test_the_estimator_of_scikit_learn_takes_the_callback() -> None:
    optimizer = search()
    trial = optimizer.ask()
    model = lightgbm.LGBMClassifier(n_estimators=4, num_leaves=4, n_jobs=1, verbosity=-1)
    model.fit(
        X[:400],
        Y[:400],
        eval_X=X[400:],
        eval_y=Y[400:],
        callbacks=[tunesmith_callback("valid_0-binary_logloss", trial=trial)],
    )
    assert list(curve(optimizer, trial).values()) == model.evals_result_["valid_0"]["binary_logloss"]


def test_an_unknown_metric_is_refused_with_the_known_ones() -> None:
    callback = tunesmith_callback("valid_0-auc", trial=search().ask())
    with pytest.raises(ValueError, match="'valid_0-auc' is not among those of the training loop: valid_0-binary_logl"):
        train(5, callback)


def test_several_machines_are_refused() -> None:
    callback = tunesmith_callback("valid_0-binary_logloss", trial=search().ask())
    booster = lightgbm.Booster(PARAMS, lightgbm.Dataset(X, Y))
    env = lightgbm.callback.CallbackEnv(booster, {"num_machines": 2}, 0, 0, 5, [])
    with pytest.raises(ValueError, match="num_machines=2"):
        callback(env)


def test_without_a_trial_nothing_happens() -> None:
    assert train(5, tunesmith_callback("valid_0-auc")).current_iteration() == 5


def test_errors_of_the_framework_are_not_swallowed() -> None:
    callback = tunesmith_callback("valid_0-binary_logloss", trial=search().ask())
    with pytest.raises(lightgbm.basic.LightGBMError, match="num_leaves"):
        train(5, callback, num_leaves=-1)
