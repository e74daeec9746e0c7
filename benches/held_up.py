#!/usr/bin/env python3
"""Measures how long small requests wait while the server works on a large one.

    benches/held_up.py TUNESMITH [--trials 100000] [--curve 5000] [--limit-ms MS]

Starts `TUNESMITH serve` on a new data folder and adds a study of many completed trials of two metrics. Then sends large
requests, one after the other. Two other connections meanwhile read a small study and report measurements to its trial, every
few milliseconds. Prints for each large request how long it took, and the response times of the
small ones. Exits with 1 if a request failed, or, with --limit-ms, if a small one took longer.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from soak import PARENT, Api  # noqa: E402

LARGE, SMALL = f"{PARENT}/studies/large", f"{PARENT}/studies/small"
CLIENTS, READERS = 8, 8
PAUSE_SECONDS = 0.005


def config(metrics, algorithm="RANDOM_SEARCH"):
    parameters = [{"parameter": f"x{i}", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}} for i in range(4)]
    return {"studyConfig": {
        "algorithm": algorithm, "parameters": parameters,
        "metrics": [{"metric": name, "goal": "MINIMIZE"} for name in metrics]}}


def together(count, work):
    """Runs `work(index)` in `count` threads, and raises their first error."""
    errors = []

    def run(index):
        try:
            work(index)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def fill(port, trials):
    def client(index):
        api = Api(port)
        for number in range(index, trials, CLIENTS):
            values = [(number * step % trials) / trials for step in (1, 7, 11, 13)]
            a, b = (number * 31 % trials) / trials, (number * 17 % trials) / trials
            api.call("POST", f"{LARGE}/trials", {
                "state": "SUCCEEDED",
                "parameters": [{"parameter": f"x{i}", "floatValue": value} for i, value in enumerate(values)],
                "finalMeasurement": {"metrics": [{"metric": "a", "value": a}, {"metric": "b", "value": b}]}})

    together(CLIENTS, client)


def read(port, method, path, body=None):
    """Sends a request, and reads its response without parsing it, so that this process is not busy."""
    api = Api(port)
    api.connection.request(method, path, body, {"content-type": "application/json"} if body else {})
    response = api.connection.getresponse()
    while response.read(1 << 20):
        pass
    if response.status != 200:
        raise RuntimeError(f"{method} {path}: {response.status}")


class Probes:
    """Small requests, and the times of their responses in milliseconds."""

    def __init__(self, port, trial):
        self.port, self.trial, self.times, self.errors, self.ended = port, trial, [], [], False
        self.threads = [threading.Thread(target=self.run, args=(reports,)) for reports in (False, True)]
        for thread in self.threads:
            thread.start()

    def run(self, reports):
        api, step = Api(self.port), 0
        try:
            while not self.ended:
                step += 1
                begin = time.perf_counter()
                if reports:
                    measurement = {"stepCount": str(step), "metrics": [{"metric": "a", "value": 1 / step}]}
                    api.call("POST", f"/v1/{self.trial}:addMeasurement?fields=name", {"measurement": measurement})
                else:
                    api.call("GET", SMALL)
                self.times.append((time.perf_counter() - begin) * 1000)
                time.sleep(PAUSE_SECONDS)
        except Exception as error:
            self.errors.append(error)

    def end(self):
        self.ended = True
        for thread in self.threads:
            thread.join()
        if self.errors:
            raise self.errors[0]
        return sorted(self.times)


def measure(port, arguments):
    api = Api(port)
    api.call("POST", f"{PARENT}/studies?studyId=large", config(["a", "b"]))
    begin = time.perf_counter()
    fill(port, arguments.trials)
    print(f"{arguments.trials} trials were added in {time.perf_counter() - begin:.0f} s\n")

    def trial_of(study):
        api.call("POST", f"{PARENT}/studies?studyId={study.rsplit('/', 1)[1]}", config(["a"]))
        operation = api.call("POST", f"{study}/trials:suggest", {"clientId": "one", "suggestionCount": 1})
        while not operation.get("done"):
            operation = api.call("GET", f"/v1/{operation['name']}")
        return operation["response"]["trials"][0]["name"]

    small, curve = trial_of(SMALL), trial_of(f"{PARENT}/studies/curve")

    def report():
        for step in range(1, arguments.curve + 1):
            measurement = {"stepCount": str(step), "metrics": [{"metric": "a", "value": 1 / step}]}
            api.call("POST", f"/v1/{curve}:addMeasurement?fields=name", {"measurement": measurement})

    suggestion = '{"clientId": "many", "suggestionCount": 100}'
    requests = [
        ("nothing", lambda: time.sleep(2)),
        ("first :listOptimalTrials", lambda: read(port, "POST", f"{LARGE}/trials:listOptimalTrials", "{}")),
        ("second :listOptimalTrials", lambda: read(port, "POST", f"{LARGE}/trials:listOptimalTrials", "{}")),
        ("list of all trials", lambda: read(port, "GET", f"{LARGE}/trials")),
        (f"{READERS} lists of all trials", lambda: together(READERS, lambda _: read(port, "GET", f"{LARGE}/trials"))),
        ("suggestion of 100 trials", lambda: read(port, "POST", f"{LARGE}/trials:suggest", suggestion)),
        (f"{arguments.curve} reports to one trial", report),
        ("read of that trial", lambda: read(port, "GET", f"/v1/{curve}")),
        ("deletion of the study", lambda: read(port, "DELETE", LARGE)),
    ]
    print("| large request | its time, s | small requests | median, ms | 99 of 100, ms | longest, ms |")
    print("|---|---:|---:|---:|---:|---:|")
    longest = 0
    for name, request in requests:
        probes = Probes(port, small)
        begin = time.perf_counter()
        try:
            request()
        finally:
            seconds = time.perf_counter() - begin
            times = probes.end()
        tail = times[min(len(times) - 1, len(times) * 99 // 100)]
        print(f"| {name} | {seconds:.2f} | {len(times)} | {statistics.median(times):.1f} | {tail:.1f} | {times[-1]:.1f} |", flush=True)
        longest = max(longest, times[-1])
    return longest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tunesmith")
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--curve", type=int, default=5000)
    parser.add_argument("--limit-ms", type=float)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tunesmith-held-up-") as folder:
        server = subprocess.Popen(
            [arguments.tunesmith, "serve", "--listen", "127.0.0.1:0", "--data-dir", folder],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            port = int(server.stdout.readline().strip().rsplit(":", 1)[1].split("/")[0])
            longest = measure(port, arguments)
        finally:
            server.terminate()
            server.wait(60)
    return int(arguments.limit_ms is not None and longest > arguments.limit_ms)


if __name__ == "__main__":
    sys.exit(main())
