"""Boosted trees: trains XGBoost on a CSV file by the published rules.

Source: AI Platform's built-in algorithm ``boosted_trees``; the library is PyPI ``xgboost-cpu`` instead of XGBoost 0.81.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xgboost

from . import arguments as parsing
from . import boosted_trees_arguments, columns, features, outputs, program, splits, targets
from .arguments import Arguments
from .errors import InputError, notice
from .instance_generator import Encoder
from .interrupts import Interrupt
from .reporting import Reporter
from .splits import Splits
from .table import Row, number


def train(command_line: Sequence[str]) -> None:
    """Trains one model.

    Raises:
        InputError: if an argument or the data cannot be used.
    """
    arguments = parsing.parse(boosted_trees_arguments.TABLE, command_line)
    boosted_trees_arguments.check(arguments)
    interrupt = Interrupt()
    data = splits.read(arguments)
    prepared = _Prepared(arguments, data)
    rounds = arguments["num_boost_round"]
    reporting = _Reporting(prepared.watched, Reporter(), interrupt)
    try:
        booster = xgboost.train(
            boosted_trees_arguments.parameters(arguments),
            prepared.matrices["training"],
            num_boost_round=rounds,
            evals=[(prepared.matrices[name], name) for name in prepared.watched_splits],
            early_stopping_rounds=arguments["early_stopping_rounds"],
            verbose_eval=False,
            callbacks=[reporting],
        )
    except xgboost.core.XGBoostError as error:
        raise InputError(f"XGBoost refuses the arguments: {_first_line(error)}") from error
    evaluation = {name: _evaluate(booster, matrix, name) for name, matrix in prepared.matrices.items()}
    main_metric = boosted_trees_arguments.metrics(arguments)[-1]
    metadata = {
        "algorithm": "boosted_trees",
        "objective": arguments["objective"],
        "features": prepared.encoder.features,
        "classes": prepared.classes,
        "metric": main_metric,
        "dropped_rows": data.dropped,
    }
    outputs.write(
        arguments["job_dir"],
        outputs.Model(
            algorithm="boosted_trees",
            framework="XGBOOST",
            runtime_version=_runtime_version(),
            save=lambda folder: _save(booster, folder),
            step=reporting.rounds,
            metrics=_labels(evaluation[prepared.watched]),
        ),
        metadata,
        {"metric": main_metric, "rounds": reporting.rounds, "splits": evaluation},
        prepared.processed if arguments["preprocess"] else {},
        with_generator=True,
    )


class _Prepared:
    """Numeric data of a job."""

    def __init__(self, arguments: Arguments, data: Splits) -> None:
        first = 2 if arguments["csv_weight"] else 1
        indices = list(range(first, len(data.training[0])))
        if not indices:
            raise InputError("--csv_weight=1: the second column is the weight, and no column is left for features")
        path = arguments["training_data_path"]
        if arguments["preprocess"]:
            found = columns.infer(data.all_rows, indices)
            self.encoder = Encoder(features.fit(data.training, found))
        else:
            for name, rows in data.named():
                features.check_numeric(rows, indices, path if name == "training" else arguments[f"{name}_data_path"])
            self.encoder = Encoder(features.numeric(data.training, indices, path))
        self.classes = _classes(arguments, data)
        for feature in self.encoder.features:
            print(f"column {feature['column']}: {feature['type']} ({feature['reason']})", flush=True)
        self.matrices: dict[str, xgboost.DMatrix] = {}
        self.processed: dict[str, list[list[float]]] = {}
        for name, rows in data.named():
            labels = targets.numbers(rows) if self.classes is None else targets.indices(rows, self.classes)
            encoded = features.encode(rows, self.encoder, first)
            if not encoded[0]:
                raise InputError("no column is left for features: all are instance keys")
            weights = _weights(rows) if first == 2 else None
            self.matrices[name] = xgboost.DMatrix(np.array(encoded), label=labels, weight=weights)
            self.processed[name] = [[label, *row] for label, row in zip(labels, encoded, strict=True)]
        self.watched_splits = [name for name in ("training", "validation") if name in self.matrices]
        # The last one decides about an early stop of XGBoost.
        self.watched = self.watched_splits[-1]
        if self.watched == "training":
            notice("there are no validation data: metrics are those of the training data")


class _Reporting(xgboost.callback.TrainingCallback):  # type: ignore[misc]
    """Reports each boosting round, and ends the training on an early stop."""

    def __init__(self, watched: str, reporter: Reporter, interrupt: Interrupt) -> None:
        super().__init__()
        self._watched = watched
        self._reporter = reporter
        self._interrupt = interrupt
        self.rounds = 0

    def after_iteration(self, model: Any, epoch: int, evals_log: Mapping[str, Any]) -> bool:
        self.rounds = epoch + 1
        metrics: dict[str, float] = {}
        for name, values in evals_log[self._watched].items():
            metrics[name] = values[-1]
            plain = name.partition("@")[0]
            metrics.setdefault(plain, values[-1])
            # Share of right classes, for MAXIMIZE.
            if plain in ("error", "merror"):
                metrics["accuracy"] = 1 - values[-1]
        for split, results in evals_log.items():
            metrics |= {f"{split}-{name}": values[-1] for name, values in results.items()}
        self._reporter.report(self.rounds, metrics)
        if self._interrupt.is_raised:
            notice(f"stopped early after {self.rounds} rounds; the model so far is saved")
        return self._interrupt.is_raised


def _classes(arguments: Arguments, data: Splits) -> list[str] | None:
    """Classes by index; ``None`` for a regression, and for classes that are indices already."""
    objective = arguments["objective"]
    if not objective.startswith(("multi:", "binary:")):
        return None
    found = targets.classes(data.all_rows)
    allowed = arguments["num_class"] or 2
    if arguments["preprocess"]:
        if len(found) > allowed:
            given = f"--num_class={allowed}" if arguments["num_class"] else f"--objective={objective}"
            raise InputError(f"{given}: the target has {len(found)} classes: {', '.join(found[:10])}")
        return found
    for row in data.all_rows:
        value = number(row[0])
        if value is None or value != int(value) or not 0 <= value < allowed:
            raise InputError(
                f"the class {row[0]!r} is not a whole number from 0 to {allowed - 1}; --preprocess maps other classes"
            )
    return None


def _weights(rows: Sequence[Row]) -> list[float]:
    weights = [number(row[1]) for row in rows]
    for row, weight in zip(rows, weights, strict=True):
        if weight is None or weight < 0:
            raise InputError(f"--csv_weight=1: the weight {row[1]!r} in the second column is not a number from 0")
    return [weight for weight in weights if weight is not None]


def _evaluate(booster: xgboost.Booster, matrix: xgboost.DMatrix, name: str) -> dict[str, float]:
    """Metrics of the final model, from XGBoost's text: ``name-metric:value`` between tabs."""
    found: dict[str, float] = {}
    for entry in booster.eval_set([(matrix, name)]).split("\t")[1:]:
        metric, _, value = entry.removeprefix(f"{name}-").rpartition(":")
        found[metric] = float(value)
        if metric in ("error", "merror"):
            found["accuracy"] = 1 - float(value)
    return found


def _labels(metrics: Mapping[str, float]) -> dict[str, float]:
    """The share of wrong classes is published as ``error_percentage``."""
    if "accuracy" in metrics:
        return {"accuracy": metrics["accuracy"], "error_percentage": 1 - metrics["accuracy"]}
    return {name.replace("@", "_"): value for name, value in metrics.items()}


def _save(booster: xgboost.Booster, folder: Path) -> None:
    """Writes ``model.bst`` in UBJSON; the suffix alone would make XGBoost warn."""
    (folder / "model.bst").write_bytes(bytes(booster.save_raw("ubj")))


def _runtime_version() -> str:
    return ".".join(xgboost.__version__.split(".")[:2])


def _first_line(error: Exception) -> str:
    """Text of XGBoost's error without the time, source line and stack trace."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    head = lines[0] if lines else type(error).__name__
    return head.rpartition(": ")[2] if head.startswith("[") and ": " in head else head


if __name__ == "__main__":
    program.run(train)
