"""The examples of the README do what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from server_process import ServerProcess

README = Path(__file__).parent.parent / "README.md"


def test_the_examples_run_as_they_stand(own_server: ServerProcess, tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", README.read_text(), re.DOTALL)
    assert len(examples) >= 1
    for program, expected in examples:
        output = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            cwd=tmp_path,
            env={"TUNESMITH_SERVER": own_server.address},
            capture_output=True,
            text=True,
        )
        assert (output.returncode, output.stderr) == (0, ""), output.stderr
        assert output.stdout == expected
