"""The examples of the README and of the repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from server_process import ServerProcess

README = Path(__file__).parent.parent / "README.md"


def test_the_examples_of_the_readme_run(own_server: ServerProcess, tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", README.read_text(), re.DOTALL)
    assert len(examples) >= 1
    for program, expected in examples:
        output = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            cwd=tmp_path,
            env=os.environ | {"TUNESMITH_SERVER": own_server.address},
            capture_output=True,
            text=True,
        )
        assert (output.returncode, output.stderr) == (0, ""), output.stderr
        assert output.stdout == expected


def test_the_example_finds_a_good_forecast_and_is_idempotent(own_server: ServerProcess) -> None:
    script = Path(__file__).parents[3] / "examples" / "suggest_report" / "tune.py"
    command = [sys.executable, "-W", "error", str(script)]
    env = os.environ | {"TUNESMITH_SERVER": own_server.address}
    first = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    found = re.fullmatch(r"30 trials, the best has error (\S+) with \{'.*\}\n", first)
    assert found is not None, first
    # 142.789 is the least error that either method has, as a fine grid of their parameters shows.
    assert 142.78 < float(found[1]) < 144
    assert subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout == first
