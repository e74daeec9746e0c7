"""`minimize` and `maximize`: results, arguments, reports, threads."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

import tunesmith
from objectives import parabola
from tunesmith import Metric, Result

LINE: dict[str, Any] = {"x": (-2.0, 2.0)}


def test_ten_lines_find_the_least_value() -> None:
    result = tunesmith.minimize(parabola, LINE, trials=20, seed=1)
    assert abs(result.parameters["x"] - 1) < 0.05
    assert result.value == parabola(result.parameters) == result.best.metrics["value"]
    assert [trial.number for trial in result.trials] == list(range(1, 21))
    assert result.value == min(trial.metrics["value"] for trial in result.trials)
    assert result.front == [result.best]
    assert abs(result.recommended.parameters["x"] - 1) < 0.05
    assert not result.interrupted


def test_maximize_finds_the_greatest_value() -> None:
    result = tunesmith.maximize(lambda parameters: -parabola(parameters), LINE, trials=20, seed=1)
    assert abs(result.parameters["x"] - 1) < 0.05
    assert result.value == max(trial.metrics["value"] for trial in result.trials)


def test_a_seed_gives_the_same_trials() -> None:
    runs = [tunesmith.minimize(parabola, LINE, trials=8, seed=3) for _ in range(2)]
    first, second = ([trial.parameters for trial in result.trials] for result in runs)
    assert first == second
    assert [trial.parameters for trial in tunesmith.minimize(parabola, LINE, trials=8, seed=4).trials] != first


def test_a_text_gives_a_metric_and_a_callable_a_run() -> None:
    assert tunesmith.minimize("loss") == Metric("loss", "MINIMIZE")
    assert tunesmith.maximize(name="accuracy") == Metric("accuracy", "MAXIMIZE")
    assert tunesmith.minimize("cost", safety_threshold=1.0).safety_threshold == 1.0
    result: Result = tunesmith.minimize(objective=parabola, space=LINE, trials=1)
    assert len(result.trials) == 1
    with pytest.raises(TypeError, match=r"minimize\(\) takes an objective, or the name of a metric, not 3"):
        tunesmith.minimize(3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"maximize\(\) takes .* not None"):
        tunesmith.maximize()  # type: ignore[call-overload]


def test_parameters_may_be_conditional() -> None:
    optimizer = tunesmith.categorical("optimizer", ["adam", "sgd"]).when("sgd", tunesmith.double("momentum", 0, 0.9))

    def objective(parameters: dict[str, Any]) -> float:
        assert ("momentum" in parameters) == (parameters["optimizer"] == "sgd")
        return float(1 - parameters.get("momentum", 0.2))

    result = tunesmith.minimize(objective, [optimizer], trials=15, seed=1)
    assert result.parameters["optimizer"] == "sgd"
    assert result.parameters["momentum"] > 0.7


def test_several_metrics_have_a_front() -> None:
    def objective(parameters: dict[str, Any]) -> dict[str, float]:
        x = parameters["x"]
        return {"a": x, "b": -x if x <= 1 else 5.0}

    result = tunesmith.minimize(objective, LINE, trials=12, seed=1, metrics=["a", "b"])
    assert len(result.front) > 1
    assert all(trial.parameters["x"] <= 1 for trial in result.front)
    with pytest.raises(ValueError, match="front"):
        _ = result.best
    assert "optimal trial" in repr(result)


def test_a_constraint_limits_the_best_trial() -> None:
    def objective(parameters: dict[str, Any]) -> dict[str, float]:
        return {"loss": -parameters["x"], "size": parameters["x"]}

    limit = tunesmith.minimize("size", safety_threshold=0.5)
    result = tunesmith.minimize(objective, LINE, trials=20, seed=1, metrics=["loss", limit])
    assert result.best.metrics["size"] <= 0.5
    assert result.value == result.best.metrics["loss"] == -result.parameters["x"]


def test_metrics_have_the_goal_of_the_function() -> None:
    with pytest.raises(ValueError, match=r"minimize\(\) needs a metric with this goal .* only 'accuracy'"):
        tunesmith.minimize(parabola, LINE, metrics=[tunesmith.maximize("accuracy")])
    with pytest.raises(ValueError, match="only an empty list"):
        tunesmith.minimize(parabola, LINE, metrics=[])
    with pytest.raises(TypeError, match="'loss' is not a list"):
        tunesmith.minimize(parabola, LINE, metrics="loss")
    with pytest.raises(TypeError, match="metrics: 3 is neither"):
        tunesmith.minimize(parabola, LINE, metrics=[3])  # type: ignore[list-item]
    result = tunesmith.minimize(parabola, LINE, trials=1, metrics=[tunesmith.minimize("loss")])
    assert result.value == result.best.metrics["loss"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": 0}, "trials: 0 is not a whole number from 1 on"),
        ({"trials": 2.5}, "trials: 2.5 is not"),
        ({"parallel": 0}, "parallel: 0 is not"),
        ({"parallel": True}, "parallel: True is not"),
        ({"timeout": 0}, "timeout: 0 is not a number of seconds above 0"),
        ({"executor": 3}, "executor: 3 is not a concurrent.futures.Executor"),
        ({"catch": (KeyboardInterrupt,)}, "catch: .*KeyboardInterrupt.* is not a class of exceptions"),
        ({"catch": "ValueError"}, "catch: 'ValueError' is not a class"),
        ({"progress": "yes"}, "progress: 'yes' is not True, False or None"),
        ({"n_trials": 3}, r"minimize\(\) has no argument 'n_trials'; it has trials, parallel"),
    ],
)
def test_invalid_arguments_are_named(options: dict[str, Any], message: str) -> None:
    calls: list[dict[str, Any]] = []
    with pytest.raises((TypeError, ValueError), match=message):
        tunesmith.minimize(calls.append, LINE, **options)
    assert calls == []


def test_a_coroutine_function_is_refused() -> None:
    async def objective(_: dict[str, Any]) -> float:
        return 1.0

    with pytest.raises(TypeError, match="coroutine function"):
        tunesmith.minimize(objective, LINE)  # type: ignore[arg-type]


def test_reports_decide_where_the_objective_returns_none() -> None:
    def objective(parameters: dict[str, Any]) -> None:
        trial = tunesmith.current_trial()
        assert trial is not None
        assert trial.parameters == parameters
        for step in (1, 2, 3):
            trial.report(parameters["x"] + step, step=step)

    result = tunesmith.minimize(objective, LINE, trials=4, seed=1)
    for trial in result.trials:
        assert trial.metrics["value"] == trial.parameters["x"] + 3
        assert [measurement.step for measurement in trial.measurements] == [1, 2, 3]
    assert tunesmith.current_trial() is None


def test_the_best_report_counts_if_so_configured() -> None:
    def objective(parameters: dict[str, Any]) -> None:
        trial = tunesmith.current_trial()
        assert trial is not None
        for value in (5.0, parameters["x"] - 10, 7.0):
            trial.report(value)

    result = tunesmith.minimize(objective, LINE, trials=3, seed=1, final_measurement="best")
    assert [trial.metrics["value"] for trial in result.trials] == [
        trial.parameters["x"] - 10 for trial in result.trials
    ]


@pytest.mark.parametrize("parallel", [1, 3])
def test_unpromising_trials_are_stopped_early(parallel: int) -> None:
    def objective(parameters: dict[str, Any]) -> None:
        trial = tunesmith.current_trial()
        assert trial is not None
        # Better trials come first, so that later ones are worse than the median.
        for step in range(1, 21):
            trial.report(float(trial.number), step=step)
            if trial.should_stop():
                return

    result = tunesmith.minimize(objective, LINE, trials=16, seed=1, parallel=parallel, automated_stopping="median")
    steps = [len(trial.measurements) for trial in result.trials]
    assert steps[0] == 20
    assert min(steps) < 20
    assert result.best.number == 1


def test_threads_run_as_many_trials_concurrently_as_allowed() -> None:
    # Each call waits until three others run; with fewer threads the barrier would break.
    barrier = threading.Barrier(4, timeout=60)
    names = set()

    def objective(parameters: dict[str, Any]) -> float:
        barrier.wait()
        names.add(threading.current_thread().name)
        trial = tunesmith.current_trial()
        assert trial is not None
        assert trial.parameters == parameters
        return parabola(parameters)

    result = tunesmith.minimize(objective, LINE, trials=40, seed=1, parallel=4)
    assert sorted(trial.metrics["value"] for trial in result.trials) == sorted(
        parabola(dict(trial.parameters)) for trial in result.trials
    )
    assert len(result.trials) == 40
    assert names == {f"tunesmith-{number}" for number in (1, 2, 3, 4)}


def test_a_finite_space_ends_the_run() -> None:
    space = {"a": [1, 2, 3], "b": [True, False]}
    for parallel in (1, 4):
        result = tunesmith.minimize(lambda parameters: parameters["a"], space, trials=50, seed=1, parallel=parallel)
        assert sorted((trial.parameters["a"], trial.parameters["b"]) for trial in result.trials) == [
            (a, b) for a in (1, 2, 3) for b in (False, True)
        ]


def test_no_trial_starts_after_the_timeout() -> None:
    assert len(tunesmith.minimize(parabola, LINE, trials=5, seed=1, timeout=3600).trials) == 5
    late = tunesmith.minimize(parabola, LINE, trials=5, seed=1, timeout=1e-9)
    assert late.trials == []
    assert repr(late) == "Result: 0 trials\n  no result"
    assert not late.interrupted


def test_the_objective_may_change_its_parameters() -> None:
    def objective(parameters: dict[str, Any]) -> float:
        return float(parameters.pop("x"))

    result = tunesmith.minimize(objective, LINE, trials=2, seed=1)
    assert all(trial.metrics["value"] == trial.parameters["x"] for trial in result.trials)


def test_a_run_inside_an_objective_has_its_own_trial() -> None:
    def inner(parameters: dict[str, Any]) -> float:
        trial = tunesmith.current_trial()
        assert trial is not None
        assert set(trial.parameters) == {"y"}
        return float(parameters["y"])

    def outer(parameters: dict[str, Any]) -> float:
        value = tunesmith.minimize(inner, {"y": (parameters["x"], 3.0)}, trials=3, seed=1).value
        trial = tunesmith.current_trial()
        assert trial is not None
        assert set(trial.parameters) == {"x"}
        return value

    result = tunesmith.minimize(outer, LINE, trials=3, seed=1)
    assert all(trial.metrics["value"] >= trial.parameters["x"] for trial in result.trials)


def test_a_result_is_shown_as_text_and_html() -> None:
    result = tunesmith.minimize(lambda parameters: 0.5, {"<x>": [None, "a&b"]}, trials=2, seed=1)
    number = result.best.number
    shown = result.parameters["<x>"]
    assert repr(result) == f"Result: 2 trials\n  best trial {number}: value=0.5\n    <x>={shown}"
    html = result._repr_html_()
    assert "<th>&lt;x&gt;</th>" in html
    assert "<td>0.5</td>" in html
    assert "<x>" not in html


def test_results_and_failures_can_be_pickled() -> None:
    def objective(parameters: dict[str, Any]) -> float:
        trial = tunesmith.current_trial()
        assert trial is not None
        if trial.number == 3:
            raise ValueError("no")
        return float(parameters["x"])

    with pytest.raises(tunesmith.ObjectiveFailed) as caught:
        tunesmith.minimize(objective, {"x": (-2.0, 2.0), "c": [None, 1]}, trials=5, seed=1)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    assert copy.trial == caught.value.trial
    assert copy.result.trials == caught.value.result.trials
    assert copy.result.best == caught.value.result.best


def test_concurrent_runs_of_one_study_are_refused(tmp_path: Path) -> None:
    storage = tmp_path / "data"

    def objective(parameters: dict[str, Any]) -> float:
        with pytest.raises(tunesmith.ConfigurationError, match=r"another run of study 'a' in .* is in progress"):
            tunesmith.minimize(parabola, LINE, trials=1, seed=1, storage=str(storage), name="a")
        other = tunesmith.minimize(parabola, LINE, trials=1, seed=1, storage=tmp_path / "other", name="a")
        return other.value

    for trials in (1, 2):
        assert (
            len(tunesmith.minimize(objective, LINE, trials=trials, seed=1, storage=storage, name="a").trials) == trials
        )
