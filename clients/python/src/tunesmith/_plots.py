"""Plots of trials, with plotly.

Each function returns a new `plotly.graph_objects.Figure`; `go` is the module `plotly.graph_objects`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from importlib import import_module
from numbers import Real
from typing import Any

from ._views import View
from .metrics import Metric
from .parameters import Parameter
from .records import TrialRecord


def figure(view: View, kind: str, metric: str | None, go: Any) -> Any:
    """Returns the figure that `Views.plot` documents."""
    kinds = {"history": _history, "slice": _slice, "importance": _importance, "parallel": _parallel}
    if kind not in kinds:
        raise ValueError(f"kind: {kind!r} is not one of {', '.join(kinds)}")
    return kinds[kind](view, _metric(view, metric), go)


def _metric(view: View, name: str | None) -> Metric:
    if name is None:
        return next((metric for metric in view.metrics if metric.safety_threshold is None), view.metrics[0])
    for metric in view.metrics:
        if metric.name == name:
            return metric
    raise ValueError(f"metric: {name!r} is not one of {', '.join(metric.name for metric in view.metrics)}")


def _history(view: View, metric: Metric, go: Any) -> Any:
    results = _results(view, metric)
    numbers = [trial.number for trial in results]
    plot = go.Figure()
    plot.add_trace(
        go.Scatter(
            x=numbers,
            y=[trial.metrics[metric.name] for trial in results],
            mode="markers",
            name="result",
            text=_hover(results),
            hovertemplate="trial %{x}: %{y}<br>%{text}<extra></extra>",
        )
    )
    if metric.safety_threshold is None:
        best = list(_best_so_far(results, view, metric))
        plot.add_trace(go.Scatter(x=numbers, y=best, mode="lines", line={"shape": "hv"}, name="best so far"))
    else:
        plot.add_hline(y=metric.safety_threshold, line_dash="dash", annotation_text="threshold")
    failed = [trial for trial in view.trials if trial.infeasible]
    if failed:
        # Failed trials have no value: they are marks at the lower edge, by their own axis.
        plot.add_trace(
            go.Scatter(
                x=[trial.number for trial in failed],
                y=[0.0] * len(failed),
                yaxis="y2",
                mode="markers",
                marker={"symbol": "x"},
                name="failed",
                text=[trial.infeasible_reason.replace("<", "&lt;") for trial in failed],
                hovertemplate="trial %{x}: %{text}<extra></extra>",
            )
        )
        plot.update_layout(yaxis2={"overlaying": "y", "range": [-0.02, 1], "visible": False, "fixedrange": True})
    plot.update_layout(xaxis_title="trial", yaxis_title=metric.name)
    return plot


def _slice(view: View, metric: Metric, go: Any) -> Any:
    results = _results(view, metric)
    axes = list(_axes(view.parameters))
    plot = import_module("plotly.subplots").make_subplots(rows=1, cols=len(axes), shared_yaxes=True)
    for column, axis in enumerate(axes, start=1):
        trials = [trial for trial in results if axis.name in trial.parameters]
        values = [trial.parameters[axis.name] for trial in trials]
        plot.add_trace(
            go.Scatter(
                x=values if axis.is_numeric else [_label(value) for value in values],
                y=[trial.metrics[metric.name] for trial in trials],
                mode="markers",
                marker={
                    "color": [trial.number for trial in trials],
                    "coloraxis": "coloraxis",
                },
                name=axis.name,
                text=_hover(trials),
                hovertemplate="%{y}<br>%{text}<extra></extra>",
            ),
            row=1,
            col=column,
        )
        kind = "category" if not axis.is_numeric else "log" if axis.is_log else "linear"
        plot.update_xaxes(title_text=axis.name, type=kind, row=1, col=column)
    plot.update_yaxes(title_text=metric.name, row=1, col=1)
    plot.update_layout(showlegend=False, coloraxis={"colorscale": "Viridis", "colorbar": {"title": "trial"}})
    return plot


def _importance(view: View, metric: Metric, go: Any) -> Any:
    shares = view.importance(metric.name)
    if not shares:
        raise ValueError(f"there are too few results of {metric.name!r} for the importance of parameters")
    ordered = sorted(shares.items(), key=lambda item: item[1])
    plot = go.Figure(
        go.Bar(x=[share for _, share in ordered], y=[name for name, _ in ordered], orientation="h", name=metric.name)
    )
    plot.update_layout(xaxis_title=f"share of the variance of {metric.name}", yaxis_type="category")
    plot.update_xaxes(range=[0, max(1.0, *shares.values())], tickformat=".0%")
    return plot


def _parallel(view: View, metric: Metric, go: Any) -> Any:
    results = [trial for trial in _results(view, metric) if math.isfinite(trial.metrics[metric.name])]
    dimensions = [_dimension(axis, results) for axis in _axes(view.parameters)]
    values = [trial.metrics[metric.name] for trial in results]
    dimensions.append({"label": metric.name, "values": values})
    line = {
        "color": values,
        "colorscale": "Viridis",
        "reversescale": metric.goal == "MINIMIZE",
        "showscale": True,
        "colorbar": {"title": metric.name},
    }
    return go.Figure(go.Parcoords(line=line, dimensions=dimensions))


class _Axis:
    """Values of all parameters of one name: children of different parents may share it."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self.name = parameters[0].name
        self.is_numeric = all(parameter.type != "CATEGORICAL" for parameter in parameters)
        self.is_log = self.is_numeric and all(parameter.scale == "log" for parameter in parameters)


