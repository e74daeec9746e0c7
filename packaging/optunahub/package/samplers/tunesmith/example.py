"""Minimizes a function of a float and an integer."""

from __future__ import annotations

import optuna
import optunahub


def objective(trial: optuna.Trial) -> float:
    """Has its minimum, 0, at x = 2 and y = -3."""
    x = trial.suggest_float("x", -10, 10)
    y = trial.suggest_int("y", -10, 10)
    return (x - 2) ** 2 + (y + 3) ** 2


if __name__ == "__main__":
    module = optunahub.load_module(package="samplers/tunesmith")
    study = optuna.create_study(sampler=module.TunesmithSampler(seed=1))
    study.optimize(objective, n_trials=30)
    print(study.best_params)
