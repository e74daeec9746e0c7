"""Data files and runs of the trainers."""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tunesmith_builtin import program


@dataclass
class Run:
    """A finished trainer."""

    code: int
    log: str
    job_dir: Path
    reports: list[dict[str, Any]]

    def json(self, name: str) -> dict[str, Any]:
        """A JSON file below the job-dir."""
        found: dict[str, Any] = json.loads((self.job_dir / name).read_text())
        return found

    def rows(self, name: str) -> list[list[str]]:
        """Rows of a file of ``processed_data``."""
        with (self.job_dir / "processed_data" / f"{name}.csv").open(newline="") as file:
            return list(csv.reader(file))


@dataclass
class Workspace:
    """A folder with data and the files of one run."""

    folder: Path

    def data(self, rows: Iterable[Sequence[Any]], name: str = "data.csv") -> str:
        """Writes a CSV file, and returns its path."""
        path = self.folder / name
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(rows)
        return str(path)

    def run(self, module: str, *arguments: str, job_dir: str = "") -> Run:
        """Runs the entry point of ``tunesmith_builtin.<module>`` with a job-dir, in this process."""
        metrics, job_dir = self.folder / "metrics", job_dir or str(self.folder / "job")
        variables = {"CLOUD_ML_HP_METRIC_FILE": str(metrics), "CLOUD_ML_TRIAL_ID": "7", "CLOUD_ML_JOB_ID": "Birds.1"}
        train = importlib.import_module(f"tunesmith_builtin.{module}").train
        log, code = io.StringIO(), 0
        with (
            mock.patch.dict(os.environ, variables),
            mock.patch.object(sys, "argv", [module, *arguments, f"--job-dir={job_dir}"]),
            contextlib.redirect_stdout(log),
            contextlib.redirect_stderr(log),
        ):
            try:
                program.run(train)
            except SystemExit as ended:
                code = int(ended.code or 0)
        lines = metrics.read_text().splitlines() if metrics.exists() else []
        metrics.unlink(missing_ok=True)
        return Run(code, log.getvalue(), Path(job_dir), [json.loads(line) for line in lines])


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.fixture
def refused(workspace: Workspace) -> Callable[..., str]:
    """Runs a trainer that must end with exit code 2, and returns its error."""

    def run(module: str, *arguments: str) -> str:
        finished = workspace.run(module, *arguments)
        assert finished.code == 2, finished.log
        assert "Traceback" not in finished.log
        assert not (finished.job_dir / "model").exists()
        return next(line for line in finished.log.splitlines() if line.startswith("error: ")).removeprefix("error: ")

    return run
