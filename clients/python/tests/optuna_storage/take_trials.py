"""A worker: completes waiting trials until there are none, and prints the numbers of those that it took."""

from __future__ import annotations

import json
import sys
import warnings

import optuna
from optuna.trial import TrialState


def main() -> None:
    """Works on the study of the arguments: port, name and number of queued trials."""
    port, name, queued = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    study = optuna.load_study(study_name=name, storage=optuna.storages.GrpcStorageProxy(host="127.0.0.1", port=port))
    taken = []
    while True:
        trial = study.ask()
        if trial.number >= queued:
            study.tell(trial, state=TrialState.FAIL)
            break
        taken.append(trial.number)
        study.tell(trial, trial.suggest_int("x", 0, queued))
    print(json.dumps(taken))


if __name__ == "__main__":
    main()
