"""A batch prediction beside plain Python, for a small model of scikit-learn.

    python benches/batch_prediction.py PATH_OF_TUNESMITH [--rows 200000] [--rounds 3] [--workers 2] [--batch-size 64 1000]

Needs scikit-learn in this interpreter, which the workers use as well. Plain Python reads the same lines, calls `predict` with
batches of the same size, and writes a line for each prediction: a process of its own, as the workers are. Both take turns. Prints
the seconds of each round, from the submission of the job to its end, and compares the predictions.
"""

import argparse
import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import joblib
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

PLAIN = """
import json, sys, joblib
model, size = joblib.load(sys.argv[1]), int(sys.argv[4])
def predict(rows, output):
    for prediction in model.predict(rows).tolist():
        output.write(json.dumps(prediction) + '\\n')
with open(sys.argv[2]) as lines, open(sys.argv[3], 'w') as output:
    rows = []
    for line in lines:
        rows.append(json.loads(line))
        if len(rows) == size:
            predict(rows, output)
            rows = []
    if rows:
        predict(rows, output)
"""


def call(connection, method, path, body=None):
    connection.request(method, path, None if body is None else json.dumps(body), {"content-type": "application/json"})
    response = connection.getresponse()
    content = response.read()
    if response.status != 200:
        raise RuntimeError(f"{method} {path}: {response.status} {content[:300]}")
    return json.loads(content)


@contextlib.contextmanager
def serving(program, folder):
    environment = dict(os.environ, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    command = [program, "serve", "--listen", "127.0.0.1:0", "--data-dir", str(folder / "data")]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    try:
        yield http.client.HTTPConnection(re.search(r"//(.*)", server.stdout.readline()).group(1))
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()


def job(connection, folder, name, size, workers):
    given = {"uri": str(folder / "model"), "dataFormat": "JSON", "inputPaths": [str(folder / "rows.json")]}
    given |= {"outputPath": str(folder / name), "region": "r", "batchSize": str(size), "maxWorkerCount": str(workers)}
    begin = time.perf_counter()
    call(connection, "POST", "/v1/projects/local/jobs", {"jobId": name, "predictionInput": given})
    while True:
        state = call(connection, "GET", f"/v1/projects/local/jobs/{name}")
        if state["state"] in ("SUCCEEDED", "FAILED", "CANCELLED"):
            break
        time.sleep(0.02)
    seconds = time.perf_counter() - begin
    if state["state"] != "SUCCEEDED":
        raise RuntimeError(state)
    return seconds, "".join(path.read_text() for path in sorted((folder / name).glob("prediction.results-*")))


def plain(folder, size):
    begin = time.perf_counter()
    arguments = [folder / "model" / "model.joblib", folder / "rows.json", folder / "plain", str(size)]
    subprocess.run([sys.executable, "-c", PLAIN, *map(str, arguments)], check=True)
    return time.perf_counter() - begin, (folder / "plain").read_text()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--batch-size", type=int, nargs="+", default=[64, 1000])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model").mkdir()
        X, y = load_iris(return_X_y=True)
        joblib.dump(LogisticRegression(max_iter=1000).fit(X, y), folder / "model" / "model.joblib")
        lines = [json.dumps(row) + "\n" for row in X.tolist()]
        (folder / "rows.json").write_text("".join(lines[number % len(lines)] for number in range(arguments.rows)))
        with serving(arguments.program, folder) as connection:
            print("| batch | round | Tunesmith | plain Python | ratio |\n|---:|---:|---:|---:|---:|")
            for size in arguments.batch_size:
                for round in range(1, arguments.rounds + 1):
                    ours, predicted = job(connection, folder, f"job_{size}_{round}", size, arguments.workers)
                    theirs, expected = plain(folder, size)
                    if predicted != expected:
                        raise ValueError("the predictions differ")
                    print(f"| {size} | {round} | {ours:.1f} s | {theirs:.1f} s | {ours / theirs:.2f} |", flush=True)


if __name__ == "__main__":
    main()
