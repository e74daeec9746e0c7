"""Sweeps of a small program, with Hydra itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server_process import ServerProcess
from tunesmith import Client, Optimizer, TrialRecord, double, integer, minimize

from app import CLIENTS, PYTHON_PATH, App

CONFIG: dict[str, Any] = {"x": 0.0, "n": 1, "opt": {"name": "sgd", "lr": 0.1}}
SWEPT = ("x=interval(0,1)", "n=int(interval(1,4))")
STORAGE = ("hydra.sweeper.storage=study",)


def records(folder: Path) -> list[TrialRecord]:
    """The trials of a sweep with `SWEPT` and `STORAGE`."""
    parameters = [double("x", 0, 1), integer("n", 1, 4)]
    with Optimizer(parameters, [minimize("value")], seed=1, storage=folder / "study", name="app") as study:
        return study.trials


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App(tmp_path, CONFIG, "(cfg.x - 0.3) ** 2 + cfg.n")


def test_a_sweep_minimizes_what_the_function_returns(app: App) -> None:
    app.sweep("hydra.sweeper.n_trials=12", "opt.lr=0.5", *SWEPT, "+opt.extra='1',null")
    jobs = app.jobs()
    assert [job["number"] for job in jobs] == list(range(12))
    values = [(job["config"]["x"] - 0.3) ** 2 + job["config"]["n"] for job in jobs]
    best = jobs[values.index(min(values))]["config"]
    assert app.results() == {
        "name": "tunesmith",
        "best_params": {"x": best["x"], "n": best["n"], "+opt.extra": best["opt"]["extra"]},
        "best_value": min(values),
    }
    assert min(values) < 1.01
    assert {job["config"]["opt"]["lr"] for job in jobs} == {0.5}
    assert {job["config"]["opt"]["extra"] for job in jobs} == {"1", None}
    assert (app.folder / "sweep" / "11" / ".hydra" / "overrides.yaml").exists()
    assert (app.folder / "sweep" / "multirun.yaml").exists()


def test_options_come_from_the_configuration(app: App) -> None:
    text = """
defaults:
- override hydra/sweeper: tunesmith
- _self_
hydra:
  sweeper:
    direction: maximize
    n_trials: 3
    params:
      x: tag(log,interval(0.1,1))
      opt.name: choice(adam,sgd)
