"""Boosted trees: results, reports and files."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import xgboost
from sklearn import datasets

from conftest import Workspace
from tunesmith_builtin.boosted_trees_arguments import METRICS

# Data sets that ship with scikit-learn, with the objective and the metric to compare.
DATA = {
    "iris": ("multi:softmax", "merror"),
    "wine": ("multi:softprob", "merror"),
    "digits": ("multi:softmax", "merror"),
    "breast_cancer": ("binary:logistic", "error"),
    "diabetes": ("reg:linear", "rmse"),
}


def load(name: str) -> tuple[Any, Any]:
    data, target = getattr(datasets, f"load_{name}")(return_X_y=True)
    return data, target


@pytest.mark.parametrize("name", DATA)
def test_results_are_those_of_plain_xgboost(workspace: Workspace, name: str) -> None:
    data, target = load(name)
    objective, metric = DATA[name]
    order = np.random.default_rng(3).permutation(len(target))
    parts = {"training": order[: len(order) * 7 // 10], "validation": order[len(order) * 7 // 10 :]}
    columns = {part: zip(target[rows], *data[rows].T, strict=True) for part, rows in parts.items()}
    paths = {part: workspace.data(rows, f"{part}.csv") for part, rows in columns.items()}
    classes = [f"--num_class={target.max() + 1}"] if objective.startswith("multi:") else []
    settings = ["--eta=0.2", "--max_depth=4", "--num_boost_round=15", "--subsample=0.8", "--lambda=2"]
    run = workspace.run(
        "boosted_trees",
        f"--training_data_path={paths['training']}",
        f"--validation_data_path={paths['validation']}",
        f"--objective={objective}",
        *classes,
        *settings,
    )
    assert run.code == 0, run.log

    matrices = {part: xgboost.DMatrix(data[rows], label=target[rows]) for part, rows in parts.items()}
    plain: dict[str, Any] = {}
    parameters = {"objective": objective.replace("reg:linear", "reg:squarederror"), "eval_metric": metric, "seed": 0}
    parameters |= {"eta": 0.2, "max_depth": 4, "subsample": 0.8, "lambda": 2}
    if classes:
        parameters["num_class"] = int(target.max() + 1)
    xgboost.train(
        parameters,
        matrices["training"],
        15,
        evals=[(matrix, part) for part, matrix in matrices.items()],
        evals_result=plain,
        verbose_eval=False,
    )
    reported = [float(report[metric]) for report in run.reports]
    assert reported == plain["validation"][metric]
    assert len(reported) == 15
    assert run.json("artifacts/evaluation.json")["splits"]["validation"][metric] == reported[-1]
    assert not (run.job_dir / "processed_data").exists()


def test_files_reports_and_labels_of_a_classification(workspace: Workspace) -> None:
    data, target = load("iris")
    names = ["setosa", "versicolor", "virginica"]
    rows = [[names[label], *values] for label, values in zip(target, data, strict=True)]
    run = workspace.run(
        "boosted_trees",
        f"--training_data_path={workspace.data(rows)}",
        "--preprocess=true",
        "--num_boost_round=4",
        "--objective=multi:softmax",
        "--num_class=3",
        "--eval_metric=mlogloss",
    )
    assert run.code == 0, run.log
    files = sorted(str(path.relative_to(run.job_dir)) for path in run.job_dir.rglob("*") if path.is_file())
    assert files == [
        "artifacts/evaluation.json",
        "artifacts/instance_generator.py",
        "artifacts/metadata.json",
        "model/deployment_config.yaml",
        "model/model.bst",
        "processed_data/test.csv",
        "processed_data/training.csv",
        "processed_data/validation.csv",
    ]
    metadata = run.json("artifacts/metadata.json")
    assert metadata["classes"] == names
    assert metadata["metric"] == "mlogloss"
    assert [report["global_step"] for report in run.reports] == ["1", "2", "3", "4"]
    last = run.reports[-1]
    assert last["trial"] == "7"
    assert last["mlogloss"] == last["validation-mlogloss"]
    assert abs(float(last["accuracy"]) - (1 - float(last["merror"]))) < 1e-12
    # The model answers the rows of the test data, as deployed models of users do.
    test = np.array(run.rows("test"), dtype=float)
    booster = xgboost.Booster()
    booster.load_model(bytearray((run.job_dir / "model/model.bst").read_bytes()))
    predicted = booster.predict(xgboost.DMatrix(test[:, 1:]))
    wrong = float(np.mean(predicted != test[:, 0]))
    evaluation = run.json("artifacts/evaluation.json")
    assert evaluation["rounds"] == 4
    assert abs(evaluation["splits"]["test"]["merror"] - wrong) < 1e-6
    accuracy = round(evaluation["splits"]["validation"]["accuracy"] * 100)
    version = ".".join(map(str, sys.version_info[:2]))
    assert (run.job_dir / "model/deployment_config.yaml").read_text() == (
        f'deploymentUri: "{run.job_dir}/model/"\n'
        f'framework: XGBOOST\nruntimeVersion: "3.2"\npythonVersion: "{version}"\nlabels:\n'
        f'  algorithm: "boosted_trees"\n  job_id: "birds_1"\n  global_step: "4"\n'
        f'  accuracy: "{accuracy}"\n  error_percentage: "{100 - accuracy}"\n'
    )


@pytest.mark.parametrize("objective", METRICS)
def test_all_objectives_train(workspace: Workspace, objective: str) -> None:
    generator = np.random.default_rng(0)
    data = generator.random((60, 3))
    is_classes = objective.startswith(("binary:", "multi:"))
    # Positive, and shares for the logistic regression.
    target = (data[:, 0] > 0.5).astype(int) if is_classes else data[:, 0] * 0.9 + 0.05
    path = workspace.data(zip(target, *data.T, strict=True))
    more = ["--num_class=2"] if objective.startswith("multi:") else []
    run = workspace.run("boosted_trees", f"--training_data_path={path}", f"--objective={objective}", *more)
    assert run.code == 0, run.log
    assert "notice: there are no validation data: metrics are those of the training data" in run.log
    assert METRICS[objective] in run.reports[-1]


def test_boosters_updaters_weights_and_early_stopping(workspace: Workspace) -> None:
    data, target = load("diabetes")
    rows = [[label, 1 + index % 2, *values] for index, (label, values) in enumerate(zip(target, data, strict=True))]
    path = workspace.data(rows)
    common = [f"--training_data_path={path}", "--preprocess", "--objective=reg:linear", "--csv_weight=1"]
    settings = {
        "gblinear": ["--booster=gblinear", "--updater=coord_descent", "--feature_selector=greedy", "--top_k=3"],
        "dart": ["--booster=dart", "--rate_drop=0.2", "--one_drop=1", "--sample_type=weighted"],
        "stopped": ["--num_boost_round=500", "--early_stopping_rounds=3", "--eta=0.5"],
    }
    runs = {name: workspace.run("boosted_trees", *common, *arguments) for name, arguments in settings.items()}
    for run in runs.values():
        assert run.code == 0, run.log
    assert 3 < runs["stopped"].json("artifacts/evaluation.json")["rounds"] < 500
    # The weight is no feature.
    assert len(runs["dart"].rows("training")[0]) == 11


def test_an_interrupted_training_saves_its_model(workspace: Workspace) -> None:
    data, target = load("diabetes")
    path = workspace.data(zip(target, *data.T, strict=True))
    job_dir = workspace.folder / "job"
    arguments = [f"--training_data_path={path}", "--objective=reg:linear", "--num_boost_round=1000000"]
    command = [sys.executable, "-m", "tunesmith_builtin.boosted_trees", *arguments, f"--job-dir={job_dir}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any(line.startswith("step 2:") for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate()
    assert process.returncode == 0
    assert "rounds; the model so far is saved" in log
    assert (job_dir / "model/model.bst").exists()


def test_refusals_of_xgboost_are_shown_without_a_trace(workspace: Workspace) -> None:
    path = workspace.data([[i, i + 0.5] for i in range(20)])
    run = workspace.run(
        "boosted_trees", f"--training_data_path={path}", "--objective=reg:linear", "--eval_metric=nonsense"
    )
    assert run.code == 2
    assert "error: XGBoost refuses the arguments: " in run.log
    assert "Traceback" not in run.log
