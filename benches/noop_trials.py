#!/usr/bin/env python3
"""Compares the time of `tunesmith run` with two parallel no-op trials to that of the same commands under `xargs -P2`.

The two alternate, and the ratio of their medians is printed for each trainer.
Usage: benches/noop_trials.py [trials] [rounds]
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

TRAINERS = {
    "shell": ["sh", "-c", "echo m=1", "trainer"],
    # The minimal cost of a trainer in Python.
    "python": ["python3", "-c", 'print("m=1")'],
}
CONFIG = """
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: m
  maxTrials: {trials}
  maxParallelTrials: 2
  algorithm: RANDOM_SEARCH
  params: [{{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}}]
tunesmith: {{metricFromStdout: true, seed: 1}}
"""


def seconds(command, folder, **more):
    start = time.monotonic()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
    return time.monotonic() - start


def main():
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    root = pathlib.Path(__file__).resolve().parent.parent
    subprocess.run(["cargo", "build", "--release", "--locked", "--quiet"], cwd=root, check=True)
    metadata = subprocess.check_output(["cargo", "metadata", "--format-version", "1", "--no-deps"], cwd=root)
    binary = pathlib.Path(json.loads(metadata)["target_directory"]) / "release" / "tunesmith"
    numbers = "".join(f"{number}\n" for number in range(trials)).encode()
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "config.yaml").write_text(CONFIG.format(trials=trials))
        for name, trainer in TRAINERS.items():
            tunesmith, xargs = [], []
            for round_index in range(rounds):
                xargs.append(seconds(["xargs", "-P2", "-I{}", *trainer], folder, input=numbers))
                data = f"data-{name}-{round_index}"
                tunesmith.append(seconds([binary, "run", "--config", "config.yaml", "--data-dir", data, "--", *trainer], folder))
            a, b = statistics.median(tunesmith), statistics.median(xargs)
            print(f"{name}: {trials} trials, {rounds} rounds: tunesmith run {a:.2f} s, xargs -P2 {b:.2f} s, ratio {a / b:.2f}")


if __name__ == "__main__":
    main()
