"""Import of studies: trials, spaces, metrics, storages, and the command."""

from __future__ import annotations

import math
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import Study
from optuna.trial import Trial, TrialState, create_trial

import tunesmith
from tunesmith.errors import StudyDiffers
from tunesmith.optuna import import_study
from tunesmith.optuna.__main__ import main


@pytest.fixture(autouse=True)
def _quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def conditional(trial: Trial) -> float:
    """Has every kind of parameter, two branches, a constant, and pruned and failed trials."""
    loss: float = (trial.suggest_float("x", -1, 1) - 0.3) ** 2 + trial.suggest_float("rate", 1e-4, 1, log=True)
    loss += 0.1 * trial.suggest_float("drop out", 0.0, 0.5, step=0.1) + 0.01 * trial.suggest_int(
        "width", 16, 64, step=16
    )
    trial.suggest_categorical("device", ["cpu"])
    if trial.suggest_categorical("optimizer", ["adam", "sgd"]) == "sgd":
        loss += trial.suggest_float("momentum", 0.0, 0.9)
    else:
        loss += 0.1 * trial.suggest_int("layers", 1, 4)
    for step in (1, 5):
        trial.report(loss + 1 / step, step)
    if trial.number % 8 == 6:
        raise optuna.TrialPruned
    if trial.number % 8 == 7:
        raise ArithmeticError("diverged")
    return loss


def rdb(path: Path) -> BaseStorage:
    return RDBStorage(f"sqlite:///{path}")


def journal(path: Path) -> BaseStorage:
    return JournalStorage(JournalFileBackend(str(path)))


def stored(storage: BaseStorage, trials: int = 32, name: str = "a study") -> Study:
    study = optuna.create_study(
        study_name=name, storage=storage, sampler=optuna.samplers.RandomSampler(seed=1), load_if_exists=True
    )
    study.optimize(conditional, n_trials=trials, catch=ArithmeticError)
    return study


def study_of(trials: list[tuple[dict[str, Any], dict[str, BaseDistribution], float]]) -> Study:
    study = optuna.create_study(study_name="study")
    for params, distributions, value in trials:
        study.add_trial(create_trial(params=params, distributions=distributions, value=value))
    return study


