"""Runs of the Tuner on a small cluster without a network; prints a JSON object with the facts of each run."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray import tune
from ray.tune.schedulers import TrialScheduler

from tunesmith.ray import TunesmithSearch

FOLDER = Path(sys.argv[1])


class StopsOddTrials(tune.schedulers.FIFOScheduler):
    """Stops every second trial after its second report."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.order: list[str] = []

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        self.order.append(trial.trial_id)

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        odd = self.order.index(trial.trial_id) % 2 == 1
        return str(TrialScheduler.STOP if odd and result["training_iteration"] >= 2 else TrialScheduler.CONTINUE)


def records(search: TunesmithSearch) -> list[dict[str, Any]]:
    return [
        {
            "parameters": dict(record.parameters),
            "state": record.state,
            "value": record.metrics.get("loss"),
            "metrics": dict(record.metrics),
            "reason": record.infeasible_reason,
        }
        for record in search.optimizer.trials
    ]


def listed(results: tune.ResultGrid) -> list[Any]:
    return [results[i] for i in range(len(results))]


def tuner(name: str, function: Any, space: dict[str, Any], samples: int, search: Any, **options: Any) -> tune.Tuner:
    callbacks = options.pop("callbacks", None)
    return tune.Tuner(
        tune.with_resources(function, {"cpu": 1}),
        param_space=space,
        tune_config=tune.TuneConfig(search_alg=search, num_samples=samples, reuse_actors=True, **options),
        run_config=tune.RunConfig(name=name, storage_path=str(FOLDER), callbacks=callbacks, verbose=0),
    )


def reports() -> dict[str, Any]:
    """A nested space, three reports a trial, and a scheduler that stops trials early."""

    def train(config: dict[str, Any]) -> None:
        for step in (1, 2, 3):
            tune.report({"loss": (config["net"]["lr"] - 0.3) ** 2 + config["layers"][0] + 1 / step})

    space = {
        "epochs": 3,
        "net": {
            "lr": tune.uniform(0, 1),
            "opt": tune.choice([{"name": "sgd", "momentum": tune.uniform(0, 0.9)}, "adam"]),
        },
        "layers": [tune.qrandint(4, 8, 4), "relu"],
    }
    search = TunesmithSearch(seed=1, points_to_evaluate=[{"net": {"lr": 0.25}, "layers": [8, "relu"]}])
    run = tuner("reports", train, space, 6, search, metric="loss", mode="min", scheduler=StopsOddTrials())
    results = run.fit()
    best: Any = results.get_best_result()
    return {
        "records": records(search),
        "configs": [result.config for result in listed(results)],
        "losses": [result.metrics["loss"] for result in listed(results)],
        "steps": [result.metrics["training_iteration"] for result in listed(results)],
        "best": best.metrics["loss"],
        "optimizer_best": search.optimizer.best.value,
    }


def faults() -> dict[str, Any]:
    """Trials that fail, results that are not finite, and objects in the space."""

    def train(config: dict[str, Any]) -> dict[str, float]:
        if config["kind"] == "error":
            raise RuntimeError("out of memory")
        good = float(config["function"](-2.0)) + config["data"].sum()
        return {"loss": {"nan": float("nan"), "inf": float("-inf"), "good": good}[config["kind"]]}

    kinds = ["error", "nan", "inf", "good"]
    data = np.arange(3)
    points = [{"kind": kind, "data": data} for kind in kinds]
    search = TunesmithSearch(seed=1, points_to_evaluate=points, max_concurrent=2)
    space = {"kind": tune.choice(kinds), "x": tune.uniform(0, 1), "function": tune.choice([abs, abs]), "data": data}
    run = tuner("faults", train, space, 4, search, metric="loss", mode="min")
    results = run.fit()
    return {"records": records(search), "errors": len(results.errors), "best": search.optimizer.best.value}


class Interrupts(tune.Callback):
    """Interrupts the run, as Ctrl-C does, when its fourth trial starts."""

    def __init__(self) -> None:
        self.started = 0

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.started += 1
        if self.started == 4:
            signal.raise_signal(signal.SIGINT)


def interruption() -> dict[str, Any]:
    """A run that is interrupted, restored from its folder."""

    def train(config: dict[str, Any]) -> dict[str, float]:
        return {"loss": config["x"]}

    search = TunesmithSearch(seed=1, points_to_evaluate=[{"x": 0.5}, {"x": 0.25}])
    options: dict[str, Any] = {"metric": "loss", "mode": "min", "max_concurrent_trials": 1}
    tuner("interruption", train, {"x": tune.uniform(0, 1)}, 6, search, callbacks=[Interrupts()], **options).fit()
    path = str(FOLDER / "interruption")
    saved = TunesmithSearch()
    saved.restore_from_dir(path)
    before = records(saved)
    function = tune.with_resources(train, {"cpu": 1})
    results = tune.Tuner.restore(path, function, param_space={"x": tune.uniform(0, 1)}).fit()
    saved.restore_from_dir(path)
    return {
        "losses": [result.metrics["loss"] for result in listed(results)],
        "before": before,
        "after": records(saved),
    }


def finite() -> dict[str, Any]:
    """Two metrics on a finite space, which ends before `num_samples`."""

    def train(config: dict[str, Any]) -> dict[str, float]:
        return {"loss": config["n"], "size": config["n"] % 2}

    search = TunesmithSearch({"n": tune.randint(0, 3), "const": "c"}, ["loss", "size"], ["min", "max"], seed=1)
    results = tuner("finite", train, {}, 10, search).fit()
    return {
        "configs": [result.config for result in listed(results)],
        "front": [dict(record.parameters)["n"] for record in search.optimizer.front],
    }


def refusals() -> dict[str, Any]:
    """Spaces that the Tuner accepts, and the search does not."""

    def train(config: dict[str, Any]) -> dict[str, float]:
        return {"loss": 0.0}

    messages: dict[str, Any] = {}
    spaces: dict[str, dict[str, Any]] = {
        "function": {"x": tune.uniform(0, 1), "net": {"y": tune.sample_from(lambda config: config["x"])}},
        "grid": {"x": tune.uniform(0, 1), "net": {"y": tune.grid_search([1, 2])}},
    }
    for name, space in spaces.items():
        try:
            tuner(name, train, space, 1, TunesmithSearch(), metric="loss", mode="min").fit()
        except ValueError as error:
            messages[name] = str(error)
    return messages


def guide() -> dict[str, Any]:
    """The examples of the guide, in order."""
    page = Path(__file__).parents[4] / "docs" / "guide" / "ray-tune.md"
    examples = re.findall(r"```python no-run\n(.*?)```", page.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        for example in examples:
            exec(example, names)
    return {"examples": len(examples), "output": output.getvalue(), "first": names["search"].suggest("t0")}


def main() -> None:
    # Ray listens on all addresses; here there is only one, and it has no other user.
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=80_000_000,
        _node_ip_address="127.0.0.1",
        _temp_dir=os.environ["RAY_FOLDER"],
        log_to_driver=False,
        logging_level=logging.WARNING,
    )
    facts = {run.__name__: run() for run in (reports, faults, interruption, finite, refusals, guide)}
    (FOLDER / "facts.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main()
