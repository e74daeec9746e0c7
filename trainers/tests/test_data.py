"""Data rules: columns, splits, missing values, and the errors of files."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import fsspec

from conftest import Workspace
from tunesmith_builtin import columns, features
from tunesmith_builtin.instance_generator import Encoder

# 40 distinct rows of a regression with a number, a category and a key.
ROWS: list[list[Any]] = [[i * 1.5, i + 0.25, ["red", "green", "blue"][i % 3], 1000 + i] for i in range(40)]


def kinds(rows: list[list[str]]) -> list[str]:
    return [column.kind for column in columns.infer(rows, range(len(rows[0])))]


def test_types_of_columns_follow_the_published_rule() -> None:
    texts = [
        [str(i), str(i % 3), f"{i % 3}.0", f"code_{i % 3}", str(i % 90), "", str(i * 0.5), "" if i % 2 else "4"]
        for i in range(100)
    ]
    assert kinds(texts) == [
        "key",
        "categorical",
        "numerical",
        "categorical",
        "numerical",
        "numerical",
        "numerical",
        "categorical",
    ]
    # Three distinct integers are not few in 40 rows.
    assert kinds([row[:2] for row in texts[:40]]) == ["key", "numerical"]


def test_categories_are_one_hot_encoded_or_hashed_and_gaps_filled() -> None:
    rows = [["y", str(value), color] for value, color in zip([1.5, 2.5, "", 3.5], ["a", "", "b", "a"], strict=True)]
    encoder = Encoder(features.fit(rows, columns.infer(rows, [1, 2])))
    assert encoder.encode(["", "a"]) == [2.5, 0.0, 1.0, 0.0]
    assert encoder.encode(["7", ""]) == [7.0, 1.0, 0.0, 0.0]
    # A category that training has not seen.
    assert encoder.encode(["7", "c"]) == [7.0, 0.0, 0.0, 0.0]
    many = [["y", f"name_{i}"] for i in range(500)]
    hashed = Encoder(features.fit(many, columns.infer(many, [1])))
    instance = hashed.encode(["name_3"])
    assert len(instance) == features.HASH_BUCKETS
    assert sum(instance) == 1
    assert hashed.encode(["name_3"]) == instance


def test_rows_are_dropped_split_and_written(workspace: Workspace) -> None:
    wide: list[list[Any]] = [[i, *[i + k / 7 for k in range(20)]] for i in range(50)]
    # One of 21 values may be missing, three are too many; a row needs its target.
    wide[3][5] = ""
    wide[4][5:8] = ["", "", ""]
    wide[5][0] = ""
    run = workspace.run(
        "boosted_trees",
        f"--training_data_path={workspace.data(wide)}",
        "--preprocess",
        "--objective=reg:linear",
        "--validation_split=0.3",
        "--test_split=0.1",
    )
    assert run.code == 0, run.log
    assert "notice: 2 of 50 rows are dropped" in run.log
    sizes = {name: len(run.rows(name)) for name in ("training", "validation", "test")}
    assert sizes == {"training": 29, "validation": 14, "test": 5}
    targets = sorted(float(row[0]) for name in sizes for row in run.rows(name))
    assert targets == [float(i) for i in range(50) if i not in (4, 5)]
    # The gap has the mean of the column in the training split.
    filled = next(row for name in sizes for row in run.rows(name) if row[0] == "3.0")
    others = [float(row[5]) for row in run.rows("training") if row[0] != "3.0"]
    assert abs(float(filled[5]) - sum(others) / len(others)) < 1e-12


def test_files_that_a_path_matches_are_read_together(workspace: Workspace, refused: Callable[..., str]) -> None:
    for part in range(3):
        workspace.data([[part * 10 + row, row + 0.5] for row in range(10)], f"part-{part}.csv")
    path = f"--training_data_path={workspace.folder}/part-*.csv"
    run = workspace.run("boosted_trees", path, "--preprocess", "--objective=reg:linear", "--test_split=0")
    assert run.code == 0, run.log
    targets = sorted(float(row[0]) for name in ("training", "validation") for row in run.rows(name))
    assert targets == [float(row) for row in range(30)]
    shutil.rmtree(run.job_dir)
    nothing = refused("boosted_trees", f"--training_data_path={workspace.folder}/x-*.csv", "--objective=reg:linear")
    assert nothing.endswith("x-*.csv matches no file")


def test_addresses_are_read_and_written(workspace: Workspace) -> None:
    rows = "\n".join(f"{row},{row + 0.5}" for row in range(20))
    with fsspec.open("memory://bucket/data.csv", "w") as file:
        file.write(rows)
    run = workspace.run(
        "boosted_trees",
        "--training_data_path=memory://bucket/*.csv",
        "--objective=reg:linear",
        job_dir="memory://bucket/j",
    )
    assert run.code == 0, run.log
    with fsspec.open("memory://bucket/j/model/deployment_config.yaml", "r") as file:
        assert file.read().startswith('deploymentUri: "memory://bucket/j/model/"\n')
    assert fsspec.filesystem("memory").exists("/bucket/j/model/model.bst")


def test_one_seed_gives_the_same_files_and_another_gives_others(workspace: Workspace) -> None:
    data = workspace.data(ROWS)
    arguments = [f"--training_data_path={data}", "--preprocess", "--objective=reg:linear", "--subsample=0.5"]

    def files(seed: int) -> tuple[bytes, list[list[str]]]:
        run = workspace.run("boosted_trees", *arguments, f"--seed={seed}")
        assert run.code == 0, run.log
        return (run.job_dir / "model/model.bst").read_bytes(), run.rows("test")

    first, again, other = files(1), files(1), files(2)
    assert first == again
    assert first[0] != other[0]
    assert first[1] != other[1]


def test_generated_instances_are_those_of_the_training(workspace: Workspace) -> None:
    run = workspace.run(
        "boosted_trees", f"--training_data_path={workspace.data(ROWS)}", "--preprocess", "--objective=reg:linear"
    )
    assert run.code == 0, run.log
    assert "column 3: one_hot (text)" in run.log
    assert "column 4: key (every integer is unique: an instance key, not a feature)" in run.log
    by_target = {float(row[0]): row for row in ROWS}
    row = run.rows("test")[0]
    raw = ", ".join(str(value) for value in by_target[float(row[0])][1:])
    script = str(run.job_dir / "artifacts/instance_generator.py")
    command = [sys.executable, "-I", script, f"--raw_data_string={raw}"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == [float(value) for value in row[1:]]
    wrong = subprocess.run([*command[:3], "--raw_data_string=1,2"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "2 columns are given, 3 are required" in wrong.stderr


def test_faults_of_data_are_errors_with_the_way_out(workspace: Workspace, refused: Callable[..., str]) -> None:
    names = itertools.count()

    def fault(rows: list[list[Any]], *arguments: str, objective: str = "reg:linear") -> str:
        data = workspace.data(rows, f"{next(names)}.csv")
        return refused("boosted_trees", f"--training_data_path={data}", f"--objective={objective}", *arguments)

    numeric = [[i, i + 0.5] for i in range(20)]
    header = fault([["price", "size"], *numeric])
    assert header.endswith("column 1 has 'price' in the first row and numbers below. Remove the header row")
    many = fault([[f"c{i}", i + 0.5] for i in range(20)], "--preprocess", objective="binary:logistic")
    assert many.startswith("the target has as many classes as rows (20): classification needs repeated classes.")
    one = fault([["c", i + 0.5] for i in range(20)], "--preprocess", objective="binary:logistic")
    assert one == "the target has one class, 'c'; at least two are required"
    three = fault([[f"c{i % 3}", i + 0.5] for i in range(20)], "--preprocess", objective="binary:logistic")
    assert three == "--objective=binary:logistic: the target has 3 classes: c0, c1, c2"
    empty = fault(numeric, "--preprocess", "--validation_split=0.01")
    assert empty.startswith("the validation split is empty: 0.01 of 20 rows is less than one")
    assert fault([[1, 2], [3]]).endswith("line 2: 1 columns, but the first row has 2")
    assert fault([[1], [2]]).endswith("has one column; the target and at least one further column are required")
    assert fault([]).endswith("has no rows")
    text = fault([[1, "red"], [2, "blue"]])
    assert "row 1, column 2: the value 'red' is not a number; without --preprocess" in text
    gap = fault([[1, 2.5], [2, ""]])
    assert "row 2, column 2: the value is missing" in gap
    classes = fault([[5, 1.5], [6, 2.5], [5, 3.5]], objective="binary:logistic")
    assert classes == "the class '5' is not a whole number from 0 to 1; --preprocess maps other classes"
    keys = fault([[i * 0.5, i] for i in range(20)], "--preprocess")
    assert keys == "no column is left for features: all are instance keys"
    words = fault([[f"w{i}", 1.5] for i in range(20)], "--preprocess")
    assert words.startswith("the target 'w")
    missing = refused("boosted_trees", "--training_data_path=/nowhere/d.csv", "--objective=reg:linear")
    assert missing == "/nowhere/d.csv cannot be read: No such file or directory"
    bucket = refused("boosted_trees", "--training_data_path=gs://b/d.csv", "--objective=reg:linear")
    assert bucket.startswith("gs://b/d.csv cannot be opened: ")
    assert bucket.endswith("add the package gcsfs to tunesmith.requirements")
