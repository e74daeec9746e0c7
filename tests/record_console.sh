#!/usr/bin/env bash
# Takes the pictures of docs/guide/console.md and of the README anew: runs jobs, serves them, and opens the console in chromium.
# usage: tests/record_console.sh [PROGRAM]     PROGRAM: the tunesmith to show, target/debug/tunesmith by default
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
program="$(readlink -f "${1:-$root/target/debug/tunesmith}")"
pictures="$root/docs/guide/console"
work="$(mktemp -d)"
trap '[ -z "${server:-}" ] || kill "$server"; rm -rf "$work"' EXIT
cd "$work"

python3 -m venv environment
environment/bin/pip install --quiet --disable-pip-version-check playwright==1.65.2 pillow==13.0.0 scikit-learn==1.9.1 joblib==1.6.0

cat > train.py <<'TRAINER'
import argparse, math, random

parser = argparse.ArgumentParser()
parser.add_argument("--learning_rate", type=float)
parser.add_argument("--layers", type=int)
parser.add_argument("--optimizer")
arguments = parser.parse_args()
if arguments.layers == 8 and arguments.optimizer == "sgd":
    raise SystemExit("out of memory")
error = (math.log10(arguments.learning_rate) + 2) ** 2 + abs(arguments.layers - 4) / 4
error += {"adam": 0, "sgd": 0.3, "rmsprop": 0.1}[arguments.optimizer]
for epoch in range(1, 13):
    print(f"step={epoch} loss={0.2 + error / 4 + 1 / epoch + random.gauss(0, 0.02):.4f}")
TRAINER

# Runs the job $1 by the algorithm $2 with the seed $3.
tune() {
    cat > config.yaml <<CONFIG
trainingInput:
  hyperparameters:
    goal: MINIMIZE
    hyperparameterMetricTag: loss
    maxTrials: 40
    maxParallelTrials: 4
    algorithm: $2
    params:
    - {parameterName: learning_rate, type: DOUBLE, minValue: 0.0001, maxValue: 1, scaleType: UNIT_LOG_SCALE}
    - {parameterName: layers, type: INTEGER, minValue: 1, maxValue: 8}
    - {parameterName: optimizer, type: CATEGORICAL, categoricalValues: [adam, sgd, rmsprop]}
  tunesmith: {metricFromStdout: true, seed: $3}
labels: {team: vision}
CONFIG
    "$program" run --config config.yaml --data-dir data --job-id "$1" -- python3 train.py > "$1.log"
}
tune digits_bayes GAUSSIAN_PROCESS_BANDIT 7
tune digits_random RANDOM_SEARCH 7

# A job whose best trial becomes a model.
cat > iris.py <<'TRAINER'
import os, sys
import joblib
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

options = dict(argument.lstrip("-").split("=", 1) for argument in sys.argv[1:] if "=" in argument)
X, y = load_iris(return_X_y=True)
model = LogisticRegression(C=float(options["c"]), max_iter=1000).fit(X, y)
folder = os.path.join(options["job-dir"], "model")
os.makedirs(folder, exist_ok=True)
joblib.dump(model, os.path.join(folder, "model.joblib"))
print("accuracy=%.4f" % model.score(X, y))
TRAINER
cat > iris.yaml <<CONFIG
trainingInput:
  runtimeVersion: "2.11"
  jobDir: $work/iris
  hyperparameters:
    goal: MAXIMIZE
    hyperparameterMetricTag: accuracy
    maxTrials: 3
    algorithm: GRID_SEARCH
    params:
    - {parameterName: c, type: DISCRETE, discreteValues: [0.001, 0.1, 10]}
  tunesmith: {metricFromStdout: true}
CONFIG
echo "{\"runtimeVersions\": {\"2.11\": {\"python\": \"$work/environment/bin/python\"}}}" > server.yaml
"$program" run --config iris.yaml --data-dir data --job-id iris_search -- "$work/environment/bin/python" "$work/iris.py" > iris.log

: > serve.log
"$program" serve --data-dir data --listen 127.0.0.1:0 --server-config server.yaml >> serve.log &
server=$!
until address="$(sed -n 's/^listening on //p' serve.log)" && [ -n "$address" ]; do
    kill -0 "$server"
done

"$program" models create iris --from-job iris_search --server "$address"
curl --silent --fail --show-error --header 'content-type: application/json' "$address/v1/projects/local/models/iris/versions" \
    --data '{"name": "first", "tunesmith": {"job": "iris_search", "trial": "1"}}' > /dev/null

mkdir -p "$pictures" "$root/docs/images"
cat > pictures.py <<'SCRIPT'
import sys

from PIL import Image
from playwright.sync_api import sync_playwright

ADDRESS, FOLDER = sys.argv[1], sys.argv[2]
JOB = "/console/projects/local/jobs/digits_bayes"
COMPARED = "/console/compare?job=local/digits_bayes&job=local/digits_random"
PAGES = {
    "jobs": ("/console/jobs", "light", 1280, 500),
    "trial": (f"{JOB}/trials/12", "light", 1280, 1000),
    "new-study": ("/console/new-study", "light", 1280, 1000),
    "job": (JOB, "light", 1280, 1000),
    "explore": (f"{JOB}/explore", "light", 1280, 2100),
    "trust-dark": (f"{JOB}/trust", "dark", 1280, 1200),
    "compare": (COMPARED, "light", 1280, 1300),
    "new-job": ("/console/new", "light", 1280, 1000),
    "models": ("/console/models", "light", 1280, 400),
    "model": ("/console/projects/local/models/iris", "light", 1280, 1000),
    "explore-narrow": (f"{JOB}/explore", "light", 390, 900),
    "../../images/console": (f"{JOB}/explore", "light", 1280, 1170),
}
# All plots in the window are drawn, and the model has answered.
DRAWN = """() => [...document.querySelectorAll("figure[data-plot]")].every((figure) =>
  figure.closest("#picture") || figure.getBoundingClientRect().top >= innerHeight || figure.querySelector(".main-svg"))
  && [...document.querySelectorAll("#picture")].every((picture) => picture.dataset.drawn === "true")
  && !document.getElementById("model-note")?.textContent.includes("is being fitted")"""


def reduced(path):
    """Pages have few colours: a palette makes a picture with twice the pixels as small as one without."""
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(96, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
    for name, (path, theme, width, height) in PAGES.items():
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme, device_scale_factor=2)
        page.set_default_timeout(120_000)
        page.goto(ADDRESS + path, wait_until="load")
        page.wait_for_function(DRAWN)
        if name == "model":
            page.get_by_label("Request in JSON").fill('{"instances": [[6.7, 3.1, 4.7, 1.5], [4.6, 3.1, 1.5, 0.2]]}')
            page.get_by_role("button", name="Predict").click()
            page.get_by_role("region", name="Response").get_by_text("predictions").wait_for()
            row = page.get_by_role("row", name="v_iris_search_3")
            row.locator("td").nth(3).get_by_text("1", exact=True).wait_for()
        if name == "new-job":
            text = page.get_by_label("Configuration in YAML or JSON")
            text.evaluate("(field) => field.setSelectionRange(...Array(2).fill(field.value.indexOf('\\n    hyperparameterMetricTag')))")
            text.press_sequentially("\n    en")
            page.get_by_role("listbox").wait_for()
        page.screenshot(path=f"{FOLDER}/{name}.png")
        reduced(f"{FOLDER}/{name}.png")
        page.close()
    browser.close()
SCRIPT
environment/bin/python pictures.py "$address" "$pictures"