x: 0.0
n: 1
opt: {name: sgd, lr: 0.1}
"""
    (app.folder / "conf").mkdir()
    (app.folder / "conf" / "tuned.yaml").write_text(text)
    app.sweep("--config-dir=conf", "--config-name=tuned", "hydra.sweeper.algorithm=random_search", "opt.name=adam")
    values = [(job["config"]["x"] - 0.3) ** 2 + 1 for job in app.jobs()]
    assert (len(values), app.results()["best_value"]) == (3, max(values))
    assert {job["config"]["opt"]["name"] for job in app.jobs()} == {"adam"}


def test_a_restarted_sweep_continues(app: App) -> None:
    app.sweep("hydra.sweeper.n_trials=3", *STORAGE, *SWEPT)
    output = app.sweep("hydra.sweeper.n_trials=5", *STORAGE, *SWEPT)
    assert "Continuing with 3 finished trials of 5" in output
    assert [job["number"] for job in app.jobs()] == [0, 1, 2, 3, 4]
    app.sweep("hydra.sweeper.n_trials=5", *STORAGE, *SWEPT)
    assert len(app.jobs()) == 5
    assert app.results()["best_value"] == min(record.value for record in records(app.folder))


def test_a_continued_sweep_is_the_same_as_an_uninterrupted_one(
    app: App, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = App(tmp_path_factory.mktemp("other"), CONFIG, "(cfg.x - 0.3) ** 2 + cfg.n")
    other.sweep("hydra.sweeper.n_trials=6", *SWEPT)
    app.sweep("hydra.sweeper.n_trials=4", *STORAGE, *SWEPT)
    app.sweep("hydra.sweeper.n_trials=6", *STORAGE, *SWEPT)
    assert app.jobs() == other.jobs()


def test_the_job_of_a_killed_sweep_is_run_again(app: App) -> None:
    app.rewrite(CONFIG, "cfg.x if number != 2 else os._exit(9)")
    app.sweep("hydra.sweeper.n_trials=4", *STORAGE, *SWEPT, code=9)
    assert [job["number"] for job in app.jobs()] == [0, 1, 2]
    app.rewrite(CONFIG, "cfg.x")
    app.sweep("hydra.sweeper.n_trials=4", *STORAGE, *SWEPT)
    jobs = app.jobs()
    assert [job["number"] for job in jobs] == [0, 1, 2, 2, 3]
    assert jobs[2] == jobs[3]
    assert [record.value for record in records(app.folder)] == [jobs[i]["config"]["x"] for i in (0, 1, 3, 4)]


def test_another_search_space_is_refused(app: App) -> None:
    app.sweep("hydra.sweeper.n_trials=1", *STORAGE, *SWEPT)
    output = app.sweep("hydra.sweeper.n_trials=2", *STORAGE, "x=interval(0,2)", "n=int(interval(1,4))", code=1)
    assert "study 'app' exists and differs" in output
    assert len(app.jobs()) == 1
    app.sweep("hydra.sweeper.n_trials=1", *STORAGE, "hydra.sweeper.study_name=other", "x=interval(0,2)")
    assert len(app.jobs()) == 2


def test_a_failure_ends_the_sweep_and_its_job_is_run_again(app: App) -> None:
    app.rewrite(CONFIG, "cfg.x if number != 1 else 1 / 0")
    output = app.sweep("hydra.sweeper.n_trials=3", *STORAGE, *SWEPT, code=1)
    assert "ZeroDivisionError: division by zero" in output
    assert "Job #1 failed: more failures than max_failure_rate=0 of 3 trials allows" in output
    assert app.results()["best_value"] == app.jobs()[0]["config"]["x"]
    app.rewrite(CONFIG, "cfg.x")
    app.sweep("hydra.sweeper.n_trials=3", *STORAGE, *SWEPT)
    assert [job["number"] for job in app.jobs()] == [0, 1, 1, 2]


def test_failures_up_to_the_rate_are_infeasible(app: App) -> None:
    app.rewrite(CONFIG, "cfg.x if number not in (0, 3) else {}[number]")
    output = app.sweep("hydra.sweeper.n_trials=5", "hydra.sweeper.max_failure_rate=0.4", *STORAGE, *SWEPT)
    assert "Job #3 failed and is infeasible: KeyError: 3" in output
    found = records(app.folder)
    assert [record.infeasible_reason for record in found] == ["KeyError: 0", "", "", "KeyError: 3", ""]
    assert app.results()["best_value"] == min(record.value for record in found if not record.infeasible)


def test_a_result_that_is_not_finite_is_infeasible_and_never_the_best(app: App) -> None:
    app.rewrite(CONFIG, "float('-inf') if number == 0 else float('nan') if number == 1 else cfg.x")
    app.sweep("hydra.sweeper.n_trials=4", *STORAGE, *SWEPT)
    assert [record.infeasible for record in records(app.folder)] == [True, True, False, False]
    assert app.results()["best_value"] == min(job["config"]["x"] for job in app.jobs()[2:])


@pytest.mark.parametrize(("body", "shown"), [("None", "None"), ("'low'", "'low'"), ("[1.0, 2.0]", "[1.0, 2.0]")])
def test_a_result_that_is_no_number_is_refused(app: App, body: str, shown: str) -> None:
    app.rewrite(CONFIG, body)
    output = app.sweep("hydra.sweeper.n_trials=2", *SWEPT, code=1)
    assert f"TypeError: the function returned {shown}; the sweep needs a number" in output
    assert app.results() == {"name": "tunesmith", "best_params": {}, "best_value": None}


def test_several_directions_have_solutions(app: App) -> None:
    app.rewrite(CONFIG, "(cfg.x, cfg.x if number else 0.0)")
    app.sweep("hydra.sweeper.n_trials=5", "hydra.sweeper.direction=[minimize,maximize]", *SWEPT)
    values = [[job["config"]["x"], job["config"]["x"] if job["number"] else 0.0] for job in app.jobs()]
    optimal = [each for each in values if not any(a <= each[0] and b >= each[1] and [a, b] != each for a, b in values)]
    solutions = app.results()["solutions"]
    assert sorted(solution["values"] for solution in solutions) == sorted(optimal)
    assert all(solution["params"]["x"] == solution["values"][0] for solution in solutions)


def test_a_finite_space_ends_the_sweep(app: App) -> None:
    app.sweep("hydra.sweeper.n_trials=10", "n=1,2,3")
    assert sorted(job["config"]["n"] for job in app.jobs()) == [1, 2, 3]


def test_the_parameters_of_a_function_may_be_conditional(app: App) -> None:
    (app.folder / "spaces.py").write_text(
        "import tunesmith\n"
        "def search_space(cfg):\n"
        "    lr = tunesmith.double('opt.lr', 0.01, cfg.opt.lr, scale='log')\n"
        "    return [tunesmith.categorical('opt.name', ['sgd', 'adam']).when('sgd', lr)]\n"
    )
    app.rewrite(CONFIG, "cfg.opt.lr")
    app.sweep("hydra.sweeper.n_trials=8", "hydra.sweeper.custom_search_space=spaces.search_space")
    by_name = {name: [job["config"]["opt"]["lr"] for job in app.jobs() if job["config"]["opt"]["name"] == name]
               for name in ("sgd", "adam")}  # fmt: skip
    assert set(by_name["adam"]) == {0.1}
    assert all(0.01 <= lr < 0.1 for lr in by_name["sgd"])
    assert app.results()["best_params"]["opt.name"] == "sgd"


def test_a_parallel_launcher_gets_batches_of_n_jobs(app: App) -> None:
    app.sweep("hydra.sweeper.n_trials=5", "hydra.sweeper.n_jobs=2", "hydra/launcher=joblib", *SWEPT)
    numbers = [job["number"] for job in app.jobs()]
    assert [sorted(numbers[i : i + 2]) for i in (0, 2, 4)] == [[0, 1], [2, 3], [4]]


def test_the_basic_launcher_gets_one_job_at_a_time(app: App) -> None:
    output = app.sweep("hydra.sweeper.n_trials=2", "hydra.sweeper.n_jobs=2", *SWEPT)
    assert "The basic launcher runs one job at a time: n_jobs=2 has no effect" in output
    assert output.count("Launching 1 jobs locally") == 2


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("direction=down", "hydra.sweeper.direction: 'down' is not one of minimize, maximize"),
        ("n_trials=0", "hydra.sweeper.n_trials: 0 is not positive"),
        ("n_jobs=0", "hydra.sweeper.n_jobs: 0 is not positive"),
        ("max_failure_rate=1.5", "hydra.sweeper.max_failure_rate: 1.5 is not from 0 to 1"),
        ("storage=sqlite:///a.db", "hydra.sweeper.storage: 'sqlite:///a.db' is an address"),
        ("sampler=tpe", "Key 'sampler' not in 'TunesmithSweeperConf'"),
        ("algorithm=best", "hydra.sweeper.algorithm: 'best' is not one of automatic, gaussian_process_bandit"),
    ],
)
def test_wrong_options_are_refused_by_name(app: App, override: str, message: str) -> None:
    assert message in app.sweep(f"hydra.sweeper.{override}", *SWEPT, code=1)
    assert app.jobs() == []


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path_factory.mktemp("server"))
    yield process
    process.end()


def test_a_sweep_may_use_a_server(app: App, server: ServerProcess) -> None:
    options = (f"hydra.sweeper.server={server.address}", "hydra.sweeper.study_name=shared")
    app.sweep("hydra.sweeper.n_trials=2", *options, *SWEPT)
    app.sweep("hydra.sweeper.n_trials=4", *options, *SWEPT)
    with Client(server.address) as client:
        found = client.study("shared").all_trials()
    assert [record.state for record in found] == ["COMPLETED"] * 4
    assert [job["number"] for job in app.jobs()] == [0, 1, 2, 3]
    assert app.results()["best_value"] == min(record.value for record in found)


def test_sweeps_share_the_study_of_a_server(
    app: App, server: ServerProcess, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = App(tmp_path_factory.mktemp("other"), CONFIG, "(cfg.x - 0.3) ** 2 + cfg.n")
    options = (f"hydra.sweeper.server={server.address}", "hydra.sweeper.n_trials=8", "hydra.sweeper.n_jobs=2")
    sweeps = [each.start(*options, "hydra/launcher=joblib", *SWEPT) for each in (app, other)]
    for sweep in sweeps:
        output, _ = sweep.communicate()
        assert sweep.returncode == 0, output
    with Client(server.address) as client:
        found = client.study("app").all_trials()
    # Both may suggest a batch of two when one trial is left.
    assert 8 <= len(found) <= 11
    jobs = sorted(app.jobs() + other.jobs(), key=lambda job: int(job["number"]))
    assert [job["number"] + 1 for job in jobs] == [record.number for record in found]
    # The number of each job is that of its trial.
    assert [job["config"]["x"] for job in jobs] == [record.parameters["x"] for record in found]
    assert [record.value for record in found] == [(job["config"]["x"] - 0.3) ** 2 + job["config"]["n"] for job in jobs]


def test_the_examples_of_the_guide_run(tmp_path: Path) -> None:
    guide = (CLIENTS.parent / "docs" / "guide" / "hydra.md").read_text()
    commands = []
    for marks, body in re.findall(r"```(?:python|yaml|sh) (\S+)\n(.*?)```", guide, re.DOTALL):
        if marks.startswith("file="):
            (tmp_path / marks.removeprefix("file=")).write_text(body)
        else:
            commands += [line.split()[1:] for line in body.splitlines() if line.startswith("python ")]
    assert len(commands) == 4
    environment = os.environ | {"PYTHONPATH": PYTHON_PATH}
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-W", "error", *command, "hydra.sweep.dir=sweep"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    with Optimizer(
        [double("lr", 0.001, 1, scale="log"), integer("layers", 1, 4)],
        [minimize("value")],
        storage=tmp_path / "study",
        name="train",
    ) as study:
        assert len(study.trials) == 30
        assert study.best.value < 0.0105


def test_programs_without_a_sweep_do_not_import_the_engine(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from hydra.core.plugins import Plugins\n"
        "from hydra.plugins.sweeper import Sweeper\n"
        "names = [each.__name__ for each in Plugins.instance().discover(Sweeper)]\n"
        "print('TunesmithSweeper' in names, any(name.startswith('tunesmith') for name in sys.modules))\n"
    )
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": PYTHON_PATH}, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True False\n", "")


def test_the_wheel_leaves_the_namespace_package_open(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=CLIENTS / "hydra", check=True, capture_output=True)
    (wheel,) = tmp_path.glob("hydra_tunesmith_sweeper-*-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "hydra_plugins/hydra_tunesmith_sweeper/tunesmith_sweeper.py" in names
    assert "hydra_plugins/__init__.py" not in names
    assert [name for name in names if not name.startswith(("hydra_plugins/", "hydra_tunesmith_sweeper-"))] == []
