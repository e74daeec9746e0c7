"""Optuna's own tests of storages."""

from __future__ import annotations

import pytest
from optuna import create_trial
from optuna.distributions import FloatDistribution
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.testing.pytest_storages import StorageTestCase
from optuna.trial import TrialState


class TestServer(StorageTestCase):
    """All tests of the kit, with the fixture `storage` of this folder."""

    @pytest.mark.parametrize("param_names", [["a", "b"], ["b", "a"]])
    def test_get_all_trials_params_order(self, storage: BaseStorage, param_names: list[str]) -> None:
        # The messages of the protocol hold a map, which has no order. Optuna does not run the original over gRPC.
        study = storage.create_new_study([StudyDirection.MINIMIZE])
        trial = storage.create_new_trial(study, create_trial(state=TrialState.RUNNING))
        for index, name in enumerate(param_names):
            storage.set_trial_param(trial, name, float(index), FloatDistribution(0.0, 2.0))
        (read,) = storage.get_all_trials(study)
        assert read.params == {name: float(index) for index, name in enumerate(param_names)}
