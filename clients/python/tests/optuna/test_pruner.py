"""Decisions of the pruner, by the documented rules."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from typing import Any, Literal

import optuna
import pytest
from optuna.study import Study
from optuna.trial import Trial, TrialState

from tunesmith.optuna import TunesmithPruner, TunesmithSampler

Rule = Literal["median", "decay_curve"]


@pytest.fixture(autouse=True)
def _quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def study_with(
    pruner: TunesmithPruner,
    *curves: Sequence[float],
    state: TrialState = TrialState.COMPLETE,
    direction: Literal["minimize", "maximize"] = "maximize",
    constraint: float = 0.0,
) -> Study:
    """Returns a study with finished trials of these curves, at steps 0, 1, ..."""
    study = optuna.create_study(direction=direction, pruner=pruner)
    for curve in curves:
        study.add_trial(
            optuna.create_trial(
                state=state,
                value=curve[-1] if state == TrialState.COMPLETE else None,
                intermediate_values=dict(enumerate(curve)),
                system_attrs={"constraints:c": constraint},
            )
        )
    return study


def flat(*levels: float) -> list[list[float]]:
    return [[level] * 10 for level in levels]


def decisions(study: Study, values: Sequence[float]) -> list[bool]:
    """Returns the decisions on a new trial after each of its reports."""
    trial = study.ask()
    found = []
    for step, value in enumerate(values):
        trial.report(value, step)
        found.append(trial.should_prune())
    return found


FIVE = flat(0.90, 0.91, 0.92, 0.93, 0.94)


def test_median_prunes_below_the_median_from_the_fourth_report_on() -> None:
    assert decisions(study_with(TunesmithPruner(rule="median"), *FIVE), [0.85] * 5) == [False] * 3 + [True] * 2


def test_median_keeps_a_tie_and_everything_better() -> None:
    study = study_with(TunesmithPruner(rule="median"), *FIVE)
    assert decisions(study, [0.92] * 9) == [False] * 9
    assert decisions(study, [0.1, 0.95, 0.1, 0.1, 0.1]) == [False] * 5


def test_smaller_is_better_where_the_study_minimizes() -> None:
    study = study_with(TunesmithPruner(rule="median"), *FIVE, direction="minimize")
    assert decisions(study, [0.85] * 5) == [False] * 5
    assert decisions(study, [0.95] * 5) == [False] * 3 + [True] * 2


@pytest.mark.parametrize(("rule", "too_few"), [("median", 4), ("decay_curve", 2)])
def test_fewer_finished_trials_than_the_rule_needs_are_too_few(rule: Rule, too_few: int) -> None:
    assert decisions(study_with(TunesmithPruner(rule=rule), *FIVE[:too_few]), [0.1] * 9) == [False] * 9
    assert any(decisions(study_with(TunesmithPruner(rule=rule), *FIVE[: too_few + 1]), [0.1] * 9))


def test_decay_curve_prunes_a_trial_that_cannot_become_the_best() -> None:
    # Curves that approach their limit by 1/t.
    curves = [[limit - 0.5 / step for step in range(1, 11)] for limit in (0.90, 0.91, 0.92, 0.93, 0.94)]
    study = study_with(TunesmithPruner(), *curves)
    hopeless = [0.5 - 0.5 / step for step in range(1, 11)]
    assert decisions(study, hopeless)[1:5] == [True] * 4
    # Behind at first, but on the way to 0.99.
    promising = [0.99 - 0.5 / step for step in range(1, 11)]
    assert decisions(study, promising) == [False] * 10


def test_pruned_trials_count_for_the_median_and_not_as_ends_of_curves() -> None:
    median = study_with(TunesmithPruner(rule="median"), *FIVE, state=TrialState.PRUNED)
    assert decisions(median, [0.85] * 5)[-1]
    decay = study_with(TunesmithPruner(rule="decay_curve"), *FIVE, state=TrialState.PRUNED)
    assert decisions(decay, [0.1] * 9) == [False] * 9


def test_failed_trials_do_not_count() -> None:
    study = study_with(TunesmithPruner(rule="median"), *FIVE, state=TrialState.FAIL)
    assert decisions(study, [0.1] * 9) == [False] * 9


def test_trials_that_violate_a_constraint_are_no_measure() -> None:
    study = study_with(TunesmithPruner(rule="median"), *FIVE, constraint=0.1)
    assert decisions(study, [0.1] * 9) == [False] * 9


def test_values_that_are_not_finite_count_as_not_reported() -> None:
    study = study_with(TunesmithPruner(rule="median"), *FIVE)
    nan = float("nan")
    assert decisions(study, [nan, float("inf"), 0.85, 0.85, 0.85, nan, 0.85]) == [False] * 6 + [True]


def test_a_trial_that_goes_on_is_decided_afresh() -> None:
    study = study_with(TunesmithPruner(rule="median"), *FIVE)
    trial = study.ask()
    found = []
    for step, value in enumerate([0.85, 0.85, 0.85, 0.85, 0.85, 0.99, 0.5]):
        trial.report(value, step)
        found.append(trial.should_prune())
    assert found == [False, False, False, True, True, False, False]
    study.tell(trial, 0.99)
    # Now it is one of six, whose running means at step 3 have the median 0.915.
    assert decisions(study, [0.914] * 4)[-1]
    assert not decisions(study, [0.916] * 4)[-1]


def test_a_decision_depends_on_the_trials_alone() -> None:
    used = TunesmithPruner(rule="median")
    study = study_with(used, *FIVE[:3])
    running = [study.ask() for _ in range(4)]
    for step in range(6):
        for level, trial in zip((0.95, 0.96, 0.5, 0.97), running, strict=True):
            trial.report(level + step / 100, step)
            trial.should_prune()
    # The end in another order than the start, one of them pruned, one still running.
    study.tell(running[1], 1.0)
    study.tell(running[0], 1.0)
    study.tell(running[2], state=TrialState.PRUNED)
    for step in range(6):
        for value in (0.90, 0.93):
            candidate = study.ask()
            for earlier in range(step + 1):
                candidate.report(value, earlier)
            frozen = study.trials[candidate.number]
            fresh = TunesmithPruner(rule="median").prune(study, frozen)
            assert used.prune(study, frozen) == fresh
            assert fresh == (step >= 3 and value < 0.925)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda pruner: pickle.loads(pickle.dumps(pruner))])
def test_a_copy_decides_like_the_original(duplicate: Any) -> None:
    study = study_with(TunesmithPruner(rule="median"), *FIVE)
    assert decisions(study, [0.85] * 4)[-1]
    study.pruner = duplicate(study.pruner)
    assert decisions(study, [0.85] * 4)[-1]
    assert not decisions(study, [0.95] * 4)[-1]


def test_one_pruner_serves_studies_of_the_same_numbers() -> None:
    pruner = TunesmithPruner(rule="median")
    good, bad = study_with(pruner, *FIVE), study_with(pruner, *flat(0.1, 0.2, 0.3, 0.4, 0.5))
    for _ in range(2):
        assert decisions(good, [0.85] * 4)[-1]
        assert not decisions(bad, [0.85] * 4)[-1]


def test_a_study_created_anew_under_its_name_starts_afresh() -> None:
    pruner, storage = TunesmithPruner(rule="median"), optuna.storages.InMemoryStorage()
    for levels, pruned in (((0.90, 0.91, 0.92, 0.93, 0.94), True), ((0.1, 0.2, 0.3, 0.4, 0.5), False)):
        study = optuna.create_study(study_name="s", storage=storage, direction="maximize", pruner=pruner)
        study.add_trials(study_with(pruner, *flat(*levels)).trials)
        assert decisions(study, [0.85] * 4)[-1] == pruned
        optuna.delete_study(study_name="s", storage=storage)


def test_pruning_saves_steps_and_the_sampler_learns_from_pruned_trials() -> None:
    study = optuna.create_study(sampler=TunesmithSampler(seed=1), pruner=TunesmithPruner())
    steps = 0

    def objective(trial: Trial) -> float:
        nonlocal steps
        x = trial.suggest_float("x", -5, 5)
        loss = 0.0
        for step in range(1, 21):
            steps += 1
            loss = (x - 2) ** 2 + 1 / step
            trial.report(loss, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return loss

    study.optimize(objective, n_trials=30)
    assert study.best_value < 0.06
    pruned = study.get_trials(states=(TrialState.PRUNED,))
    assert len(pruned) >= 3
    assert steps < 0.9 * 30 * 20


def test_threads_share_a_pruner() -> None:
    study = study_with(TunesmithPruner(rule="median"), *FIVE)

    def objective(trial: Trial) -> float:
        level = 0.8 if trial.number % 2 else 0.99
        for step in range(6):
            trial.report(level, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return level

    study.optimize(objective, n_trials=12, n_jobs=3)
    assert [trial.state.name for trial in study.trials[5:]] == [
        "PRUNED" if number % 2 else "COMPLETE" for number in range(5, 17)
    ]


def test_a_rule_of_another_name_is_refused() -> None:
    rule: Any = "asha"
    with pytest.raises(ValueError, match="rule 'asha' is not one of median, decay_curve"):
        TunesmithPruner(rule=rule)
