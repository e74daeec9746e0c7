"""Figures of trials."""

from __future__ import annotations

import math
from typing import Any, Literal

import plotly.graph_objects as go
import pytest

import tunesmith
from tunesmith import Result


@pytest.fixture(scope="module")
def result() -> Result:
    """Thirty trials with every kind of parameter, a conditional one, a constraint and failures."""
    optimizer = tunesmith.categorical("optimizer", ["adam", "sgd"]).when("sgd", tunesmith.double("momentum", 0.1, 0.9))
    space = {"optimizer": optimizer, "rate": (1e-4, 1.0, "log"), "n": (1, 5), "depth": [None, 3], "batch": [16, 32]}

    def objective(parameters: dict[str, Any]) -> dict[str, float]:
        trial = tunesmith.current_trial()
        assert trial is not None
        if trial.number in (4, 7):
            raise MemoryError("<too large>")
        return {"loss": math.log10(parameters["rate"]) ** 2 + parameters["n"], "size": float(parameters["n"])}

    limit = tunesmith.minimize("size", safety_threshold=3)
    return tunesmith.minimize(objective, space, trials=30, seed=1, metrics=["loss", limit], catch=MemoryError)


def test_the_history_has_results_the_best_so_far_and_failures(result: Result) -> None:
    figure = result.plot()
    assert isinstance(figure, go.Figure)
    assert figure == result.plot("history", "loss")
    points, best, failed = figure.data
    trials = [trial for trial in result.trials if not trial.infeasible]
    assert list(points.x) == [trial.number for trial in trials]
    assert list(points.y) == [trial.metrics["loss"] for trial in trials]
    assert list(failed.x) == [4, 7]
    assert list(failed.text) == ["MemoryError: &lt;too large>"] * 2
    expected: list[float | None] = []
    for trial in trials:
        former = expected[-1] if expected else None
        is_better = former is None or trial.metrics["loss"] < former
        expected.append(trial.metrics["loss"] if trial.metrics["size"] <= 3 and is_better else former)
    assert list(best.y) == expected
    assert best.y[-1] == result.value
    assert figure.layout.xaxis.title.text == "trial"
    assert figure.layout.yaxis.title.text == "loss"


def test_the_history_of_a_constraint_has_its_threshold(result: Result) -> None:
    figure = result.plot(metric="size")
    assert [trace.name for trace in figure.data] == ["result", "failed"]
    (threshold,) = figure.layout.shapes
    assert threshold.y0 == threshold.y1 == 3


def test_a_slice_has_a_plot_for_each_parameter(result: Result) -> None:
    figure = result.plot("slice")
    assert [trace.name for trace in figure.data] == ["optimizer", "momentum", "rate", "n", "depth", "batch"]
    axes = [getattr(figure.layout, f"xaxis{number or ''}") for number in ("", 2, 3, 4, 5, 6)]
    assert [axis.type for axis in axes] == ["category", "linear", "log", "linear", "category", "linear"]
    trials = [trial for trial in result.trials if not trial.infeasible]
    momentum, rate, depth = figure.data[1], figure.data[2], figure.data[4]
    with_momentum = [trial for trial in trials if "momentum" in trial.parameters]
    assert 0 < len(with_momentum) < len(trials)
    assert list(momentum.x) == [trial.parameters["momentum"] for trial in with_momentum]
    assert list(momentum.marker.color) == [trial.number for trial in with_momentum]
    assert list(rate.x) == [trial.parameters["rate"] for trial in trials]
    assert list(rate.y) == [trial.metrics["loss"] for trial in trials]
    assert set(depth.x) == {"None", "3"}


def test_the_importance_has_a_bar_for_each_parameter(result: Result) -> None:
    (bars,) = result.plot("importance").data
    importance = result.importance("loss")
    assert importance
    assert dict(zip(bars.y, bars.x, strict=True)) == importance
    assert list(bars.x) == sorted(bars.x)
    assert max(importance, key=lambda name: importance[name]) in ("rate", "n")


def test_parallel_coordinates_have_a_number_for_every_value(result: Result) -> None:
    (lines,) = result.plot("parallel").data
    trials = [trial for trial in result.trials if not trial.infeasible]
    dimensions = {dimension.label: dimension for dimension in lines.dimensions}
    assert list(dimensions) == ["optimizer", "momentum", "rate", "n", "depth", "batch", "loss"]
    for dimension in dimensions.values():
        assert len(dimension.values) == len(trials)
        assert all(math.isfinite(value) for value in dimension.values)
    optimizers = dimensions["optimizer"]
    assert [optimizers.ticktext[int(value)] for value in optimizers["values"]] == [
        trial.parameters["optimizer"] for trial in trials
    ]
    assert list(dimensions["rate"]["values"]) == [math.log10(trial.parameters["rate"]) for trial in trials]
    momentum = dimensions["momentum"]
    assert momentum.ticktext[0] == "none"
    for trial, value in zip(trials, momentum["values"], strict=True):
        assert value == trial.parameters.get("momentum", momentum.tickvals[0])
    assert momentum.tickvals[0] < min(momentum.tickvals[1:])
    assert list(lines.line.color) == [trial.metrics["loss"] for trial in trials]


def test_every_figure_can_be_written(result: Result) -> None:
    kinds: list[Literal["history", "slice", "importance", "parallel"]] = ["history", "slice", "importance", "parallel"]
    for kind in kinds:
        assert "<too large>" not in result.plot(kind).to_html()


def test_errors_say_what_is_allowed_or_missing() -> None:
    result = tunesmith.minimize(lambda parameters: parameters["x"], {"x": (0.0, 1.0)}, trials=1)
    with pytest.raises(ValueError, match="kind: 'pie' is not one of history, slice, importance, parallel"):
        result.plot("pie")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="metric: 'loss' is not one of value"):
        result.plot(metric="loss")
    with pytest.raises(ValueError, match="too few results of 'value' for the importance"):
        result.plot("importance")
    failed = tunesmith.minimize(lambda _: math.nan, {"x": (0.0, 1.0)}, trials=2)
    with pytest.raises(ValueError, match="no results of 'value' to plot"):
        failed.plot()
