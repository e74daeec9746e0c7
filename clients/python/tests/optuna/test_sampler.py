"""Behaviour of the sampler beyond Optuna's own test suite."""

from __future__ import annotations

import copy
import logging
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from tunesmith.errors import TunesmithError
from tunesmith.optuna import TunesmithSampler

Objective = Callable[[Trial], float]


@pytest.fixture(autouse=True)
def _quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def mixed(trial: Trial) -> float:
    """Has every kind of parameter and two branches. The minimum is 0, at a=0.3, b=0.01, c="sgd", d=7, e=0.9."""
    loss = (trial.suggest_float("a", -1, 1) - 0.3) ** 2
    loss += 0.1 * abs(trial.suggest_float("b", 1e-4, 1, log=True) - 0.01)
    loss += 0.01 * (trial.suggest_int("d", 1, 9, step=2) - 7) ** 2
    if trial.suggest_categorical("c", ["adam", "sgd"]) == "sgd":
        return loss + (trial.suggest_float("e", 0.5, 0.95, step=0.05) - 0.9) ** 2
    return loss + 0.2 + 0.1 * trial.suggest_int("f", 1, 64, log=True)


def points(sampler: BaseSampler, trials: int = 15, objective: Objective = mixed) -> list[dict[str, Any]]:
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=trials)
    return [trial.params for trial in study.trials]


def points_of_seed(seed: int) -> list[dict[str, Any]]:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return points(TunesmithSampler(seed=seed))


def test_one_seed_gives_the_same_trials() -> None:
    first, again, other = points_of_seed(1), points_of_seed(1), points_of_seed(2)
    assert first == again
    assert first != other


def test_one_seed_gives_the_same_trials_in_another_process_with_another_hash_of_texts() -> None:
    program = "import test_sampler; print(test_sampler.points_of_seed(1))"
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=Path(__file__).parent,
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs == [f"{points_of_seed(1)}\n"] * 2


def test_reseeding_changes_the_trials() -> None:
    sampler = TunesmithSampler(seed=1)
    sampler.reseed_rng()
    assert points(sampler) != points_of_seed(1)


def test_without_a_seed_two_samplers_differ() -> None:
    assert points(TunesmithSampler()) != points(TunesmithSampler())


def test_a_suggestion_depends_on_the_trials_and_the_seed_alone() -> None:
    expected = points_of_seed(1)
    study = optuna.create_study()
    for _ in range(15):
        # A new sampler for each trial has no memory of the trials before.
        study.sampler = TunesmithSampler(seed=1)
        study.optimize(mixed, n_trials=1)
    assert [trial.params for trial in study.trials] == expected


def test_one_sampler_serves_two_alternating_studies() -> None:
    sampler = TunesmithSampler(seed=1)
    studies = [optuna.create_study(sampler=sampler) for _ in range(2)]
    opposite = optuna.create_study(sampler=sampler, direction="maximize")
    for _ in range(15):
        for study in [*studies, opposite]:
            study.optimize(mixed, n_trials=1)
    assert [[trial.params for trial in study.trials] for study in studies] == [points_of_seed(1)] * 2
    assert [trial.params for trial in opposite.trials] != points_of_seed(1)


