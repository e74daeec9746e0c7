"""Uses an installed wheel in a root without a compiler. `tests/wheel_root.sh` starts it."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

WORK = Path("/work")
ENVIRONMENT = WORK / "environment"
BEGIN = time.monotonic()

SEARCH = """
import sys, time
before = set(sys.modules)
begin = time.monotonic()
import tunesmith
imported = time.monotonic() - begin
others = {name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names - {"tunesmith"}
assert not others, others
search = tunesmith.Optimizer([tunesmith.double("x", -2, 2), tunesmith.integer("n", 1, 9)], [tunesmith.minimize("loss")], seed=1)
for _ in range(25):
    trial = search.ask()
    search.tell(trial, (trial.parameters["x"] - 1) ** 2 + abs(trial.parameters["n"] - 3))
assert search.best.value < 0.05, search.best
print(f"import {imported:.3f} s, best {search.best.value:.2g}")
"""

CONFIGURATION = """
trainingInput:
  hyperparameters:
    goal: MINIMIZE
    hyperparameterMetricTag: loss
    maxTrials: 8
    maxParallelTrials: 2
    params: [{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}]
  tunesmith: {metricFromStdout: true}
"""


def run(*command: object, **options: object) -> str:
    """Runs a command, which has to succeed, and returns its output."""
    done = subprocess.run([str(word) for word in command], cwd=WORK, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def main() -> None:
    """Installs and uses the wheel."""
    for tool in ("cc", "gcc", "rustc", "cargo"):
        assert shutil.which(tool) is None, tool
    (wheel,) = WORK.glob("*.whl")
    run(sys.executable, "-m", "venv", ENVIRONMENT)
    run(ENVIRONMENT / "bin/pip", "install", "--no-index", "--quiet", wheel)
    python, program = ENVIRONMENT / "bin/python", ENVIRONMENT / "bin/tunesmith"
    print(run(python, "-c", SEARCH).strip())
    print(f"from nothing to a tuned model: {time.monotonic() - BEGIN:.1f} s")

    version = run(program, "--version")
    assert run(python, "-m", "tunesmith", "--version") == version
    assert run(python, "-c", "import tunesmith; print(tunesmith.__version__)").strip() in version
    assert subprocess.run([python, "-m", "tunesmith", "no-such-command"], capture_output=True).returncode == 2
    print(version.strip())
    (WORK / "tuning.yaml").write_text(CONFIGURATION)
    (WORK / "train.sh").write_text('echo "loss=${1#--x=} step=1"\n')
    printed = run(program, "run", "--config", "tuning.yaml", "--data-dir", "data", "--", "sh", "train.sh")
    assert "8 trials" in printed or "succeeded" in printed.lower(), printed
    print(run(python, "-m", "tunesmith", "doctor", "--data-dir", "data").strip().splitlines()[-1])

    # Beside `site-packages`, as of `pip install --target`.
    run(ENVIRONMENT / "bin/pip", "install", "--no-index", "--quiet", "--target", "a folder", wheel)
    target = dict(os.environ, PYTHONPATH=str(WORK / "a folder"))
    assert run(sys.executable, "-m", "tunesmith", "--version", env=target) == version

    server = subprocess.Popen([program, "serve", "--listen", "127.0.0.1:0", "--data-dir", "data"], cwd=WORK,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        address = server.stdout.readline().split()[-1]
        client = f"""
import tunesmith, json
study = tunesmith.Client({address!r}).create_study("s", [tunesmith.double("x", 0, 1)], [tunesmith.minimize("loss")], max_trials=5)
for trial in study.trials():
    with trial:
        trial.report(trial.parameters["x"])
print(json.dumps(len(study.all_trials())))
"""
        assert json.loads(run(python, "-c", client)) == 5
    finally:
        server.terminate()
        server.wait()
    sizes = {name: round((ENVIRONMENT / name).stat().st_size / 2**20, 1) for name in ["bin/tunesmith"]}
    engine = next(ENVIRONMENT.glob("lib/python3*/site-packages/tunesmith/_core.abi3.so"))
    print(f"wheel {wheel.stat().st_size / 2**20:.1f} MiB, program {sizes['bin/tunesmith']} MiB, "
          f"engine {engine.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
