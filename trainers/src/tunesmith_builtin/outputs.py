"""Files below the job-dir: ``model/``, ``processed_data/`` and ``artifacts/``."""

from __future__ import annotations

import csv
import json
import os
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from . import storage


@dataclass(frozen=True)
class Model:
    """A trained model and what its deployment needs."""

    algorithm: str
    # As in a Version of AI Platform: XGBOOST or SCIKIT_LEARN.
    framework: str
    # Version of the framework.
    runtime_version: str
    # Writes the model file into a folder.
    save: Callable[[Path], None]
    step: int
    metrics: Mapping[str, float]


def write(
    job_dir: str,
    model: Model,
    metadata: Mapping[str, Any],
    evaluation: Mapping[str, Any],
    processed: Mapping[str, Sequence[Sequence[Any]]],
    *,
    with_generator: bool,
) -> None:
    """Writes everything below ``job_dir``, the model last."""
    base = job_dir.rstrip("/")
    if processed:
        with storage.folder(f"{base}/processed_data") as folder:
            for name, rows in processed.items():
                with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerows(rows)
    with storage.folder(f"{base}/artifacts") as folder:
        _write_json(folder / "metadata.json", metadata)
        _write_json(folder / "evaluation.json", evaluation)
        if with_generator:
            source = resources.files(__package__).joinpath("instance_generator.py").read_text(encoding="utf-8")
            (folder / "instance_generator.py").write_text(source, encoding="utf-8")
    with storage.folder(f"{base}/model") as folder:
        model.save(folder)
        (folder / "deployment_config.yaml").write_text(_deployment_config(base, model), encoding="utf-8")
    print(f"model written to {base}/model/", flush=True)


def _deployment_config(base: str, model: Model) -> str:
    """A Version in YAML, for ``gcloud ai-platform versions create --config``."""
    labels = {
        "algorithm": model.algorithm,
        "job_id": os.environ.get("CLOUD_ML_JOB_ID", "local"),
        "global_step": str(model.step),
        **{name: _label_number(name, value) for name, value in model.metrics.items()},
    }
    lines = [
        f"deploymentUri: {json.dumps(f'{base}/model/')}",
        f"framework: {model.framework}",
        f"runtimeVersion: {json.dumps(model.runtime_version)}",
        f"pythonVersion: {json.dumps('.'.join(platform.python_version_tuple()[:2]))}",
        "labels:",
        *(f"  {_label(name)}: {json.dumps(_label(value))}" for name, value in labels.items()),
    ]
    return "\n".join(lines) + "\n"


def _label_number(name: str, value: float) -> str:
    # Labels have no decimal point: shares are whole percentages, as in the published file, other values whole numbers.
    return str(round(value * 100)) if name in ("accuracy", "error_percentage") else f"{value:.0f}"


def _label(text: str) -> str:
    return re.sub("[^a-z0-9_-]", "_", text.lower())[:63]


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