def test_a_suggestion_is_independent_of_the_suggestions_before_it() -> None:
    distributions: dict[str, BaseDistribution] = {"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)}
    used = TunesmithSampler(seed=1, search_space=distributions)
    study = optuna.create_study(sampler=used)
    running: list[Trial] = []
    for index in range(12):
        running += [study.ask(distributions), study.ask(distributions)]
        # Trials end in another order than they start, and two more of them run each time.
        ended = running.pop(len(running) * 5 % 3)
        study.tell(ended, (ended.params["x"] - 0.3) ** 2 + ended.params["y"] + index / 100)
        twin = optuna.create_study(sampler=TunesmithSampler(seed=1, search_space=distributions))
        twin.add_trials(study.trials)
        assert study.ask(distributions).params == twin.ask(distributions).params


def test_brackets_of_hyperband_are_histories_of_their_own() -> None:
    def objective(trial: Trial) -> float:
        x = trial.suggest_float("x", -5, 5)
        for step in range(1, 28):
            trial.report((x - 2) ** 2 + 1 / step, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return (x - 2) ** 2

    pruner = optuna.pruners.HyperbandPruner(min_resource=1, max_resource=27)
    study = optuna.create_study(sampler=TunesmithSampler(seed=1), pruner=pruner)
    study.optimize(objective, n_trials=40)
    assert study.best_value < 0.01


def test_a_changed_history_is_learned_anew() -> None:
    distributions: dict[str, BaseDistribution] = {"x": FloatDistribution(0, 1)}
    sampler = TunesmithSampler(seed=1)

    def next_point(optimum: float) -> float:
        study = optuna.create_study(sampler=sampler)
        for x in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
            study.add_trial(optuna.create_trial(params={"x": x}, distributions=distributions, value=(x - optimum) ** 2))
        x = study.ask(distributions).params["x"]
        assert isinstance(x, float)
        return x

    assert abs(next_point(0.3) - 0.3) < 0.1
    assert abs(next_point(0.7) - 0.7) < 0.1


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda sampler: pickle.loads(pickle.dumps(sampler))])
def test_a_copy_goes_on_like_the_original(duplicate: Callable[[TunesmithSampler], TunesmithSampler]) -> None:
    study = optuna.create_study(sampler=TunesmithSampler(seed=1))
    study.optimize(mixed, n_trials=8)
    sampler = study.sampler
    assert isinstance(sampler, TunesmithSampler)
    study.sampler = duplicate(sampler)
    study.optimize(mixed, n_trials=7)
    assert [trial.params for trial in study.trials] == points_of_seed(1)


def test_trials_of_threads_are_different_points() -> None:
    study = optuna.create_study(sampler=TunesmithSampler(seed=1))
    barrier = threading.Barrier(4)

    def objective(trial: Trial) -> float:
        x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
        if trial.number < 8:
            # No trial ends before four have been suggested.
            barrier.wait(60)
        return x + y

    study.optimize(objective, n_trials=12, n_jobs=4)
    found = [(trial.params["x"], trial.params["y"]) for trial in study.trials]
    assert len(set(found)) == 12
    assert all(trial.state == TrialState.COMPLETE for trial in study.trials)


def optimize_part(path: str, seed: int) -> None:
    study = optuna.load_study(study_name="shared", storage=path, sampler=TunesmithSampler(seed=seed))
    study.optimize(lambda trial: (trial.suggest_float("x", 0, 1) - 0.3) ** 2, n_trials=6)


