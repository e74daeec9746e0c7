#!/usr/bin/env python3
"""Times `tunesmith run` with no-op trials, two at once, beside the same commands under `xargs -P2`.

The two take turns, and the ratio of their medians is printed for each trainer.
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
    # The least that a trainer in Python costs.
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
            ours, theirs = [], []
            for turn in range(rounds):
                theirs.append(seconds(["xargs", "-P2", "-I{}", *trainer], folder, input=numbers))
                data = f"data-{name}-{turn}"
                ours.append(seconds([binary, "run", "--config", "config.yaml", "--data-dir", data, "--", *trainer], folder))
            a, b = statistics.median(ours), statistics.median(theirs)
            print(f"{name}: {trials} trials, {rounds} rounds: tunesmith run {a:.2f} s, xargs -P2 {b:.2f} s, ratio {a / b:.2f}")


if __name__ == "__main__":
    main()
