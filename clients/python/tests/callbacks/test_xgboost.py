"""The callback of XGBoost with the real package."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import pytest
import xgboost
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer

from training_trials import curve, search
from tunesmith.xgboost import TunesmithCallback

X, Y = load_breast_cancer(return_X_y=True)
TRAIN, VALID = xgboost.DMatrix(X[:400], Y[:400]), xgboost.DMatrix(X[400:], Y[400:])
PARAMS = {"objective": "binary:logistic", "max_depth": 2, "nthread": 1}


class StopAt(xgboost.callback.TrainingCallback):
    """Requests that the trial stops after a round."""

    def __init__(self, optimizer: Any, trial: Any, rounds: int) -> None:
        super().__init__()
        self.optimizer, self.trial, self.rounds = optimizer, trial, rounds

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if epoch + 1 == self.rounds:
            self.optimizer.study.stop_trial(self.trial.number)
        return False


def test_each_round_is_reported_with_its_step() -> None:
    optimizer = search()
    trial = optimizer.ask()
    history: dict[str, Any] = {}
    callback = TunesmithCallback("valid-logloss", trial=trial)
    booster = xgboost.train(
        PARAMS,
        TRAIN,
        7,
        evals=[(TRAIN, "train"), (VALID, "valid")],
        callbacks=[callback],
        evals_result=history,
        verbose_eval=False,
    )
    assert booster.num_boosted_rounds() == 7
    assert curve(optimizer, trial) == dict(enumerate(history["valid"]["logloss"], start=1))
    assert not trial.is_completed
    assert optimizer.tell(trial).value == history["valid"]["logloss"][-1]


def test_a_stopped_trial_ends_training_after_the_round() -> None:
    optimizer = search()
    trial = optimizer.ask()
    callbacks = [StopAt(optimizer, trial, 3), TunesmithCallback("valid-logloss", trial=trial)]
    booster = xgboost.train(PARAMS, TRAIN, 50, evals=[(VALID, "valid")], callbacks=callbacks, verbose_eval=False)
    assert booster.num_boosted_rounds() == 3
    assert list(curve(optimizer, trial)) == [1, 2, 3]


def test_the_rule_of_the_study_stops_a_bad_trial() -> None:
    optimizer = search(automated_stopping="median")
    rounds = []
    for rate in [0.3] * 6 + [0.0001]:
        trial = optimizer.ask()
        booster = xgboost.train(
            {**PARAMS, "eta": rate},
            TRAIN,
            12,
            evals=[(VALID, "valid")],
            verbose_eval=False,
            callbacks=[TunesmithCallback("valid-logloss", trial=trial)],
        )
        optimizer.tell(trial)
        rounds.append(booster.num_boosted_rounds())
    assert rounds[:6] == [12] * 6
    assert rounds[6] < 12


def test_only_each_nth_round_is_reported() -> None:
    optimizer = search()
    trial = optimizer.ask()
    callback = TunesmithCallback("valid-logloss", trial=trial, every=4)
    xgboost.train(PARAMS, TRAIN, 10, evals=[(VALID, "valid")], callbacks=[callback], verbose_eval=False)
    assert list(curve(optimizer, trial)) == [4, 8]


def test_cross_validation_reports_means() -> None:
    optimizer = search()
    trial = optimizer.ask()
    callback = TunesmithCallback("test-logloss", trial=trial)
    table = xgboost.cv(PARAMS, TRAIN, 5, nfold=3, callbacks=[callback], as_pandas=False)
    assert list(curve(optimizer, trial).values()) == pytest.approx(table["test-logloss-mean"])


def test_the_estimator_of_scikit_learn_takes_the_callback_through_clone() -> None:
    optimizer = search()
    trial = optimizer.ask()
    model = xgboost.XGBClassifier(
        n_estimators=4, max_depth=2, n_jobs=1, callbacks=[TunesmithCallback("validation_0-logloss", trial=trial)]
    )
    model = clone(model)
    model.fit(X[:400], Y[:400], eval_set=[(X[400:], Y[400:])], verbose=False)
    assert list(curve(optimizer, trial).values()) == model.evals_result()["validation_0"]["logloss"]


def test_an_unknown_metric_is_refused_with_the_known_ones() -> None:
    trial = search().ask()
    callback = TunesmithCallback("valid-auc", trial=trial)
    with pytest.raises(ValueError, match=r"'valid-auc' is not among those of the training loop: train-log.*valid-log"):
        xgboost.train(PARAMS, TRAIN, 5, evals=[(TRAIN, "train"), (VALID, "valid")], callbacks=[callback])
    with pytest.raises(ValueError, match="there are none"):
        xgboost.train(PARAMS, TRAIN, 5, callbacks=[callback])


def test_without_a_trial_nothing_happens() -> None:
    booster = xgboost.train(PARAMS, TRAIN, 5, callbacks=[TunesmithCallback("valid-auc")])
    assert booster.num_boosted_rounds() == 5


def test_errors_of_the_framework_are_not_swallowed() -> None:
    trial = search().ask()
    callback = TunesmithCallback("valid-logloss", trial=trial)
    with pytest.raises(xgboost.core.XGBoostError, match="max_depth"):
        xgboost.train({**PARAMS, "max_depth": -3}, TRAIN, 5, evals=[(VALID, "valid")], callbacks=[callback])


@pytest.mark.parametrize("every", [0, -1, 2.5, True])
def test_a_period_is_a_positive_whole_number(every: Any) -> None:
    with pytest.raises(ValueError, match=f"every={every!r}"):
        TunesmithCallback("valid-logloss", every=every)


@pytest.mark.parametrize("monitor", ["", None, 3])
def test_a_monitored_metric_has_a_name(monitor: Any) -> None:
    with pytest.raises(TypeError, match="monitor is the name of a metric"):
        TunesmithCallback(monitor)


def test_copies_share_the_trial_and_pickles_look_up_their_own() -> None:
    trial = search().ask()
    callback = TunesmithCallback("valid-logloss", trial=trial)
    assert copy.deepcopy(callback)._reporter is callback._reporter
    with pytest.raises(TypeError, match="leave out trial="):
        pickle.dumps(callback)
    restored = pickle.loads(pickle.dumps(TunesmithCallback("valid-logloss", every=2)))
    assert (restored._reporter.monitor, restored._reporter.is_active, restored._every) == ("valid-logloss", False, 2)


WORKER = """
import sys
import xgboost
from sklearn.datasets import load_breast_cancer
import tunesmith
from tunesmith.xgboost import TunesmithCallback

