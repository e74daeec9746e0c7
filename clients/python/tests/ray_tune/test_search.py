"""The searcher's own behaviour: metrics, results, concurrency, saved state."""

from __future__ import annotations

import copy
import logging
import math
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray import tune
from ray.tune.search import ConcurrencyLimiter

from tunesmith.errors import InvalidArgument, NoResult
from tunesmith.ray import TunesmithSearch

SPACE = {"x": tune.uniform(0, 1), "c": tune.choice(["a", "b"])}


def new_search(**arguments: Any) -> TunesmithSearch:
    return TunesmithSearch(SPACE, "loss", "min", seed=1, **arguments)


def run(search: Any, first: int, last: int) -> list[dict[str, Any]]:
    configs = []
    for i in range(first, last):
        config = search.suggest(f"t{i}")
        search.on_trial_result(f"t{i}", {"loss": 5.0})
        search.on_trial_complete(f"t{i}", {"loss": (config["x"] - 0.3) ** 2})
        configs.append(config)
    return configs


def test_the_tuner_supplies_what_the_constructor_lacks() -> None:
    search = TunesmithSearch(seed=1)
    with pytest.raises(RuntimeError, match="TunesmithSearch has no space, metric, mode: give it to"):
        search.suggest("t0")
    assert search.set_search_properties("loss", "max", SPACE, num_samples=3, stop={}) is True
    assert search.optimizer.config["metrics"] == [{"metric": "loss", "goal": "MAXIMIZE"}]
    assert (search.metric, search.mode) == ("loss", "max")
    assert search.set_search_properties("loss", "max", SPACE) is False


def test_the_metric_may_come_from_the_tuner_for_a_space_of_the_constructor() -> None:
    search = TunesmithSearch(SPACE, mode="min")
    assert search.set_search_properties("loss", None, {"constant": 1}) is False
    assert search.optimizer.config["metrics"] == [{"metric": "loss", "goal": "MINIMIZE"}]


