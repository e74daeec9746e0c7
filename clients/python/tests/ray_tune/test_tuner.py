"""Runs of the Tuner, once for all tests of this module, in a network namespace: Ray listens on all addresses."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import tunesmith

PROGRAM = Path(__file__).parent / "tuner_runs.py"
PACKAGES = Path(tunesmith.__file__).parents[1]


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("runs")
    command = ["unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if os.geteuid() != 0:
        command.insert(1, "--map-root-user")
    # Paths of Ray's sockets are short.
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as ray_folder:
        environment = os.environ | {
            "PYTHONPATH": str(PACKAGES),
            "RAY_FOLDER": ray_folder,
            # The folder of experiments without a storage_path.
            "HOME": str(folder),
            "RAY_AUTH_MODE": "disabled",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AIR_NEW_OUTPUT": "0",
        }
        done = subprocess.run(
            [*command, sys.executable, str(PROGRAM), str(folder)],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
    assert done.returncode == 0, done.stdout
    return json.loads((folder / "facts.json").read_text())


def loss(config: dict[str, Any], steps: int) -> float:
    """The last report of a trial in `reports`."""
    return float((config["net"]["lr"] - 0.3) ** 2 + config["layers"][0] + 1 / steps)


def test_configurations_reach_the_function_as_they_were_suggested(facts: Any) -> None:
    configs = facts["reports"]["configs"]
    assert len(configs) == 6
    for config in configs:
        assert config["epochs"] == 3
        assert config["layers"] in ([4, "relu"], [8, "relu"])
        assert config["net"]["opt"] == "adam" or config["net"]["opt"].keys() == {"name", "momentum"}
    assert (configs[0]["net"]["lr"], configs[0]["layers"]) == (0.25, [8, "relu"])


def test_each_trial_counts_once_with_its_last_report(facts: Any) -> None:
    run = facts["reports"]
    assert sorted(run["steps"]) == [2, 2, 2, 3, 3, 3]
    expected = [loss(config, steps) for config, steps in zip(run["configs"], run["steps"], strict=True)]
    assert run["losses"] == expected
    assert sorted(record["value"] for record in run["records"]) == sorted(expected)
    assert {record["state"] for record in run["records"]} == {"COMPLETED"}
    assert run["optimizer_best"] == run["best"] == min(expected)


def test_faults_are_infeasible_and_the_run_goes_on(facts: Any) -> None:
    run = facts["faults"]
    reasons = {record["parameters"]["kind"]: record["reason"] for record in run["records"]}
    assert reasons == {
        "error": "the trial failed",
        "nan": 'the final value of "loss" is NaN, at step 0',
        "inf": 'the final value of "loss" is -inf, at step 0',
        "good": "",
    }
    # The function and the data of the configuration are the objects themselves: abs(-2) + (0 + 1 + 2).
    assert (run["errors"], run["best"]) == (1, 5.0)


def test_functions_and_grids_of_the_tuner_are_refused_by_name(facts: Any) -> None:
    assert facts["refusals"] == {
        "function": "net/y: sample_from is not supported; compute the value in the trainable",
        "grid": "net/y: grid_search is not supported; use tune.choice, or run the grid without a search",
    }


def test_a_restored_experiment_continues_its_search(facts: Any) -> None:
    run = facts["interruption"]
    assert [record["state"] for record in run["before"]] == ["COMPLETED"] * 3 + ["ACTIVE"]
    assert [record["state"] for record in run["after"]] == ["COMPLETED"] * 6
    assert run["after"][:3] == run["before"][:3]
    assert run["after"][3]["parameters"] == run["before"][3]["parameters"]
    assert sorted(run["losses"]) == sorted(record["value"] for record in run["after"])


def test_a_finite_space_ends_the_run_and_several_metrics_have_a_front(facts: Any) -> None:
    run = facts["finite"]
    assert sorted(config["n"] for config in run["configs"]) == [0, 1, 2]
    assert {config["const"] for config in run["configs"]} == {"c"}
    # 0 has the least loss, 1 the largest size.
    assert sorted(run["front"]) == [0, 1]


def test_the_examples_of_the_guide_run(facts: Any) -> None:
    run = facts["guide"]
    assert run["examples"] == 2
    best = ast.literal_eval(run["output"].splitlines()[-1])
    # A random configuration is that good with a probability of 0.1.
    assert (best["x"] - 1) ** 2 + best["layers"] * 0.1 < 0.3
    assert run["first"] == {"epochs": 5, "optimizer": {"name": "adam"}}
