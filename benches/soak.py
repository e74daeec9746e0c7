#!/usr/bin/env python3
"""Measures what a server holds under a long, even load: resident memory, open files, threads, and the size of its store.

    benches/soak.py TUNESMITH [--minutes 120] [--rate 200] [--clients 8] [--every 10] [--limit-slope]

Starts `TUNESMITH serve` on a new data folder, keeps one job of `examples/any_command` running, and sends pairs of
`trials:suggest` and `:complete` at a fixed rate of requests per second. Each client works on a study of its own, and takes
a new one after 1,000 trials. Half of the studies use random search, the other half the default algorithm with 100 trials.

Prints one line for each interval, and at the end the least-squares slope of each quantity over the second half of the run.
Exits with 1 if a request failed, or, with --limit-slope, if memory, files or threads grow over the second half by more
than a tenth of their median in an hour.
"""

import argparse
import http.client
import itertools
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PARENT = "/v1/projects/soak/locations/here"
RANDOM_TRIALS, MODEL_TRIALS = 1000, 100


class Api:
    """A connection to the server."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def call(self, method, path, body=None):
        content = None if body is None else json.dumps(body)
        self.connection.request(method, path, content, {"content-type": "application/json"})
        response = self.connection.getresponse()
        text = response.read()
        if response.status != 200:
            raise RuntimeError(f"{method} {path}: {response.status} {text[:500]}")
        return json.loads(text)


class Pace:
    """Gives permission for one request after the other, at a fixed rate."""

    def __init__(self, rate):
        self.interval, self.next, self.lock = 1 / rate, time.monotonic(), threading.Lock()

    def wait(self):
        with self.lock:
            now = time.monotonic()
            self.next = max(self.next, now - 1) + self.interval
            delay = self.next - now
        if delay > 0:
            time.sleep(delay)


class Load:
    """The clients, and what they have done."""

    def __init__(self, port, rate, end):
        self.port, self.pace, self.end = port, Pace(rate), end
        self.numbers, self.lock = itertools.count(), threading.Lock()
        self.requests, self.errors = 0, []

    def call(self, api, *request):
        self.pace.wait()
        answer = api.call(*request)
        with self.lock:
            self.requests += 1
        return answer

    def client(self):
        api = Api(self.port)
        try:
            while time.monotonic() < self.end:
                self.study(api, next(self.numbers))
        except Exception as error:  # Every error ends the run.
            self.errors.append(error)

    def study(self, api, number):
        uses_model = number % 2 == 1
        parameters = [{"parameter": f"x{i}", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}} for i in range(4)]
        config = {"metrics": [{"metric": "loss", "goal": "MINIMIZE"}], "parameters": parameters}
        config["algorithm"] = "ALGORITHM_UNSPECIFIED" if uses_model else "RANDOM_SEARCH"
        study = f"{PARENT}/studies/soak-{number}"
        self.call(api, "POST", f"{PARENT}/studies?studyId=soak-{number}", {"studyConfig": config})
        for _ in range(MODEL_TRIALS if uses_model else RANDOM_TRIALS):
            if time.monotonic() >= self.end:
                return
            operation = self.call(api, "POST", f"{study}/trials:suggest", {"clientId": "soak", "suggestionCount": 1})
            while not operation.get("done"):
                operation = self.call(api, "GET", f"/v1/{operation['name']}")
            trial = operation["response"]["trials"][0]
            loss = sum((p["floatValue"] - 0.3) ** 2 for p in trial["parameters"])
            measurement = {"finalMeasurement": {"stepCount": "1", "metrics": [{"metric": "loss", "value": loss}]}}
            self.call(api, "POST", f"/v1/{trial['name']}:complete", measurement)

    def jobs(self):
        """Keeps one job of six trials running."""
        api = Api(self.port)
        script = str(ROOT / "examples" / "any_command" / "train.sh")
        doubles = [("level", 0.01, 1), ("trend", 0, 1), ("damping", 0.1, 0.99)]
        params = [{"parameterName": n, "type": "DOUBLE", "minValue": a, "maxValue": b} for n, a, b in doubles]
        spec = {"goal": "MINIMIZE", "hyperparameterMetricTag": "error", "maxTrials": 6, "maxParallelTrials": 2, "params": params}
        program = {"containerCommand": ["sh", script]}
        try:
            for number in itertools.count():
                body = {"jobId": f"soak_{number}", "trainingInput": {
                    "hyperparameters": spec, "masterConfig": program, "tunesmith": {"metricFromStdout": True}}}
                api.call("POST", "/v1/projects/soak/jobs", body)
                state = "QUEUED"
                while state in ("QUEUED", "PREPARING", "RUNNING"):
                    if time.monotonic() >= self.end:
                        return
                    time.sleep(1)
                    state = api.call("GET", f"/v1/projects/soak/jobs/soak_{number}")["state"]
                if state != "SUCCEEDED":
                    raise RuntimeError(f"job soak_{number} ended {state}")
        except Exception as error:
            self.errors.append(error)


def held_bytes(port):
    """Bytes in allocations of the server, by its own metrics."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("tunesmith_memory_held_bytes "))


