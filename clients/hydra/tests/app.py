"""A program of Hydra in a subprocess, with a record of its jobs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import tunesmith
import yaml

CLIENTS = Path(__file__).parents[2]
PYTHON_PATH = os.pathsep.join([str(CLIENTS / "hydra"), str(Path(tunesmith.__file__).parents[1])])

# Each job appends its number and configuration before it computes its value.
_PROGRAM = """
import json
import os

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

ConfigStore.instance().store(name="config", node=CONFIG)


@hydra.main(version_base=None, config_path=None, config_name="config")
def main(cfg):
    record = dict(number=HydraConfig.get().job.num, config=OmegaConf.to_container(cfg))
    with open("jobs.jsonl", "a") as log:
        log.write(json.dumps(record) + "\\n")
    number = record["number"]
    return BODY


if __name__ == "__main__":
    main()
"""


class App:
    """A program in a folder, whose function evaluates the expression `body` with `cfg` and `number`."""

    def __init__(self, folder: Path, config: dict[str, Any], body: str) -> None:
        self.folder = folder
        self.rewrite(config, body)

    def rewrite(self, config: dict[str, Any], body: str) -> None:
        """Replaces the program."""
        program = _PROGRAM.replace("CONFIG", repr(config)).replace("BODY", body)
        (self.folder / "app.py").write_text(program)

    def start(self, *overrides: str) -> subprocess.Popen[str]:
        """Starts a sweep."""
        # Flags come before overrides.
        command = [sys.executable, "-W", "error", "app.py", "--multirun", *overrides, "hydra/sweeper=tunesmith"]
        command += ["hydra.sweep.dir=sweep", "hydra.sweeper.seed=1"]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": PYTHON_PATH},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def sweep(self, *overrides: str, code: int = 0) -> str:
        """Runs a sweep, checks its exit code, and returns its output."""
        process = self.start(*overrides)
        output, _ = process.communicate()
        assert process.returncode == code, output
        return output

    def jobs(self) -> list[dict[str, Any]]:
        """Returns the started jobs, in order."""
        path = self.folder / "jobs.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def results(self) -> Any:
        """Returns `optimization_results.yaml`."""
        return yaml.safe_load((self.folder / "sweep" / "optimization_results.yaml").read_text())
