"""Tables of trials."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pandas as pd

import tunesmith
from tunesmith import Result
from tunesmith._views import View, Views


def result() -> Result:
    """Twelve trials with choices, a conditional parameter, failures, and two metrics."""
    optimizer = tunesmith.categorical("optimizer", ["adam", "sgd"]).when("sgd", tunesmith.integer("state", 1, 9))
    space = {"optimizer": optimizer, "x": (0.0, 1.0), "n": (1, 5), "depth": [None, 3, True]}

    def objective(parameters: dict[str, Any]) -> dict[str, float]:
        trial = tunesmith.current_trial()
        assert trial is not None
        if trial.number == 4:
            raise MemoryError("too large")
        return {"loss": parameters["x"], "size": float(parameters["n"])}

    limit = tunesmith.minimize("size", safety_threshold=3)
    return tunesmith.minimize(objective, space, trials=12, seed=1, metrics=["loss", limit], catch=MemoryError)


def test_a_table_has_a_row_for_each_trial() -> None:
    run = result()
    table = run.to_dataframe()
    assert list(table.index) == list(range(1, 13))
    assert table.index.name == "number"
    assert list(table.columns) == [
        "state",
        "infeasible",
        "infeasible_reason",
        "start_time",
        "end_time",
        "metric.loss",
        "metric.size",
        "parameter.optimizer",
        "parameter.x",
        "parameter.n",
        "parameter.depth",
        "parameter.state",
    ]
    for trial in run.trials:
        row = table.loc[trial.number]
        assert row["state"] == "COMPLETED"
        assert row["infeasible"] == (trial.number == 4)
        assert row["infeasible_reason"] == trial.infeasible_reason
        assert row["parameter.optimizer"] == trial.parameters["optimizer"]
        assert row["parameter.x"] == trial.parameters["x"]
        assert row["parameter.n"] == trial.parameters["n"]
        assert row["parameter.depth"] is trial.parameters["depth"]
        if trial.number == 4:
            assert pd.isna(row["metric.loss"])
        else:
            assert row["metric.loss"] == trial.metrics["loss"]
        if "state" in trial.parameters:
            assert row["parameter.state"] == trial.parameters["state"]
        else:
            assert row["parameter.state"] is pd.NA
        assert row["end_time"] >= row["start_time"]
    types = table.dtypes.astype(str).to_dict()
    assert types["parameter.x"] == types["metric.loss"] == "float64"
    assert types["parameter.n"] == "int64"
    assert types["parameter.state"] == "Int64"
    assert types["parameter.depth"] == "object"
    assert types["infeasible"] == "bool"


def test_a_table_may_be_empty() -> None:
    def objective(_: dict[str, Any]) -> float:
        raise KeyboardInterrupt

    run = tunesmith.minimize(objective, {"x": (0.0, 1.0)}, trials=2)
    table = run.to_dataframe()
    assert list(table["state"]) == ["ACTIVE"]
    assert table["metric.value"].isna().all()


def test_a_missing_package_is_named() -> None:
    program = """
import sys, tunesmith
assert not {"numpy", "pandas", "plotly"} & set(sys.modules)
sys.modules["pandas"] = sys.modules["plotly"] = None
result = tunesmith.minimize(lambda parameters: 1.0, {"x": [1]})
for function in (result.to_dataframe, result.plot):
    try:
        function()
    except ImportError as error:
        print(error)
"""
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert output.stdout.splitlines() == [
        "pandas is not installed: pip install tunesmith[pandas]",
        "plotly is not installed: pip install tunesmith[plotly]",
    ], output.stderr


def test_any_class_with_trials_has_tables_and_plots() -> None:
    class Search(tunesmith.Optimizer, Views):
        def _view(self) -> View:
            return View(self.trials, self.parameters, self.metrics, self.importance)

    search = Search([tunesmith.double("x", 0, 1)], [tunesmith.minimize("loss")], seed=1)
    for _ in range(3):
        trial = search.ask()
        search.tell(trial, trial.parameters["x"])
    table = search.to_dataframe()
    assert (
        list(table["metric.loss"]) == list(table["parameter.x"]) == [trial.parameters["x"] for trial in search.trials]
    )
    assert list(search.plot().data[0].y) == list(table["metric.loss"])