def sample(pid, port, folder):
    """Resident MiB, MiB in allocations, open files and threads of the process `pid`, and MiB of `folder`."""
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    files = len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))
    size = int(subprocess.run(["du", "-sk", folder], capture_output=True, text=True).stdout.split()[0])
    held = held_bytes(port) / 2**20
    return [int(status["VmRSS"].split()[0]) / 1024, held, files, int(status["Threads"]), size / 1024]


def slope_per_hour(times, values):
    """The least-squares slope of `values`, per hour."""
    if len(times) < 2:
        return 0.0
    return statistics.linear_regression(times, values).slope * 3600


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tunesmith")
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--rate", type=float, default=200, help="requests per second")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--every", type=float, default=10, help="seconds between samples")
    parser.add_argument("--limit-slope", action="store_true")
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="tunesmith-soak-")
    server = subprocess.Popen(
        [arguments.tunesmith, "serve", "--listen", "127.0.0.1:0", "--data-dir", folder],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        line = server.stdout.readline()
        port = int(line.strip().rsplit(":", 1)[1].split("/")[0])
        return measure(arguments, server.pid, port, folder)
    finally:
        server.terminate()
        server.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def measure(arguments, pid, port, folder):
    start = time.monotonic()
    load = Load(port, arguments.rate, start + arguments.minutes * 60)
    threads = [threading.Thread(target=load.client) for _ in range(arguments.clients)] + [threading.Thread(target=load.jobs)]
    for thread in threads:
        thread.start()
    names = ["resident MiB", "held MiB", "files", "threads", "folder MiB"]
    print("| s | requests | " + " | ".join(names) + " |\n|---:|---:|" + "---:|" * len(names))
    times, samples = [], []
    while time.monotonic() < load.end and not load.errors:
        time.sleep(min(arguments.every, max(0.1, load.end - time.monotonic())))
        now = time.monotonic() - start
        values = sample(pid, port, folder)
        times.append(now)
        samples.append(values)
        print(f"| {now:.0f} | {load.requests} | " + " | ".join(f"{value:.1f}" for value in values) + " |", flush=True)
    load.end = 0
    for thread in threads:
        thread.join()
    for error in load.errors:
        print(f"error: {error}", file=sys.stderr)
    half = len(times) // 2
    failed = bool(load.errors)
    print("\n| second half | median | slope per hour |\n|---|---:|---:|")
    for index, name in enumerate(names):
        values = [row[index] for row in samples[half:]]
        middle, slope = statistics.median(values), slope_per_hour(times[half:], values)
        print(f"| {name} | {middle:.1f} | {slope:+.1f} |")
        failed |= arguments.limit_slope and name != "folder MiB" and slope > middle / 10
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
