"""Searches of Optuna on a server."""

from __future__ import annotations

import pickle

import optuna
import pytest
from optuna.samplers import TPESampler
from optuna.storages import GrpcStorageProxy
from optuna.trial import TrialState

from storage_server import StorageServer

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


def objective(trial: optuna.Trial) -> float:
    x: float = trial.suggest_float("x", -1.0, 1.0)
    depth: int = trial.suggest_int("depth", 1, 8, log=True)
    kind = trial.suggest_categorical("kind", ["a", "b", None])
    trial.set_user_attr("note", {"x": x})
    for step in range(3):
        trial.report(x**2 + step, step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return x**2 + depth + (kind is None)


def test_a_search_is_the_one_of_a_storage_in_memory(storage: GrpcStorageProxy) -> None:
    pruner = optuna.pruners.MedianPruner(n_startup_trials=3)
    remote, local = (
        optuna.create_study(storage=each, sampler=TPESampler(seed=1), pruner=pruner)
        for each in (storage, optuna.storages.InMemoryStorage())
    )
    for study in (remote, local):
        study.optimize(objective, n_trials=30)
    assert {trial.state for trial in local.trials} == {TrialState.COMPLETE, TrialState.PRUNED}
    for one, two in zip(remote.trials, local.trials, strict=True):
        assert (one.number, one.state, one.values, one.params) == (two.number, two.state, two.values, two.params)
        assert (one.distributions, one.user_attrs) == (two.distributions, two.user_attrs)
        assert (one.intermediate_values, one.system_attrs) == (two.intermediate_values, two.system_attrs)
    assert remote.best_trial.number == local.best_trial.number


def test_threads_and_several_objectives(storage: GrpcStorageProxy, storage_server: StorageServer) -> None:
    study = optuna.create_study(directions=["minimize", "maximize"], storage=storage, study_name="two")
    study.set_metric_names(["loss", "accuracy"])
    study.optimize(
        lambda trial: (trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)), n_trials=40, n_jobs=4
    )
    assert sorted(trial.number for trial in study.trials) == list(range(40))
    other = optuna.load_study(study_name="two", storage=pickle.loads(pickle.dumps(storage_server.proxy())))
    assert other.metric_names == ["loss", "accuracy"]
    assert [trial.values for trial in other.best_trials] == [trial.values for trial in study.best_trials]
    copied = optuna.create_study(directions=["minimize", "maximize"], storage=storage, study_name="copy")
    copied.add_trials(study.trials)
    assert [trial.params for trial in copied.trials] == [trial.params for trial in study.trials]
