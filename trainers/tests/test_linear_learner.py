"""Linear learner: results, reports, and the pipeline that serves text lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn import datasets
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import StandardScaler

from conftest import Workspace


def load(name: str) -> tuple[Any, Any]:
    data, target = getattr(datasets, f"load_{name}")(return_X_y=True)
    return data, target


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "digits", "diabetes"])
def test_results_are_those_of_plain_scikit_learn(workspace: Workspace, name: str, optimizer: str) -> None:
    data, target = load(name)
    data = StandardScaler().fit_transform(data)
    is_regression = name == "diabetes"
    if is_regression:
        target = (target - target.mean()) / target.std()
    order = np.random.default_rng(5).permutation(len(target))
    training, validation = order[: len(order) * 7 // 10], order[len(order) * 7 // 10 :]
    paths = [
        workspace.data(zip(target[rows], *data[rows].T, strict=True), f"{part}.csv")
        for part, rows in (("training", training), ("validation", validation))
    ]
    # With all rows in one minibatch, scikit-learn's own passes are the same steps.
    run = workspace.run(
        "linear_learner",
        f"--training_data_path={paths[0]}",
        f"--validation_data_path={paths[1]}",
        "--max_steps=60",
        f"--model_type={'regression' if is_regression else 'classification'}",
        "--learning_rate=0.05",
        f"--batch_size={len(training)}",
        f"--optimizer_type={optimizer}",
        "--seed=4",
    )
    assert run.code == 0, run.log

    settings: dict[str, Any] = {"hidden_layer_sizes": (), "solver": optimizer, "alpha": 0.0, "learning_rate_init": 0.05}
    settings |= {"batch_size": len(training), "max_iter": 60, "n_iter_no_change": 61, "random_state": 4}
    settings["shuffle"] = False
    if optimizer == "sgd":
        settings |= {"momentum": 0.0, "nesterovs_momentum": False}
    last = {metric: float(value) for metric, value in run.reports[-1].items() if metric in ("accuracy", "loss", "rmse")}
    if is_regression:
        plain = MLPRegressor(**settings).fit(data[training], target[training])
        rmse = float(np.sqrt(np.mean((plain.predict(data[validation]) - target[validation]) ** 2)))
        assert last["rmse"] == pytest.approx(rmse, rel=1e-9)
        return
    plain = MLPClassifier(**settings).fit(data[training], target[training].astype(str))
    expected = target[validation].astype(str)
    assert last["accuracy"] == plain.score(data[validation], expected)
    loss = log_loss(expected, plain.predict_proba(data[validation]), labels=plain.classes_)
    assert last["loss"] == pytest.approx(loss, rel=1e-9)


def test_the_model_takes_text_lines_and_needs_no_code_of_this_package(workspace: Workspace) -> None:
    data, target = load("iris")
    names = ["setosa", "versicolor", "virginica"]
    colors = ["red", "green", "blue"]
    pairs = enumerate(zip(target, data, strict=True))
    rows = [[names[label], *values, colors[(index + label) % 3]] for index, (label, values) in pairs]
    run = workspace.run(
        "linear_learner",
        f"--training_data_path={workspace.data(rows)}",
        "--preprocess",
        "--learning_rate=0.05",
        "--model_type=classification",
    )
    assert run.code == 0, run.log
    assert len(run.reports) == 20
    assert run.reports[-1]["global_step"] == "1000"
    content = (run.job_dir / "model/model.joblib").read_bytes()
    assert b"tunesmith" not in content
    model = joblib.load(run.job_dir / "model/model.joblib")
    test = run.rows("test")
    lines = [", ".join(row[1:]) for row in test]
    right = [predicted == row[0] for predicted, row in zip(model.predict(lines), test, strict=True)]
    assert sum(right) / len(right) == run.json("artifacts/evaluation.json")["splits"]["test"]["accuracy"] > 0.8
    # A gap, an unknown category.
    assert model.predict(["5.1,,1.4,0.2,red", "5.1, 3.5, 1.4, 0.2, violet"]).tolist() == ["setosa", "setosa"]
    assert run.json("artifacts/metadata.json")["instances"] == "text lines of CSV without the target"
    text = (run.job_dir / "model/deployment_config.yaml").read_text()
    assert "framework: SCIKIT_LEARN\n" in text


def test_a_regression_predicts_in_the_unit_of_the_target(workspace: Workspace) -> None:
    data, target = load("diabetes")
    path = workspace.data(zip(target, *data.T, strict=True))
    run = workspace.run(
        "linear_learner",
        f"--training_data_path={path}",
        "--preprocess",
        "--model_type=regression",
        "--learning_rate=0.05",
    )
    assert run.code == 0, run.log
    model = joblib.load(run.job_dir / "model/model.joblib")
    test = run.rows("test")
    predicted = model.predict([",".join(row[1:]) for row in test])
    errors = predicted - np.array([float(row[0]) for row in test])
    found = run.json("artifacts/evaluation.json")["splits"]["test"]
    assert found["rmse"] == pytest.approx(float(np.sqrt(np.mean(errors**2))), rel=1e-12)
    assert found["loss"] == pytest.approx(found["rmse"] ** 2, rel=1e-12)
    # Better than the mean of the targets, whose error is their standard deviation.
    assert found["rmse"] < 0.85 * target.std()


def test_two_classes_have_the_further_metrics(workspace: Workspace) -> None:
    data, target = load("breast_cancer")
    path = workspace.data(zip(target, *data.T, strict=True))
    run = workspace.run(
        "linear_learner",
        f"--training_data_path={path}",
        "--preprocess",
        "--model_type=classification",
        "--max_steps=100",
        "--batch_size=50",
        "--eval_steps=2",
    )
    assert run.code == 0, run.log
    metrics = set(run.reports[-1]) - {"timestamp", "trial", "global_step", "checkpoint_path"}
    assert metrics == {"accuracy", "loss", "average_loss", "auc", "precision", "recall"}
    # Two minibatches of 50 rows.
    assert (float(run.reports[-1]["accuracy"]) * 100) % 1 == pytest.approx(0, abs=1e-9)


def test_a_diverging_training_is_an_error(workspace: Workspace, refused: Callable[..., str]) -> None:
    path = workspace.data([[i * 1e200, i * 1e150 + 0.5] for i in range(50)])
    error = refused(
        "linear_learner",
        f"--training_data_path={path}",
        "--model_type=regression",
        "--optimizer_type=sgd",
        "--learning_rate=10",
    )
    assert error.startswith("the training diverged in step ")
    assert error.endswith("lower --learning_rate, or use --preprocess, which standardises the data")
