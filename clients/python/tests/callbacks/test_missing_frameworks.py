"""Adapters without their frameworks: the error names the extra, and the package itself needs none."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Python as after an installation of tunesmith alone: no other distribution is found.
PROGRAM = """
import sys
import importlib.machinery

class OnlyTunesmith:
    @staticmethod
    def find_spec(name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top != "tunesmith":
            raise ModuleNotFoundError(f"No module named {top!r}", name=top)

sys.meta_path.insert(0, OnlyTunesmith)
try:
    import tunesmith.MODULE
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("module", "requirement"),
    [
        ("keras", "keras"),
        ("lightgbm", "lightgbm"),
        ("lightning", "lightning"),
        ("sklearn", "scikit-learn"),
        ("transformers", "transformers"),
        ("xgboost", "xgboost"),
    ],
)
def test_the_error_names_the_extra(module: str, requirement: str) -> None:
    program = PROGRAM.replace("MODULE", module)
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output.startswith(f"tunesmith.{module} needs {requirement} (No module named ")
    assert output.endswith(f"pip install 'tunesmith[{module}]'\n")


def test_lightning_is_not_imported_by_the_package() -> None:
    program = (
        "import sys, tunesmith, tunesmith.optimizer\nprint(sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    frameworks = ("keras", "lightgbm", "lightning", "numpy", "scipy", "sklearn", "torch", "transformers", "xgboost")
    assert not [name for name in frameworks if f"'{name}'" in output]
