"""Linear learner: trains a linear classifier or regressor on a CSV file by the published rules.

The model is scikit-learn's ``MLPClassifier`` or ``MLPRegressor`` without hidden layers, trained by minibatches:
multinomial logistic regression, and linear least squares. Source: AI Platform's ``linear_learner_cpu``, an estimator of
TensorFlow.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import sklearn
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline

from . import arguments as parsing
from . import columns, features, linear_arguments, linear_metrics, linear_pipeline, outputs, program, splits, targets
from .arguments import Arguments
from .columns import NUMERICAL, Column
from .errors import InputError, notice
from .interrupts import Interrupt
from .reporting import Reporter
from .splits import Splits

EVALUATIONS = 20


def train(command_line: Sequence[str]) -> None:
    """Trains one model.

    Raises:
        InputError: if an argument or the data cannot be used.
    """
    arguments = parsing.parse(linear_arguments.TABLE, command_line)
    linear_arguments.check(arguments)
    interrupt = Interrupt()
    data = splits.read(arguments)
    found = _columns(arguments, data)
    encoder = linear_pipeline.encoder(found, 1, preprocess=arguments["preprocess"])
    encoder.fit(linear_pipeline.as_rows(data.training, 1))
    learner = _Learner(arguments, data)
    encoded = {name: encoder.transform(linear_pipeline.as_rows(rows, 1)) for name, rows in data.named()}
    watched = "validation" if data.validation else "training"
    if not data.validation:
        notice("there are no validation data: metrics are those of the training data")
    step = _run(arguments, learner, encoded, watched, interrupt)
    learner.finish()
    evaluation = {name: learner.evaluate(matrix, name) for name, matrix in encoded.items()}
    metric = "accuracy" if learner.classes is not None else "rmse"
    model = Pipeline([*linear_pipeline.lines_to_rows(), ("columns", encoder), ("model", learner.model)])
    outputs.write(
        arguments["job_dir"],
        outputs.Model(
            algorithm="linear_learner",
            framework="SCIKIT_LEARN",
            runtime_version=".".join(sklearn.__version__.split(".")[:2]),
            save=lambda folder: _save(model, folder),
            step=step,
            metrics={metric: evaluation[watched][metric]},
        ),
        {
            "algorithm": "linear_learner",
            "model_type": arguments["model_type"],
            "columns": [{"column": column.index + 1, "type": column.kind, "reason": column.reason} for column in found],
            "classes": learner.classes,
            "instances": "text lines of CSV without the target",
            "dropped_rows": data.dropped,
        },
        {"metric": metric, "steps": step, "splits": evaluation},
        dict(data.named()) if arguments["preprocess"] else {},
        with_generator=False,
    )


def _columns(arguments: Arguments, data: Splits) -> list[Column]:
    indices = list(range(1, len(data.training[0])))
    if arguments["preprocess"]:
        found = columns.infer(data.all_rows, indices)
    else:
        for name, rows in data.named():
            features.check_numeric(rows, indices, arguments[f"{name}_data_path"])
        found = [Column(index, NUMERICAL, "as given") for index in indices]
    for column in found:
        print(f"column {column.index + 1}: {column.kind} ({column.reason})", flush=True)
    if all(column.kind == columns.KEY for column in found):
        raise InputError("no column is left for features: all are instance keys")
    return found


class _Learner:
    """Model and targets. Targets of a regression are standardised while the model is trained, with ``--preprocess``."""

    def __init__(self, arguments: Arguments, data: Splits) -> None:
        is_adam = arguments["optimizer_type"] == "adam"
        settings: dict[str, Any] = {
            "hidden_layer_sizes": (),
            "solver": arguments["optimizer_type"],
            "alpha": 0.0,
            "learning_rate_init": arguments["learning_rate"],
            "random_state": arguments["seed"],
        }
        if is_adam:
            settings |= {"beta_1": arguments["beta_1"], "beta_2": arguments["beta_2"]}
        else:
            settings |= {"momentum": 0.0, "nesterovs_momentum": False}
        self.classes: list[str] | None = None
        self.scale, self.mean = 1.0, 0.0
        if arguments["model_type"] == "classification":
            self.classes = targets.classes(data.all_rows)
            self.model = MLPClassifier(**settings)
            self.targets = {name: np.array([row[0] for row in rows]) for name, rows in data.named()}
            return
        self.model = MLPRegressor(**settings)
        self.targets = {name: np.array(targets.numbers(rows)) for name, rows in data.named()}
        if arguments["preprocess"]:
            self.mean = float(self.targets["training"].mean())
            self.scale = float(self.targets["training"].std()) or 1.0

    def step(self, matrix: Any, rows: Any) -> None:
        """One step of the optimiser with a minibatch, the ``rows`` of the training data."""
        chosen = self.targets["training"][rows]
        # One pass over the minibatch as a whole is one step.
        self.model.set_params(batch_size=len(rows))
        if self.classes is not None:
            self.model.partial_fit(matrix[rows], chosen, classes=self.classes)
        else:
            self.model.partial_fit(matrix[rows], (chosen - self.mean) / self.scale)

    def finish(self) -> None:
        """Makes the model of a regression predict in the unit of the target."""
        if self.classes is None:
            self.model.coefs_[-1] *= self.scale
            self.model.intercepts_[-1] = self.model.intercepts_[-1] * self.scale + self.mean
            self.scale, self.mean = 1.0, 0.0

    def evaluate(self, matrix: Any, name: str, rows: int | None = None) -> dict[str, float]:
        """Metrics of the first ``rows`` rows of a split."""
        part, expected = matrix[:rows], self.targets[name][:rows]
        if self.classes is None:
            return linear_metrics.regression(expected, self.model.predict(part) * self.scale + self.mean)
        return linear_metrics.classification(expected, self.model.predict_proba(part), self.model.classes_)


def _run(arguments: Arguments, learner: _Learner, encoded: dict[str, Any], watched: str, interrupt: Interrupt) -> int:
    """Trains up to the limits, and returns the number of steps."""
    steps, seconds = arguments["max_steps"], arguments["max_train_secs"]
    matrix = encoded["training"]
    size = min(arguments["batch_size"], len(matrix))
    batches = _batches(len(matrix), size, arguments["seed"])
    evaluated = arguments["eval_steps"] * size if arguments["eval_steps"] > 0 else None
    interval = max(steps // EVALUATIONS, 1) if steps > 0 else 100
    reporter, start, step = Reporter(), time.monotonic(), 0
    is_last = False
    while not is_last:
        step += 1
        try:
            with np.errstate(all="ignore"):
                learner.step(matrix, next(batches))
        except ValueError as error:
            raise InputError(
                f"the training diverged in step {step}: {error}; lower --learning_rate, or use --preprocess, which "
                f"standardises the data"
            ) from error
        is_last = step == steps or interrupt.is_raised or 0 < seconds <= time.monotonic() - start
        if step % interval == 0 or is_last:
            reporter.report(step, learner.evaluate(encoded[watched], watched, evaluated))
    if interrupt.is_raised:
        notice(f"stopped early after {step} steps; the model so far is saved")
    return step


def _batches(rows: int, size: int, seed: int) -> Iterator[Any]:
    """Minibatches of row numbers, shuffled anew in each pass; the last one of a pass may be smaller."""
    generator = np.random.default_rng(seed)
    while True:
        order = generator.permutation(rows)
        for start in range(0, rows, size):
            yield order[start : start + size]


def _save(model: Any, folder: Path) -> None:
    joblib.dump(model, folder / "model.joblib")


if __name__ == "__main__":
    program.run(train)
