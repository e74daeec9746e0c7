"""The examples of the guide for Python, in order and in one folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[4] / "docs" / "guide" / "python.md"
# Since Python 3.12, there is a warning for a fork beside threads.
WARNINGS = "error,ignore:This process:DeprecationWarning"
BLOCK = re.compile(r"^```(\w+) ([^\n]+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_examples_of_the_guide_run(tmp_path: Path) -> None:
    programs = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONWARNINGS": WARNINGS}
    run = 0
    for language, mark, source in BLOCK.findall(GUIDE.read_text()):
        if mark == "test":
            command = [sys.executable, "-c", source] if language == "python" else ["sh", "-ec", source]
            output = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert output.returncode == 0, f"{source}\n{output.stdout}\n{output.stderr}"
            run += 1
        elif mark.startswith("file="):
            (tmp_path / mark.removeprefix("file=")).write_text(source)
        else:
            assert mark == "no-run", mark
    assert run == len(re.findall("^```python", GUIDE.read_text(), re.MULTILINE)) >= 13
    assert (tmp_path / "parallel.html").stat().st_size > 1000


@pytest.mark.parametrize("option", ["trials", "parallel", "executor", "storage", "name", "metrics", "catch", "timeout"])
def test_the_guide_mentions_each_option(option: str) -> None:
    assert f"`{option}" in GUIDE.read_text()
