"""The examples of the guide."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import optuna
import optuna_dashboard
import pytest
from optuna.storages import GrpcStorageProxy

from storage_server import StorageServer

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")

GUIDE = Path(__file__).parents[4] / "docs" / "guide" / "optuna-storage.md"


def examples(port: int) -> list[str]:
    blocks = re.findall(r"^```python no-run\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    return [block.replace("13000", str(port)) for block in blocks]


def test_examples_run(
    storage_server: StorageServer,
    storage: GrpcStorageProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    search, dashboard, copy = examples(storage_server.port)
    for trials in (20, 40):
        exec(search, {})
        study = optuna.load_study(study_name="example", storage=storage)
        assert len(study.trials) == trials
        assert capsys.readouterr().out.split()[0] == str(study.best_value)

    served: list[Any] = []
    monkeypatch.setattr(optuna_dashboard, "run_server", lambda given, **address: served.append((given, address)))
    exec(dashboard, {})
    ((given, address),) = served
    assert address == {"host": "localhost", "port": 8081}
    assert [each.study_name for each in given.get_all_studies()] == ["example"]

    monkeypatch.chdir(tmp_path)
    old = optuna.create_study(storage="sqlite:///old.db", study_name="old")
    old.optimize(lambda trial: trial.suggest_categorical("c", [1, None, "x"]) is None, n_trials=5)
    exec(copy, {})
    copied = optuna.load_study(study_name="old", storage=storage)
    assert [(trial.values, trial.params) for trial in copied.trials] == [
        (trial.values, trial.params) for trial in old.trials
    ]