def test_processes_share_a_study(tmp_path: Path) -> None:
    path = f"sqlite:///{tmp_path}/study.db"
    optuna.create_study(study_name="shared", storage=path)
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=optimize_part, args=(path, seed)) for seed in (1, 2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    study = optuna.load_study(study_name="shared", storage=path)
    assert len(study.trials) == 12
    assert abs(study.best_params["x"] - 0.3) < 0.05


def test_running_trials_are_avoided() -> None:
    distributions: dict[str, BaseDistribution] = {"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)}
    study = optuna.create_study(sampler=TunesmithSampler(seed=1, search_space=distributions))
    for _ in range(6):
        trial = study.ask(distributions)
        study.tell(trial, (trial.params["x"] - 0.3) ** 2 + trial.params["y"])
    running = [study.ask(distributions).params for _ in range(5)]
    distances = [
        abs(one["x"] - other["x"]) + abs(one["y"] - other["y"])
        for index, one in enumerate(running)
        for other in running[:index]
    ]
    assert min(distances) > 1e-3


def test_a_suggestion_not_asked_for_yet_is_pending_for_others() -> None:
    distributions: dict[str, BaseDistribution] = {"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)}
    study = optuna.create_study(sampler=TunesmithSampler(seed=1, search_space=distributions))
    first, second = study.ask(), study.ask()
    for trial in (first, second):
        # Only one of the parameters is known to Optuna.
        trial.suggest_float("x", 0, 1)
    assert (first.params["x"], first.suggest_float("y", 0, 1)) != (second.params["x"], second.suggest_float("y", 0, 1))


def test_the_search_completes_a_queued_trial() -> None:
    class First(optuna.samplers.RandomSampler):
        def sample_independent(self, study: Study, trial: FrozenTrial, *arguments: Any) -> Any:
            assert trial.number == 0
            return super().sample_independent(study, trial, *arguments)

    def objective(trial: Trial) -> float:
        return trial.suggest_float("x", 0, 1) + (trial.suggest_float("y", 0, 1) - 0.4) ** 2

    study = optuna.create_study(sampler=TunesmithSampler(seed=1, independent_sampler=First(seed=1)))
    # Every third trial may search far from the best ones.
    study.optimize(objective, n_trials=19)
    study.enqueue_trial({"x": 0.125})
    study.optimize(objective, n_trials=1)
    assert study.trials[-1].params["x"] == 0.125
    assert abs(study.trials[-1].params["y"] - 0.4) < 0.1
    assert study.trials[-1].system_attrs["tunesmith:suggestion"] == study.trials[-1].params


def test_failed_trials_keep_the_search_away() -> None:
    study = optuna.create_study(sampler=TunesmithSampler(seed=1))

    def objective(trial: Trial) -> float:
        x = trial.suggest_float("x", 0, 1)
        if x > 0.5:
            raise MemoryError("too large")
        # Larger is better, up to the failure.
        return -x

    study.optimize(objective, n_trials=30, catch=(MemoryError,))
    failures = [trial.state == TrialState.FAIL for trial in study.trials]
    assert any(failures[:10])
    assert sum(failures[10:]) <= 10
    assert -0.5 <= study.best_value < -0.45


def test_pruned_trials_count_with_their_last_intermediate_value() -> None:
    distributions: dict[str, BaseDistribution] = {"x": FloatDistribution(0, 1)}

    def next_point(optimum: float) -> float:
        study = optuna.create_study(sampler=TunesmithSampler(seed=1))
        for index in range(8):
            x = index / 7
            study.add_trial(
                optuna.create_trial(
                    state=TrialState.PRUNED,
                    params={"x": x},
                    distributions=distributions,
                    intermediate_values={1: 100.0, 2: (x - optimum) ** 2},
                )
            )
        x = study.ask(distributions).params["x"]
        assert isinstance(x, float)
        return x

    assert abs(next_point(0.2) - 0.2) < 0.1
    assert abs(next_point(0.75) - 0.75) < 0.1


def test_an_infinite_value_is_no_obstacle() -> None:
    study = optuna.create_study(sampler=TunesmithSampler(seed=1))

    def objective(trial: Trial) -> float:
        x = trial.suggest_float("x", -1, 1)
        return float("inf") if x < -0.5 else (x - 0.3) ** 2

    study.add_trial(
        optuna.create_trial(params={"x": -0.8}, distributions={"x": FloatDistribution(-1, 1)}, value=float("inf"))
    )
    study.optimize(objective, n_trials=20)
    assert study.best_value < 1e-3


def constrained(trial: Trial) -> float:
    """Best at x = 1, y = 1, but x + y <= 1 is required."""
    return -trial.suggest_float("x", 0, 1) - 0.5 * trial.suggest_float("y", 0, 1)


def excess(trial: FrozenTrial) -> Sequence[float]:
    return (trial.params["x"] + trial.params["y"] - 1,)


def check_constrained(study: Study) -> None:
    feasible = [t for t in study.trials if t.params["x"] + t.params["y"] <= 1]
    assert len(feasible) >= 5
    values = [t.value for t in feasible if t.value is not None]
    # The optimum is -1, at (1, 0).
    assert min(values) < -0.97


def test_constraints_of_the_sampler_are_satisfied() -> None:
    study = optuna.create_study(sampler=TunesmithSampler(seed=1, constraints_func=excess))
    study.optimize(constrained, n_trials=30)
    check_constrained(study)
    last = study.trials[-1]
    assert last.system_attrs["constraints"] == [last.params["x"] + last.params["y"] - 1]


def test_constraints_of_the_trial_are_satisfied() -> None:
    def objective(trial: Trial) -> float:
        value = constrained(trial)
        trial.set_constraint("sum", trial.params["x"] + trial.params["y"] - 1)
        return value

    study = optuna.create_study(sampler=TunesmithSampler(seed=1))
    study.optimize(objective, n_trials=30)
    check_constrained(study)
    assert study.best_value < -0.97


def test_constraints_set_only_where_they_are_violated_are_learned() -> None:
    def objective(trial: Trial) -> float:
        value = constrained(trial)
        if trial.params["x"] + trial.params["y"] > 1:
            trial.set_constraint("sum", trial.params["x"] + trial.params["y"] - 1)
        return value

    study = optuna.create_study(sampler=TunesmithSampler(seed=1))
    study.optimize(objective, n_trials=40)
    assert study.best_value < -0.9


def test_a_constraint_that_is_nan_is_refused_by_number() -> None:
    study = optuna.create_study(sampler=TunesmithSampler(seed=1, constraints_func=lambda _: (0.0, float("nan"))))
    with pytest.raises(ValueError, match="constraints_func: value 1 of trial 0 is NaN"):
        study.optimize(constrained, n_trials=1)


def test_constraints_that_are_no_sequence_are_refused() -> None:
    single: Any = lambda _: 0.5  # noqa: E731
    study = optuna.create_study(sampler=TunesmithSampler(seed=1, constraints_func=single))
    with pytest.raises(TypeError, match=r"constraints_func: 0\.5 of trial 0 is not a sequence of numbers"):
        study.optimize(constrained, n_trials=1)


def test_several_objectives_are_traded_off() -> None:
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=TunesmithSampler(seed=1))

    def objective(trial: Trial) -> tuple[float, float]:
        x, y = trial.suggest_float("x", 0, 2), trial.suggest_float("y", 0, 2)
        return x**2 + y**2, -((x - 1) ** 2) - y**2

    study.optimize(objective, n_trials=30)
    # The front is 0 <= x <= 1, y = 0.
    front = sorted(trial.params["x"] for trial in study.best_trials if trial.params["y"] < 0.1)
    assert len(front) >= 6
    assert max(after - before for before, after in zip([0, *front], [*front, 1], strict=False)) < 0.4


def test_a_conditional_space_is_learned_from_its_trials(caplog: pytest.LogCaptureFixture) -> None:
    study = optuna.create_study(sampler=TunesmithSampler(seed=1))
    study.optimize(mixed, n_trials=40)
    assert study.best_params["c"] == "sgd"
    assert study.best_value < 0.01
    # Both branches are known after their first trials; from then on nothing is drawn independently.
    assert "drawn independently" not in caplog.text


def test_a_finite_space_may_be_exhausted() -> None:
    distributions: dict[str, BaseDistribution] = {"a": CategoricalDistribution(["u", "v"]), "b": IntDistribution(0, 1)}
    study = optuna.create_study(sampler=TunesmithSampler(seed=1))
    for _ in range(10):
        trial = study.ask(distributions)
        study.tell(trial, float(trial.params["b"]))
    tried = {(trial.params["a"], trial.params["b"]) for trial in study.trials}
    assert len(tried) == 4


def test_a_grid_search_visits_every_point_once() -> None:
    distributions: dict[str, BaseDistribution] = {
        "a": CategoricalDistribution(["u", "v", None]),
        "b": IntDistribution(0, 4, step=2),
    }
    sampler = TunesmithSampler(seed=1, algorithm="grid_search", search_space=distributions)
    study = optuna.create_study(sampler=sampler)
    for _ in range(9):
        study.tell(study.ask(distributions), 0.0)
    assert len({(trial.params["a"], trial.params["b"]) for trial in study.trials}) == 9


def test_an_algorithm_that_does_not_support_the_study_is_refused() -> None:
    space: dict[str, BaseDistribution] = {"x": FloatDistribution(0, 1)}
    sampler = TunesmithSampler(algorithm="cma_es", search_space=space)
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
    with pytest.raises(TunesmithError, match=r"(?i)cma"):
        study.ask(space)


def test_a_parameter_drawn_independently_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    def objective(trial: Trial) -> float:
        x = trial.suggest_float("x", 0, 1)
        return trial.suggest_float("y", 0, 1 + x)

    with caplog.at_level(logging.WARNING, logger="tunesmith"):
        points(TunesmithSampler(seed=1), 6, objective)
    [record] = caplog.records
    assert "parameter 'y' is drawn independently of the search, because its range changes" in record.getMessage()
    caplog.clear()
    points(TunesmithSampler(seed=1, warn_independent_sampling=False), 6, objective)
    assert caplog.records == []


def test_a_search_space_that_does_not_fit_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    space: dict[str, BaseDistribution] = {"x": FloatDistribution(10, 20)}
    with caplog.at_level(logging.WARNING, logger="tunesmith"):
        found = points(TunesmithSampler(seed=1, search_space=space), 3, lambda trial: trial.suggest_float("x", 0, 1))
    assert all(0 <= point["x"] <= 1 for point in found)
    [record] = caplog.records
    assert "parameter 'x' is drawn independently" in record.getMessage()
    assert "search_space does not fit" in record.getMessage()


def test_a_range_that_changed_once_is_adopted_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    study = optuna.create_study(sampler=TunesmithSampler(seed=1))
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=5)
    study.optimize(lambda trial: (trial.suggest_float("x", 4, 5) - 4.3) ** 2, n_trials=12)
    assert caplog.records == []
    assert min(abs(trial.params["x"] - 4.3) for trial in study.trials[5:]) < 0.1


def test_an_independent_sampler_of_ones_own_is_used() -> None:
    class Ones(optuna.samplers.RandomSampler):
        def sample_independent(self, *_: Any) -> float:
            return 1.0

    def objective(trial: Trial) -> float:
        x = trial.suggest_float("x", 0, 2)
        return x + trial.suggest_float("y", 0, 1 + x)

    found = points(TunesmithSampler(seed=1, independent_sampler=Ones(), warn_independent_sampling=False), 5, objective)
    assert found[0] == {"x": 1.0, "y": 1.0}
    # A third range shows that it changes from trial to trial.
    assert [point["y"] for point in found[3:]] == [1.0] * 2


def test_a_failure_retried_after_the_death_of_its_worker_is_no_result() -> None:
    distributions: dict[str, BaseDistribution] = {"x": FloatDistribution(0, 1)}
    study = optuna.create_study(sampler=TunesmithSampler(seed=1))
    for x in (0.0, 0.25, 0.5, 0.75, 1.0):
        study.add_trial(optuna.create_trial(params={"x": x}, distributions=distributions, value=(x - 0.5) ** 2))
    expected = study.ask(distributions).params["x"]

    # The same history, and a trial that failed and was then queued again.
    other = optuna.create_study(sampler=TunesmithSampler(seed=1))
    other.add_trials(study.trials[:5])
    other.add_trial(optuna.create_trial(state=TrialState.FAIL, params={"x": 0.5}, distributions=distributions))
    other.add_trial(
        optuna.create_trial(
            state=TrialState.FAIL, system_attrs={"failed_trial": 5, "retry_history": [5]}, distributions={}, params={}
        )
    )
    assert other.ask(distributions).params["x"] == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "seed -1 is not an integer from 0 to 2^63 - 1"),
        ({"seed": 2**63}, "seed 9223372036854775808 is not"),
        ({"seed": 0.5}, "seed 0.5 is not"),
        ({"algorithm": "best"}, "algorithm 'best' is not one of automatic, "),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("^", r"\^")):
        TunesmithSampler(**arguments)


def test_a_search_space_of_something_else_is_refused_by_name() -> None:
    space: dict[str, Any] = {"x": (0, 1)}
    with pytest.raises(TypeError, match="parameter 'x': tuple is not a float, int or categorical distribution"):
        TunesmithSampler(search_space=space)
