#!/usr/bin/env python3
"""Measures what a server holds after many studies, and whether it gives memory back.

    benches/many_studies.py TUNESMITH [--studies 395] [--trials 89] [--clients 8] [--idle 60] [--memory 256]

Starts `TUNESMITH serve` on a new data folder and runs the studies one after the other with the default algorithm, so that
each has a model, while several clients work at once. Prints the resident memory and the memory in allocations after each tenth of
the studies, and once more after some seconds without requests.
"""

import argparse
import itertools
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from held_up import together  # noqa: E402
from soak import PARENT, Api, sample  # noqa: E402


def run_study(api, number, trials):
    parameters = [{"parameter": f"x{i}", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}} for i in range(4)]
    config = {"metrics": [{"metric": "loss", "goal": "MINIMIZE"}], "parameters": parameters}
    study = f"{PARENT}/studies/study-{number}"
    api.call("POST", f"{PARENT}/studies?studyId=study-{number}", {"studyConfig": config})
    for _ in range(trials):
        operation = api.call("POST", f"{study}/trials:suggest", {"clientId": "one", "suggestionCount": 1})
        while not operation.get("done"):
            operation = api.call("GET", f"/v1/{operation['name']}")
        trial = operation["response"]["trials"][0]
        loss = sum((parameter["floatValue"] - 0.3) ** 2 for parameter in trial["parameters"])
        measurement = {"finalMeasurement": {"stepCount": "1", "metrics": [{"metric": "loss", "value": loss}]}}
        api.call("POST", f"/v1/{trial['name']}:complete", measurement)


def measure(arguments, server, port, folder):
    numbers, done, lock = itertools.count(), itertools.count(1), threading.Lock()
    step = max(1, arguments.studies // 10)
    start = time.monotonic()

    def show(name):
        resident, held, files, threads, size = sample(server.pid, port, folder)
        seconds = time.monotonic() - start
        print(f"| {name} | {seconds:.0f} | {resident:.0f} | {held:.0f} | {files} | {threads} | {size:.0f} |", flush=True)

    print("| studies | s | resident MiB | held MiB | files | threads | folder MiB |\n|---|---:|---:|---:|---:|---:|---:|")

    def client(_):
        api = Api(port)
        while (number := next(numbers)) < arguments.studies:
            run_study(api, number, arguments.trials)
            with lock:
                count = next(done)
                if count % step == 0 or count == arguments.studies:
                    show(count)

    together(arguments.clients, client)
    time.sleep(arguments.idle)
    show(f"after {arguments.idle} s without requests")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tunesmith")
    parser.add_argument("--studies", type=int, default=395)
    parser.add_argument("--trials", type=int, default=89)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--idle", type=int, default=60, help="seconds")
    parser.add_argument("--memory", default="256", help="MiB")
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="tunesmith-many-studies-")
    command = [arguments.tunesmith, "serve", "--listen", "127.0.0.1:0", "--data-dir", folder, "--memory", arguments.memory]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = int(server.stdout.readline().strip().rsplit(":", 1)[1].split("/")[0])
        measure(arguments, server, port, folder)
    finally:
        server.terminate()
        server.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
