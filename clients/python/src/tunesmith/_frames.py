"""Tables of trials, with pandas."""

from __future__ import annotations

from typing import Any

from ._views import View


def dataframe(view: View, pandas: Any) -> Any:
    """Returns the `DataFrame` that `Views.to_dataframe` documents. `pandas` is the module."""
    trials = view.trials
    columns: dict[str, Any] = {
        "state": [trial.state for trial in trials],
        "infeasible": [trial.infeasible for trial in trials],
        "infeasible_reason": [trial.infeasible_reason for trial in trials],
        "start_time": pandas.to_datetime([trial.start_time for trial in trials], utc=True),
        "end_time": pandas.to_datetime([trial.end_time for trial in trials], utc=True),
    }
    for metric in view.metrics:
        values = [trial.metrics.get(metric.name, float("nan")) for trial in trials]
        columns[f"metric.{metric.name}"] = pandas.array(values, dtype="float64")
    names = [parameter.name for parameter in view.parameters]
    for name in dict.fromkeys([*names, *(name for trial in trials for name in trial.parameters)]):
        columns[f"parameter.{name}"] = _column([trial.parameters.get(name, _MISSING) for trial in trials], pandas)
    index = pandas.Index([trial.number for trial in trials], name="number", dtype="int64")
    return pandas.DataFrame({name: pandas.Series(values, index=index) for name, values in columns.items()}, index=index)


_MISSING = object()


def _column(values: list[Any], pandas: Any) -> Any:
    """Returns a parameter's values with the narrowest type that keeps each of them."""
    present = [value for value in values if value is not _MISSING]
    types = {type(value) for value in present}
    is_complete = len(present) == len(values)
    if types == {int} and all(-(2**63) <= value < 2**63 for value in present):
        return pandas.array(
            [pandas.NA if value is _MISSING else value for value in values], dtype="int64" if is_complete else "Int64"
        )
    if types == {float}:
        return pandas.array([float("nan") if value is _MISSING else value for value in values], dtype="float64")
    # Choices such as None and True stay themselves.
    column = pandas.Series([None] * len(values), dtype="object")
    for position, value in enumerate(values):
        column.iloc[position] = pandas.NA if value is _MISSING else value
    return column.array