def test_a_metric_of_the_tuner_that_differs_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    search = TunesmithSearch(metric="loss", mode="min")
    with caplog.at_level(logging.WARNING, "tunesmith"):
        search.set_search_properties("accuracy", "min", SPACE)
    assert caplog.messages == ["the search uses the metric 'loss' of TunesmithSearch, not 'accuracy' of TuneConfig"]
    assert search.metric == "loss"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metric": "a", "mode": "minimize"}, "mode 'minimize' is not one of 'min', 'max'"),
        ({"metric": ["a", "b"], "mode": ["min", "obs"]}, "mode 'obs' is not one of 'min', 'max'"),
        ({"metric": ["a", "b"], "mode": ["min"]}, "are not both single, or lists of the same length"),
        ({"metric": ["a", "b"], "mode": "min"}, "are not both single, or lists of the same length"),
        ({"metric": ["a", "a"], "mode": ["min", "min"]}, r"metric \['a', 'a'\] is not a list of different names"),
        ({"max_concurrent": 0}, "max_concurrent 0 is not a positive integer"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TunesmithSearch(SPACE, **arguments)


def test_a_result_counts_once() -> None:
    search = new_search()
    run(search, 0, 4)
    records = search.optimizer.trials
    assert [record.state for record in records] == ["COMPLETED"] * 4
    assert [record.value for record in records] == [(record.parameters["x"] - 0.3) ** 2 for record in records]
    assert search.optimizer.best.value == min(record.value for record in records)


def test_the_search_finds_the_minimum() -> None:
    search = new_search()
    run(search, 0, 25)
    assert search.optimizer.best.value < 1e-3


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_results_that_are_not_finite_never_become_the_best(value: float) -> None:
    search = new_search()
    search.suggest("t0")
    search.on_trial_result("t0", {"loss": value})
    search.on_trial_complete("t0", {"loss": value})
    with pytest.raises(NoResult):
        _ = search.optimizer.best
    run(search, 1, 4)
    record = search.optimizer.trials[0]
    assert (record.infeasible, record.state) == (True, "COMPLETED")
    assert search.optimizer.best.number != 1


def test_a_failed_trial_is_infeasible() -> None:
    search = new_search()
    search.suggest("t0")
    search.on_trial_result("t0", {"loss": 0.0})
    search.on_trial_complete("t0", None, error=True)
    (record,) = search.optimizer.trials
    assert (record.infeasible, record.infeasible_reason) == (True, "the trial failed")


def test_a_trial_that_was_stopped_early_has_its_last_result() -> None:
    search = new_search()
    search.suggest("t0")
    search.on_trial_result("t0", {"loss": 3.0})
    search.on_trial_result("t0", {"loss": 2.0})
    search.on_trial_result("t0", {"training_iteration": 3})
    search.on_trial_complete("t0")
    assert search.optimizer.trials[0].value == 2.0


def test_a_trial_without_the_metric_is_infeasible() -> None:
    search = new_search()
    search.suggest("t0")
    search.on_trial_complete("t0", {"accuracy": 1.0})
    assert search.optimizer.trials[0].infeasible_reason == "no result has the metric loss"


def test_a_metric_that_is_no_number_is_refused() -> None:
    search = new_search()
    search.suggest("t0")
    with pytest.raises(TypeError, match="metric 'loss': 'low' is not a number"):
        search.on_trial_result("t0", {"loss": "low"})


def test_a_metric_may_be_a_path() -> None:
    search = TunesmithSearch(SPACE, "eval/loss", "min")
    results: list[dict[str, Any]] = [{"eval/loss": 1.5}, {"eval": {"loss": 2.5}}]
    for i, result in enumerate(results):
        search.suggest(f"t{i}")
        search.on_trial_complete(f"t{i}", result)
    assert [record.value for record in search.optimizer.trials] == [1.5, 2.5]


def test_late_results_are_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    search = new_search()
    run(search, 0, 1)
    before = search.optimizer.trials
    with caplog.at_level(logging.WARNING, "tunesmith"):
        search.on_trial_result("t0", {"loss": -1.0})
        search.on_trial_complete("t0", {"loss": -1.0})
        search.on_trial_complete("other", {"loss": -1.0})
    assert search.optimizer.trials == before
    assert caplog.messages == [
        "ignored a result of trial t0, which is already completed",
        "ignored a completion of trial t0, which is already completed",
        "ignored a completion of trial other, which is not of this search",
    ]


def test_several_metrics_have_a_pareto_front() -> None:
    search = TunesmithSearch(SPACE, ["loss", "size"], ["min", "max"], seed=1)
    assert search.set_search_properties(None, None, {}) is False
    for i, (loss, size) in enumerate([(1.0, 1.0), (2.0, 3.0), (3.0, 2.0)]):
        search.suggest(f"t{i}")
        search.on_trial_result(f"t{i}", {"loss": loss})
        search.on_trial_complete(f"t{i}", {"size": size})
    assert [record.number for record in search.optimizer.front] == [1, 2]
    search.add_evaluated_point({"x": 0.5, "c": "a"}, [0.5, 5.0])
    search.add_evaluated_point({"x": 0.6, "c": "a"}, {"loss": 9.0, "size": 0.0})
    assert [record.number for record in search.optimizer.front] == [4]
    with pytest.raises(ValueError, match=r"value 1.0 is not one number for each metric \(loss, size\)"):
        search.add_evaluated_point({"x": 0.5, "c": "a"}, 1.0)


def test_evaluated_points_are_trials() -> None:
    search = new_search()
    search.add_evaluated_point({"x": 0.25, "c": "b"}, 0.5)
    search.add_evaluated_point({"x": 0.75, "c": "b"}, None, pruned=True, intermediate_values=[3.0, 2.0])
    search.add_evaluated_point({"x": 0.5, "c": "a"}, 0.0, error=True)
    search.add_evaluated_point({"x": 0.5, "c": "a"}, math.nan)
    records = search.optimizer.trials
    assert [dict(record.parameters) for record in records[:2]] == [{"x": 0.25, "c": "b"}, {"x": 0.75, "c": "b"}]
    assert [record.metrics.get("loss") for record in records] == [0.5, 2.0, None, None]
    assert search.optimizer.best.number == 1
    with pytest.raises(InvalidArgument, match="c"):
        search.add_evaluated_point({"x": 0.25}, 0.5)
    with pytest.raises(ValueError, match=r"x: 7 is outside of 0\.0 to 1\.0"):
        search.add_evaluated_point({"x": 7, "c": "a"}, 0.5)
    with pytest.raises(ValueError, match="needs a value"):
        search.add_evaluated_point({"x": 0.5, "c": "a"}, None)
    assert len(search.optimizer.trials) == 4


def test_no_more_trials_run_than_max_concurrent() -> None:
    search = new_search(max_concurrent=2)
    first = search.suggest("t0")
    assert search.suggest("t0") == first
    search.suggest("t1")
    assert search.suggest("t2") is None
    search.on_trial_complete("t0", {"loss": 1.0})
    assert search.suggest("t2") is not None
    assert len(search.optimizer.trials) == 3


def test_a_limiter_replaces_max_concurrent_and_keeps_its_batches() -> None:
    search = new_search(max_concurrent=1)
    limiter = ConcurrencyLimiter(search, 3, batch=True)
    assert [limiter.suggest(f"t{i}") is None for i in range(4)] == [False, False, False, True]
    limiter.on_trial_complete("t0", {"loss": 1.0})
    assert limiter.suggest("t3") is None
    assert [record.state for record in search.optimizer.trials] == ["ACTIVE"] * 3
    limiter.on_trial_complete("t1", {"loss": 1.0})
    limiter.on_trial_complete("t2", {"loss": 1.0})
    assert [record.state for record in search.optimizer.trials] == ["COMPLETED"] * 3
    assert limiter.suggest("t3") is not None


def test_a_saved_search_continues_with_the_same_suggestions(tmp_path: Path) -> None:
    search = new_search(points_to_evaluate=[{"x": 0.5}] * 6)
    run(search, 0, 4)
    pending = search.suggest("t4")
    path = str(tmp_path / "search.pkl")
    search.save(path)
    restored = TunesmithSearch()
    restored.restore(path)
    assert restored.optimizer.trials == search.optimizer.trials
    assert restored.suggest("t4") == pending
    for each in (search, restored):
        each.on_trial_complete("t4", {"loss": 0.5})
    assert run(restored, 5, 12) == run(search, 5, 12)
    assert restored.set_search_properties("loss", "min", SPACE) is False


def test_only_saved_searches_are_restored(tmp_path: Path) -> None:
    path = tmp_path / "other.pkl"
    path.write_bytes(pickle.dumps({"_space": 1}))
    with pytest.raises(ValueError, match=r"other.pkl is not a state of TunesmithSearch"):
        new_search().restore(str(path))


def test_a_copy_is_independent() -> None:
    search = new_search()
    run(search, 0, 3)
    search.suggest("t3")
    copied = copy.deepcopy(search)
    copied.on_trial_complete("t3", {"loss": 1.0})
    assert [record.state for record in search.optimizer.trials][3] == "ACTIVE"
    assert [record.state for record in copied.optimizer.trials][3] == "COMPLETED"
    run(copied, 4, 6)
    assert (len(search.optimizer.trials), len(copied.optimizer.trials)) == (4, 6)


def test_the_seed_fixes_the_suggestions() -> None:
    one, two = run(new_search(), 0, 8), run(new_search(), 0, 8)
    other = run(TunesmithSearch(SPACE, "loss", "min", seed=2), 0, 8)
    assert one == two
    assert one != other


def test_the_error_without_ray_names_the_package_to_install() -> None:
    program = "import sys; sys.modules['ray'] = None; import tunesmith.ray"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.endswith("ModuleNotFoundError: tunesmith.ray needs Ray Tune: pip install 'tunesmith[ray]'\n")
