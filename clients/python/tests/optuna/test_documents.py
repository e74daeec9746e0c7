"""The guide's examples and the package for OptunaHub."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import optuna
import optunahub
import pytest

from tunesmith.optuna import TunesmithPruner, TunesmithSampler

ROOT = Path(__file__).parents[4]
REGISTRY = ROOT / "packaging" / "optunahub" / "package"
HUB = REGISTRY / "samplers" / "tunesmith"


def python_examples(page: Path) -> list[str]:
    return re.findall(r"```python[^\n]*\n(.*?)```", page.read_text(), re.DOTALL)


def run(program: str, folder: Path | None = None) -> str:
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_the_example_of_the_guide_finds_the_optimum() -> None:
    example, pruning, _ = python_examples(ROOT / "docs" / "guide" / "optuna.md")
    assert len([line for line in example.splitlines() if line]) == 9
    found = re.fullmatch(r"\{'rate': (\S+), 'layers': 3\}\n", run(example))
    assert found is not None
    assert abs(float(found[1]) - 0.01) < 0.005
    names = "import optuna\nfrom tunesmith.optuna import TunesmithPruner, TunesmithSampler\n"
    assert run(f"{names}{pruning}print(type(study.pruner).__name__)") == "TunesmithPruner\n"


def test_the_imported_study_of_the_guide_continues(tmp_path: Path) -> None:
    page = ROOT / "docs" / "guide" / "optuna.md"
    example = python_examples(page)[-1]
    summary, best = run(example, tmp_path).splitlines()
    assert summary == "study 'parabola': 20 trials imported: 20 completed, 0 pruned, 0 infeasible"
    assert 0 <= float(best) < 0.01
    (command,) = re.findall(r"^python -m (tunesmith\.optuna) (import .*)$", page.read_text(), re.MULTILINE)
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-m", command[0], *command[1].split()],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout.splitlines()[1] == "20 trials of earlier imports"


def test_the_package_for_optunahub_has_the_required_fields() -> None:
    text = (HUB / "README.md").read_text()
    front = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    assert front is not None
    fields = dict(line.split(": ", 1) for line in front[1].splitlines())
    assert list(fields) == ["author", "title", "description", "tags", "optuna_versions", "license"]
    assert all(fields.values())
    assert fields["tags"].startswith("[sampler,")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Abstract", "APIs", "Installation", "Example"]
    assert re.search(r"<\w+", text) is None
    assert {path.name for path in HUB.iterdir() if path.is_file()} == {
        "LICENSE",
        "README.md",
        "__init__.py",
        "example.py",
        "requirements.txt",
        "sampler.py",
    }


def test_optunahub_loads_the_package_and_its_example_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load_here(package: str) -> object:
        return optunahub.load_local_module(package, registry_root=str(REGISTRY))

    module = optunahub.load_local_module("samplers/tunesmith", registry_root=str(REGISTRY))
    assert (module.TunesmithSampler, module.TunesmithPruner) == (TunesmithSampler, TunesmithPruner)
    # Only the source differs from that of users: the package is not published.
    monkeypatch.setattr(optunahub, "load_module", load_here)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    (of_readme,) = python_examples(HUB / "README.md")
    programs: list[Callable[[], object]] = [
        lambda: runpy.run_path(str(HUB / "example.py"), run_name="__main__"),
        lambda: exec(of_readme, {}),
    ]
    for program in programs:
        program()
        found = re.search(r"\{'x': (\S+), 'y': -3\}", capsys.readouterr().out)
        assert found is not None
        assert abs(float(found[1]) - 2) < 0.01