@pytest.mark.parametrize(("open_storage", "prefix"), [(rdb, "sqlite:///"), (journal, "")])
def test_a_conditional_study_is_readable_and_its_file_unchanged(
    open_storage: Callable[[Path], BaseStorage], prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "optuna file"
    study = stored(open_storage(path))
    content, neighbours = path.read_bytes(), sorted(tmp_path.iterdir())
    assert main(["import", f"{prefix}{path}", "a study", "--data-dir", str(tmp_path / "data")]) == 0
    assert capsys.readouterr().out == "study 'a_study': 32 trials imported: 24 completed, 4 pruned, 4 infeasible\n"
    assert path.read_bytes() == content
    assert sorted(tmp_path.iterdir()) == sorted([*neighbours, tmp_path / "data"])

    with import_study(study, storage=tmp_path / "data") as search:
        assert (search.summary.imported, search.summary.present) == (0, 32)
        assert search.best.value == study.best_value
        assert search.best.number == study.best_trial.number + 1
        device, dropout, optimizer, rate, width, x = search.parameters
        assert device == tunesmith.categorical("device", ["cpu"])
        assert dropout == tunesmith.discrete("drop out", [0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
        assert rate == tunesmith.double("rate", 1e-4, 1, scale="log")
        assert width == tunesmith.discrete("width", [16, 32, 48, 64])
        assert x == tunesmith.double("x", -1, 1)
        branches = tunesmith.categorical("optimizer", ["adam", "sgd"]).when("adam", tunesmith.integer("layers", 1, 4))
        assert optimizer == branches.when("sgd", tunesmith.double("momentum", 0.0, 0.9))
        assert search.metrics == (tunesmith.minimize("value"),)
        for ours, theirs in zip(search.trials, study.trials, strict=True):
            # Values of a grid are those that a person would write: 0.3, not 0.30000000000000004.
            assert ours.parameters == pytest.approx(theirs.params)
            assert ours.parameters["drop out"] in dropout.values
            assert {each.step: each.metrics["value"] for each in ours.measurements} == theirs.intermediate_values
            if theirs.state == TrialState.FAIL:
                assert ours.infeasible
                assert ours.infeasible_reason == "failed in Optuna"
            else:
                assert ours.value == (
                    theirs.value if theirs.state == TrialState.COMPLETE else theirs.intermediate_values[5]
                )
        suggestion = search.ask()
        assert ("momentum" in suggestion.parameters) == (suggestion.parameters["optimizer"] == "sgd")


def test_pruned_trials_are_stopped_early() -> None:
    study = optuna.create_study(direction="maximize")
    for value, state in ((0.5, TrialState.COMPLETE), (0.9, TrialState.PRUNED)):
        study.add_trial(
            create_trial(
                params={"x": value},
                distributions={"x": FloatDistribution(0, 1)},
                value=value,
                intermediate_values={3: value},
                state=state,
            )
        )
    study.add_trial(
        create_trial(params={"x": 0.1}, distributions={"x": FloatDistribution(0, 1)}, state=TrialState.PRUNED)
    )
    search = import_study(study)
    # A result that was stopped early is none of full length.
    assert search.best.value == study.best_value == 0.5
    messages = search._service.get(f"/v1/{search.study.name}/trials")["trials"]
    assert [each.get("tunesmith", {}).get("stoppedEarly", False) for each in messages] == [False, True, False]
    assert search.trials[2].infeasible_reason == "pruned in Optuna without an intermediate value"
    assert (search.summary.completed, search.summary.pruned, search.summary.infeasible) == (1, 1, 1)


def test_two_objectives_with_constraints() -> None:
    def objective(trial: Trial) -> tuple[float, float]:
        x, y = trial.suggest_float("x", 0, 2), trial.suggest_float("y", 0, 2)
        if trial.number != 3:
            trial.set_constraint("size", x - 1.5)
        return x**2 + y, (x - 2) ** 2 - y

    def margins(trial: optuna.trial.FrozenTrial) -> tuple[float]:
        return (trial.params["y"] - 1.0,)

    with pytest.warns(FutureWarning, match="constraints_func"):
        sampler = optuna.samplers.NSGAIISampler(seed=1, constraints_func=margins)
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        study.set_metric_names(["loss", "size"])
    study.optimize(objective, n_trials=30)
    search = import_study(study)
    assert search.metrics == (
        tunesmith.minimize("loss"),
        tunesmith.maximize("size"),
        tunesmith.minimize("constraint_0", safety_threshold=0.0),
        tunesmith.minimize("size (constraint)", safety_threshold=0.0),
    )
    first = search.trials[0]
    x, y = first.parameters["x"], first.parameters["y"]
    assert first.metrics == {
        "loss": study.trials[0].values[0],
        "size": study.trials[0].values[1],
        "constraint_0": y - 1.0,
        "size (constraint)": x - 1.5,
    }
    satisfied = sorted(
        trial.params["x"] - 1.5 for trial in study.trials if trial.number != 3 and trial.params["x"] <= 1.5
    )
    middle = len(satisfied) // 2
    usual = satisfied[middle] if len(satisfied) % 2 else (satisfied[middle - 1] + satisfied[middle]) / 2
    assert search.trials[3].metrics["size (constraint)"] == usual
    assert search.summary.notes == (
        f"constraint 'size (constraint)' has no value in 1 trial: it counts as satisfied, with {usual:g}",
    )
    front = {trial.number + 1 for trial in study.best_trials}
    assert len(front) > 1
    assert {trial.number for trial in search.front} == front


def test_ranges_that_changed_are_united() -> None:
    first = {
        "free": FloatDistribution(0, 1),
        "grid": FloatDistribution(0, 1, step=0.5),
        "int": IntDistribution(1, 4),
        "odd": IntDistribution(1, 9, step=4),
        "mixed": FloatDistribution(0, 1, step=0.25),
        "log": IntDistribution(1, 8, log=True),
    }
    second = {
        "free": FloatDistribution(-2, 0.5),
        "grid": FloatDistribution(1.25, 2, step=0.75),
        "int": IntDistribution(3, 9),
        "odd": IntDistribution(3, 11, step=4),
        "mixed": FloatDistribution(0, 2),
        "log": IntDistribution(2, 64, log=True),
    }
    early = {"free": 0.9, "grid": 0.5, "int": 1, "odd": 5, "mixed": 0.25, "log": 8}
    late = {"free": -1.5, "grid": 1.25, "int": 9, "odd": 11, "mixed": 1.9, "log": 64}
    search = import_study(study_of([(early, first, 1.0), (late, second, 2.0)]))
    assert {parameter.name: parameter for parameter in search.parameters} == {
        "free": tunesmith.double("free", -2, 1),
        "grid": tunesmith.discrete("grid", [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2]),
        "int": tunesmith.integer("int", 1, 9),
        "odd": tunesmith.discrete("odd", [1, 3, 5, 7, 9, 11]),
        "mixed": tunesmith.double("mixed", 0, 2),
        "log": tunesmith.integer("log", 1, 64, scale="log"),
    }
    assert [trial.parameters for trial in search.trials] == [early, late]
    assert search.summary.left_out == {}


def test_categories_of_several_types_have_distinct_texts(tmp_path: Path) -> None:
    choices = CategoricalDistribution([None, True, 2, "2", math.nan, "None", 0.5])
    study = study_of([({"c": choice}, {"c": choices}, float(index)) for index, choice in enumerate(choices.choices)])
    search = import_study(study, storage=tmp_path)
    texts = ["None (NoneType)", "True", "2 (int)", "2", "nan", "None", "0.5"]
    assert search.parameters == (tunesmith.categorical("c", texts),)
    assert [trial.parameters["c"] for trial in search.trials] == texts


def test_equal_categories_are_told_apart_by_their_types() -> None:
    choices = CategoricalDistribution([None, True, 1, "1"])
    search = import_study(study_of([({"c": choice}, {"c": choices}, 0.0) for choice in choices.choices]))
    assert [trial.parameters["c"] for trial in search.trials] == ["None", "True", "1 (int)", "1"]


def test_values_that_are_not_finite() -> None:
    distributions: dict[str, BaseDistribution] = {"x": FloatDistribution(0, 1)}
    study = study_of([({"x": 0.1}, distributions, math.inf), ({"x": 0.2}, distributions, 3.0)])
    study.add_trial(
        create_trial(
            params={"x": 0.3},
            distributions=distributions,
            intermediate_values={0: 1.0, 2: math.nan, 4: -math.inf},
            value=2.5,
        )
    )
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1) * math.nan, n_trials=1)
    assert study.trials[3].state == TrialState.FAIL
    search = import_study(study)
    assert [trial.infeasible_reason for trial in search.trials] == ["value is inf", "", "", "failed in Optuna"]
    assert [each.step for each in search.trials[2].measurements] == [0, 2, 4]
    assert math.isnan(search.trials[2].measurements[1].metrics["value"])
    assert search.best.value == study.best_value == 2.5


def test_names_that_tunesmith_refuses_are_quoted() -> None:
    distributions: dict[str, BaseDistribution] = {name: FloatDistribution(0, 1) for name in ("", "''", "a b", "é.x/y")}
    search = import_study(study_of([(dict.fromkeys(distributions, 0.5), distributions, 1.0)]))
    assert [parameter.name for parameter in search.parameters] == ["\"''\"", "''", "a b", "é.x/y"]
    assert set(search.trials[0].parameters.values()) == {0.5}


def test_long_grids_become_ranges_with_a_note() -> None:
    distributions: dict[str, BaseDistribution] = {
        "f": FloatDistribution(0, 1, step=0.001),
        "i": IntDistribution(0, 3000, step=3),
        "most": IntDistribution(0, 2997, step=3),
    }
    search = import_study(study_of([({"f": 0.125, "i": 2997, "most": 2997}, distributions, 1.0)]))
    kinds = {parameter.name: parameter.type for parameter in search.parameters}
    assert kinds == {"f": "DOUBLE", "i": "INTEGER", "most": "DISCRETE"}
    assert search.summary.notes == (
        "parameter 'f' is a DOUBLE without its step 0.001: 1001 values are more than 1000",
        "parameter 'i' is an INTEGER without its step 3: 1001 values are more than 1000",
    )
    huge: dict[str, BaseDistribution] = {"n": IntDistribution(0, 2**60)}
    with pytest.raises(ValueError, match=r"parameter 'n': 1152921504606846976 is not from -2\^53 to 2\^53"):
        import_study(study_of([({"n": 1}, huge, 1.0)]))


def test_everything_left_out_is_named() -> None:
    both: dict[str, BaseDistribution] = {"x": FloatDistribution(0, 1), "z": FloatDistribution(0, 1)}
    only_x: dict[str, BaseDistribution] = {"x": FloatDistribution(0, 1)}
    study = study_of([({"x": 0.1, "z": 0.1}, both, 1.0), ({"x": 0.2}, only_x, 2.0)])
    # Its worker died, and trial 3 repeats it.
    study.add_trial(create_trial(params={"x": 0.3}, distributions=only_x, state=TrialState.FAIL))
    study.add_trial(
        create_trial(params={"x": 0.3}, distributions=only_x, value=3.0, system_attrs={"retry_history": [2]})
    )
    study.add_trial(create_trial(params={}, distributions={}, state=TrialState.FAIL))
    study.ask()
    study.enqueue_trial({"x": 0.4})
    search = import_study(study)
    summary = search.summary
    assert [trial.parameters for trial in search.trials] == [{"x": 0.1}, {"x": 0.2}, {"x": 0.3}]
    assert str(summary).splitlines() == [
        "study 'study': 3 trials imported: 3 completed, 0 pruned, 0 infeasible",
        "2 unfinished trials left out",
        "trial 2 left out: its worker died, and Optuna repeated it as another trial",
        "trial 4 left out: parameter 'x' is missing",
        "parameter 'z' left out: no other parameter decides in which trials it exists",
    ]
    with pytest.raises(ValueError, match="no trial of the study has parameters"):
        import_study(optuna.create_study())


def test_a_second_import_continues_and_refuses_other_studies(tmp_path: Path) -> None:
    storage = rdb(tmp_path / "a.db")
    study = stored(storage, trials=20)
    running = study.ask()
    conditional_values: dict[str, Any] = {
        "x": 0.3,
        "rate": 0.01,
        "drop out": 0.1,
        "width": 16,
        "device": "cpu",
        "optimizer": "adam",
    }
    with import_study(study, storage=tmp_path / "data") as search:
        assert (search.summary.imported, search.summary.unfinished) == (20, 1)
        search.tell({**conditional_values, "layers": 1}, 5.0)
    study = stored(storage, trials=4)
    conditional(running)
    wider = dict(study.trials[0].distributions) | {"x": FloatDistribution(-9, 9), "new": IntDistribution(1, 3)}
    study.tell(running, -1.0)
    study.add_trial(
        create_trial(params={**study.trials[0].params, "x": 5.0, "new": 1}, distributions=wider, value=-2.0)
    )
    with import_study(study, storage=tmp_path / "data") as search:
        summary = search.summary
        assert (summary.present, summary.imported, summary.unfinished) == (20, 5, 0)
        assert summary.left_out == {25: "parameter 'x' is 5.0, outside the imported space"}
        assert summary.parameters_left_out == {"new": "it is not part of the study of the first import"}
        assert search.best.value == -1.0
        # Trial 20 of Optuna was running at the first import. Number 21 is the user's own.
        assert [trial.number for trial in search.trials if trial.client_id.startswith("optuna:20:")] == [22]
    with import_study(study, storage=tmp_path / "data") as search:
        assert (search.summary.present, search.summary.imported) == (25, 0)
        assert len(search.trials) == 26

    other = optuna.create_study(study_name="a study", sampler=optuna.samplers.RandomSampler(seed=2))
    other.optimize(conditional, n_trials=5)
    with pytest.raises(
        StudyDiffers, match="'a_study' exists and was imported from another study than 'a study': trial 0"
    ):
        import_study(other, storage=tmp_path / "data")
    maximized = optuna.create_study(study_name="a study", direction="maximize")
    maximized.optimize(conditional, n_trials=1)
    with pytest.raises(StudyDiffers, match=r"metrics 'value' \(minimize\); to import are 'value' \(maximize\)"):
        import_study(maximized, storage=tmp_path / "data")
    with tunesmith.Optimizer(
        [tunesmith.double("x", 0, 1)], [tunesmith.minimize("value")], storage=tmp_path / "data", name="own"
    ) as own:
        own.tell({"x": 0.5}, 1.0)
    with pytest.raises(StudyDiffers, match="'own' exists, and none of its trials is imported"):
        import_study(study, storage=tmp_path / "data", name="own")
    with pytest.raises(ValueError, match="name 'a b' is not 1 to 128 letters"):
        import_study(study, name="a b")


def test_an_interrupted_import_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tunesmith._engine import EngineService

    study = stored(rdb(tmp_path / "a.db"), trials=16)
    post, calls = EngineService.post, 0

    def interrupted(self: EngineService, path: str, *arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 28:
            raise KeyboardInterrupt
        return post(self, path, *arguments, **options)

    monkeypatch.setattr(EngineService, "post", interrupted)
    with pytest.raises(KeyboardInterrupt):
        import_study(study, storage=tmp_path / "data")
    monkeypatch.undo()
    with import_study(study, storage=tmp_path / "data") as search:
        # The study, six trials of four calls, and a pruned one up to its stop.
        assert (search.summary.present, search.summary.imported) == (6, 10)
        assert [trial.parameters for trial in search.trials] == [pytest.approx(trial.params) for trial in study.trials]
        assert {trial.state for trial in search.trials} == {"COMPLETED"}
        assert search.trials[6].value == study.trials[6].intermediate_values[5]


def test_an_incomplete_line_at_the_end_of_a_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "journal.log"
    stored(journal(path), trials=4)
    content = path.read_bytes() + b'{"op_code":8,"worker_id":"'
    path.write_bytes(content)
    assert main(["import", str(path), "a study", "--data-dir", str(tmp_path / "data"), "--name", "n"]) == 0
    assert capsys.readouterr().out == "study 'n': 4 trials imported: 4 completed, 0 pruned, 0 infeasible\n"
    assert path.read_bytes() == content


@pytest.mark.parametrize("kind", ["write-ahead log", "rollback journal"])
def test_a_database_whose_writer_died_is_unchanged(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, dead = tmp_path / "a.db", tmp_path / "dead" / "a.db"
    dead.parent.mkdir()
    stored(rdb(path), trials=4)
    writer = sqlite3.connect(path)
    if kind == "write-ahead log":
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("UPDATE studies SET study_name = 'renamed'")
        writer.commit()
    else:
        # Without a cache, changes reach the file before the end of the transaction.
        writer.execute("PRAGMA cache_size = 1")
        writer.execute("CREATE TABLE more (x)")
        writer.execute("INSERT INTO more SELECT zeroblob(100000)")
        writer.execute("UPDATE studies SET study_name = 'lost'")
    for file in tmp_path.glob("a.db*"):
        if not file.name.endswith("-shm"):
            (dead.parent / file.name).write_bytes(file.read_bytes())
    writer.close()
    contents = {file.name: file.read_bytes() for file in dead.parent.iterdir()}
    assert len(contents) == 2
    name = "renamed" if kind == "write-ahead log" else "a study"
    assert main(["import", f"sqlite:///{dead}", name, "--data-dir", str(tmp_path / "data")]) == 0
    assert "4 trials imported" in capsys.readouterr().out
    assert {file.name: file.read_bytes() for file in dead.parent.iterdir()} == contents


def test_errors_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database, missing, text = tmp_path / "a.db", tmp_path / "missing.db", tmp_path / "text"
    stored(rdb(database), trials=1)
    text.write_text('["no", "journal"]\n')
    for storage, error in {
        str(database): "has no study 'other'; its studies: 'a study'",
        f"sqlite:///{missing}": f"'{missing}' is not a file",
        str(tmp_path): f"'{tmp_path}' is not a file",
        f"sqlite:///{text}": f"'{text}' is not an SQLite database",
        str(text): f"'{text}' is not a journal of Optuna",
        "sqlite://": "names no file; allowed: sqlite:///PATH",
        "://": "is neither the URL of a database nor the path of a file",
    }.items():
        assert main(["import", storage, "other", "--data-dir", str(tmp_path / "data")]) == 1
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.startswith(f"error: storage {storage!r}")
        assert error in output.err
    assert not missing.exists()
    assert not (tmp_path / "data").exists()


def test_the_command_has_exit_codes(tmp_path: Path) -> None:
    stored(rdb(tmp_path / "a.db"), trials=1)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", "-m", "tunesmith.optuna", *arguments],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    done = run("import", "sqlite:///a.db", "a study", "--data-dir", "data")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "study 'a_study': 1 trial imported: 1 completed, 0 pruned, 0 infeasible\n"
    failed = run("import", "sqlite:///a.db", "none", "--data-dir", "data")
    assert (failed.returncode, failed.stdout) == (1, "")
    usage = run("import", "sqlite:///a.db", "a study")
    assert (usage.returncode, usage.stdout) == (2, "")
    assert "--data-dir" in usage.stderr