rank = int(sys.argv[2])
optimizer = tunesmith.Optimizer([tunesmith.double("x", 0, 1)], [tunesmith.minimize("loss")], seed=1)
trial = optimizer.ask()

class StopAtThree(xgboost.callback.TrainingCallback):
    def after_iteration(self, model, epoch, evals_log):
        # Only the first worker's trial stops.
        if epoch == 2 and xgboost.collective.get_rank() == 0:
            optimizer.study.stop_trial(trial.number)
        return False

x, y = load_breast_cancer(return_X_y=True)
with xgboost.collective.CommunicatorContext(
    dmlc_tracker_uri="127.0.0.1", dmlc_tracker_port=int(sys.argv[1]), dmlc_nworker=2, dmlc_task_id=str(rank)
):
    data = xgboost.DMatrix(x[rank::2], y[rank::2])
    booster = xgboost.train(
        {"objective": "binary:logistic", "max_depth": 2, "nthread": 1}, data, 50, evals=[(data, "d")],
        callbacks=[StopAtThree(), TunesmithCallback("d-logloss", trial=trial)], verbose_eval=False,
    )
    reports = len(optimizer.study.trial(trial.number).measurements)
    print(xgboost.collective.get_rank(), booster.num_boosted_rounds(), reports, flush=True)
"""


def test_of_several_workers_the_first_reports_and_all_stop() -> None:
    tracker = xgboost.tracker.RabitTracker(n_workers=2, host_ip="127.0.0.1")
    tracker.start()
    port = str(tracker.worker_args()["dmlc_tracker_port"])
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, port, str(rank)], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    outputs = [worker.communicate(timeout=120)[0] for worker in workers]
    tracker.wait_for()
    assert [worker.returncode for worker in workers] == [0, 0]
    # Rank, rounds and reports of each worker.
    results = sorted(tuple(int(part) for part in output.splitlines()[-1].split()) for output in outputs)
    assert results == [(0, 3, 3), (1, 3, 0)]
