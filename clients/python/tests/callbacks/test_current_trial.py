"""Callbacks take the trial of the surrounding objective."""

from __future__ import annotations

from typing import Any

import lightgbm
import xgboost
from sklearn.datasets import load_breast_cancer

import tunesmith
from tunesmith.lightgbm import tunesmith_callback
from tunesmith.xgboost import TunesmithCallback

X, Y = load_breast_cancer(return_X_y=True)


def test_xgboost_reports_to_the_trial_of_the_objective_and_stops() -> None:
    train, valid = xgboost.DMatrix(X[:400], Y[:400]), xgboost.DMatrix(X[400:], Y[400:])

    def objective(parameters: dict[str, Any]) -> None:
        params = {"objective": "binary:logistic", "max_depth": 2, "nthread": 1, **parameters}
        callbacks = [TunesmithCallback("valid-logloss")]
        xgboost.train(params, train, 20, evals=[(valid, "valid")], callbacks=callbacks, verbose_eval=False)

    result = tunesmith.minimize(
        objective, {"eta": (0.0001, 0.5, "log")}, trials=15, automated_stopping="decay_curve", seed=1, progress=False
    )
    lengths = [len(trial.measurements) for trial in result.trials]
    assert len(lengths) == 15
    assert max(lengths) == 20
    assert min(lengths) < 20, "the rule has stopped a trial"
    assert result.value == min(trial.measurements[-1].metrics["value"] for trial in result.trials)


def test_lightgbm_reports_to_the_trial_of_the_objective() -> None:
    def objective(parameters: dict[str, Any]) -> None:
        data = lightgbm.Dataset(X[:400], Y[:400])
        params = {"objective": "binary", "num_leaves": 4, "num_threads": 1, "verbosity": -1, **parameters}
        callbacks = [tunesmith_callback("valid_0-binary_logloss")]
        lightgbm.train(params, data, 6, valid_sets=[data.create_valid(X[400:], Y[400:])], callbacks=callbacks)

    result = tunesmith.minimize(objective, {"learning_rate": (0.01, 0.5)}, trials=3, seed=1, progress=False)
    assert [len(trial.measurements) for trial in result.trials] == [6, 6, 6]