def _axes(parameters: Sequence[Parameter]) -> Iterator[_Axis]:
    by_name: dict[str, list[Parameter]] = {}

    def visit(parameter: Parameter) -> None:
        by_name.setdefault(parameter.name, []).append(parameter)
        for _, child in parameter.children:
            visit(child)

    for parameter in parameters:
        visit(parameter)
    return map(_Axis, by_name.values())


def _dimension(axis: _Axis, trials: Sequence[TrialRecord]) -> dict[str, Any]:
    """Returns one vertical axis. Parallel coordinates have numbers only, and none may be missing."""
    labels = [_label(trial.parameters[axis.name]) for trial in trials if axis.name in trial.parameters]
    if not axis.is_numeric:
        ticks = dict.fromkeys(sorted(labels))
        missing = [] if len(labels) == len(trials) else [_NO_VALUE]
        names = [*missing, *ticks]
        positions = {name: position for position, name in enumerate(names)}
        values = [
            positions[_label(trial.parameters[axis.name]) if axis.name in trial.parameters else _NO_VALUE]
            for trial in trials
        ]
        return {"label": axis.name, "values": values, "tickvals": list(range(len(names))), "ticktext": names}
    numbers = [
        _position(float(trial.parameters[axis.name]), axis) if axis.name in trial.parameters else None
        for trial in trials
    ]
    present = [number for number in numbers if number is not None]
    if not present:
        return {"label": axis.name, "values": [0.0] * len(numbers), "tickvals": [0.0], "ticktext": [_NO_VALUE]}
    low, high = min(present), max(present)
    below = low - 0.1 * ((high - low) or 1.0)
    dimension: dict[str, Any] = {
        "label": axis.name,
        "values": [below if number is None else number for number in numbers],
    }
    if axis.is_log or len(present) < len(numbers):
        ticks_at = sorted({low + (high - low) * step / 4 for step in range(5)})
        dimension["tickvals"] = ticks_at
        dimension["ticktext"] = [f"{10**tick if axis.is_log else tick:.3g}" for tick in ticks_at]
        if len(present) < len(numbers):
            dimension["tickvals"].insert(0, below)
            dimension["ticktext"].insert(0, _NO_VALUE)
    return dimension


_NO_VALUE = "none"


def _position(value: float, axis: _Axis) -> float:
    return math.log10(value) if axis.is_log else value


def _results(view: View, metric: Metric) -> list[TrialRecord]:
    results = [trial for trial in view.trials if not trial.infeasible and metric.name in trial.metrics]
    if not results:
        raise ValueError(f"there are no results of {metric.name!r} to plot")
    return results


def _best_so_far(results: Sequence[TrialRecord], view: View, metric: Metric) -> Iterator[float | None]:
    better = min if metric.goal == "MINIMIZE" else max
    best: float | None = None
    for trial in results:
        value = trial.metrics[metric.name]
        if not math.isnan(value) and _satisfies(trial, view.metrics):
            best = value if best is None else better(best, value)
        yield best


def _satisfies(trial: TrialRecord, metrics: Sequence[Metric]) -> bool:
    for metric in metrics:
        threshold, value = metric.safety_threshold, trial.metrics.get(metric.name, float("nan"))
        if threshold is not None and not (value <= threshold if metric.goal == "MINIMIZE" else value >= threshold):
            return False
    return True


def _hover(trials: Sequence[TrialRecord]) -> list[str]:
    return [
        "<br>".join(f"{name}={_label(value)}".replace("<", "&lt;") for name, value in trial.parameters.items())
        for trial in trials
    ]


def _label(value: Any) -> str:
    if isinstance(value, Real) and not isinstance(value, (bool, int)):
        return f"{float(value):.6g}"
    return str(value)
