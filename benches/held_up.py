#!/usr/bin/env python3
"""Measures how long small requests wait while the server works on a large one.

    benches/held_up.py TUNESMITH [--trials 100000] [--curve 5000] [--limit-ms MS]
    benches/held_up.py TUNESMITH --hostile [--only TEXT] [--scale 1] [--limit-ms MS]

Starts `TUNESMITH serve` on a new data folder and adds a study of many completed trials of two metrics. Then sends large
requests, one after the other. Two other connections meanwhile read a small study and report measurements to its trial, every
few milliseconds. Prints for each large request how long it took, and the response times of the
small ones. Exits with 1 if a request failed, or, with --limit-ms, if a small one took longer.

With --hostile, the large requests are those of strangers, viewers, developers and programs of trials who mean to hold up the
server, eight of each kind at once. The small ones are `/healthz`, the list of another principal, and the report of another
project's agent.
"""

import argparse
import collections
import http.client
import json
import os
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


ATTACKERS = 8


class Attack:
    """A server with tokens, a job whose program runs under an agent, and requests that are made to be slow."""

    def __init__(self, port, secrets, folder, scale):
        self.port, self.secrets, self.folder, self.scale = port, secrets, pathlib.Path(folder), scale
        program = {"containerCommand": ["sh", "-c", "exec tail -f /dev/null"]}
        parameters = [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]
        tuning = {"goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": 1, "params": parameters}
        job = {"jobId": "held", "trainingInput": {"masterConfig": program, "hyperparameters": tuning}}
        for project in ("p", "q"):
            self.check_send("POST", f"/v1/projects/{project}/jobs", job, "admin")
        self.check_send("POST", f"{PARENT}/studies?studyId=small", config(["a"]), "admin")
        point = [{"parameter": f"x{i}", "floatValue": 0.5} for i in range(4)]
        self.check_send("POST", f"{SMALL}/trials", {"parameters": point}, "admin")
        self.tokens_of_trials = {project: self.token_of_trial(project) for project in ("p", "q")}

    def token_of_trial(self, project):
        while not (specifications := list(self.folder.glob(f"agents/{project}~held-*/spec.json"))):
            time.sleep(0.1)
        return json.loads(specifications[0].read_text())["spec"]["server"]["token"]

    def check_send(self, *request):
        status = self.send(*request)
        if status != 200:
            raise RuntimeError(f"{request}: {status}")

    def send(self, method, path, body=None, who=None, token=None):
        token = token or self.secrets.get(who)
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request(method, path, body if body is None or isinstance(body, str) else json.dumps(body), headers)
        response = connection.getresponse()
        while response.read(1 << 20):
            pass
        return response.status

    def kinds(self):
        many = lambda count: range(int(count * self.scale))  # noqa: E731
        sync = "/v1/projects/p/jobs/held/runs/trial-1.attempt-1:sync"
        spaces = f"/v1/projects/p/jobs?filter=labels.a:{'+' * len(many(60_000))}x"
        problems = json.dumps({"problems": [f"problem {i}" for i in many(50_000)]})
        logs = f'{{"logs":[{",".join("{}" for _ in many(1_300_000))}]}}'
        unknown = json.dumps({"text": "trainingInput:\n" + "".join(f"  k{i}: 1\n" for i in many(60_000))})
        form = "metrics: [{metric: a}]\nparameters: [" + ",".join(
            f"{{parameter: x{i}, type: DOUBLE, doubleValueSpec: {{minValue: 0, maxValue: 1}}}}" for i in many(8000)) + "]"
        form = json.dumps({"text": form, "isStudy": True})
        metrics = json.dumps({"measurement": {"metrics": [{"metric": f"m{i}", "value": 1} for i in many(40_000)]}})
        study = {"goal": "MINIMIZE", "params": [{} for _ in many(200_000)]}
        empty = json.dumps({"jobId": "empty", "trainingInput": {"hyperparameters": study}})
        parts = [{"task": f"worker-{i}", "stream": "stdout", "offset": "0", "data": "YQ=="} for i in many(3000)]
        parts = json.dumps({"logs": parts})
        return [
            ("nothing", None),
            ("filter of 60,000 spaces, by a viewer", lambda: self.send("GET", spaces, None, "viewer")),
            ("50,000 problems, by a trial", lambda: self.send("POST", sync, problems, token=self.tokens_of_trials["p"])),
            ("3,000 logs, by a trial", lambda: self.send("POST", sync, parts, token=self.tokens_of_trials["p"])),
            ("4 MB, by a stranger", lambda: self.send("POST", sync, logs, token="x")),
            ("draft with 60,000 unknown keys, by a viewer", lambda: self.send("POST", "/console/check", unknown, "viewer")),
            ("draft with 8,000 parameters, by a viewer", lambda: self.send("POST", "/console/check", form, "viewer")),
            ("measurement of 40,000 metrics",
             lambda: self.send("POST", f"{SMALL}/trials/1:addMeasurement", metrics, "admin")),
            ("job with 200,000 empty parameters",
             lambda: self.send("POST", "/v1/projects/p/jobs", empty, "developer")),
        ]

    def probe(self, work):
        """Runs `work`, and returns the times in milliseconds of small requests meanwhile, by their names."""
        times, ended = collections.defaultdict(list), threading.Event()

        def small(name, send):
            while True:
                begin = time.perf_counter()
                if send() != 200:
                    raise RuntimeError(f"{name} failed")
                times[name].append((time.perf_counter() - begin) * 1000)
                if ended.wait(PAUSE_SECONDS):
                    return

        sync = "/v1/projects/q/jobs/held/runs/trial-1.attempt-1:sync"
        sends = {
            "healthz": lambda: self.send("GET", "/healthz"),
            "list": lambda: self.send("GET", f"{PARENT}/studies", None, "other"),
            "report": lambda: self.send("POST", sync, '{"seenTags": ["a"]}', token=self.tokens_of_trials["q"]),
        }
        probes = [threading.Thread(target=small, args=probe) for probe in sends.items()]
        for probe in probes:
            probe.start()
        try:
            work()
        finally:
            ended.set()
            for probe in probes:
                probe.join()
        return times

    def measure(self, only=None):
        columns = " | ".join(f"{small}: median, ms | longest, ms" for small in ("healthz", "list", "report"))
        print(f"| {ATTACKERS} requests at once | their time, s | status | {columns} |")
        print("|---|---:|---|---:|---:|---:|---:|---:|---:|")
        longest = 0
        for name, request in (kind for kind in self.kinds() if only is None or only in kind[0]):
            statuses = collections.Counter()

            def attack(_):
                try:
                    statuses[request()] += 1
                except (http.client.HTTPException, OSError) as error:
                    statuses[type(error).__name__] += 1

            begin = time.perf_counter()
            times = self.probe((lambda: together(ATTACKERS, attack)) if request else (lambda: time.sleep(2)))
            seconds = time.perf_counter() - begin
            columns = " | ".join(f"{statistics.median(times[small]):.0f} | {max(times[small]):.0f}" for small in ("healthz", "list", "report"))
            shown = ", ".join(f"{count} x {status}" for status, count in statuses.items())
            print(f"| {name} | {seconds:.1f} | {shown} | {columns} |", flush=True)
            longest = max([longest] + [time for small in times.values() for time in small])
        return longest


def tokens(tunesmith, folder):
    """Creates a token for each kind of caller, by its name."""
    secrets = {}
    for name, role in [("admin", "ml.admin"), ("developer", "ml.developer@p"), ("viewer", "ml.viewer@p"), ("other", "ml.viewer")]:
        command = [tunesmith, "tokens", "create", "--principal", f"user:{name}@x", "--role", role, "--data-dir", folder]
        secrets[name] = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return secrets


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tunesmith")
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--curve", type=int, default=5000)
    parser.add_argument("--limit-ms", type=float)
    parser.add_argument("--hostile", action="store_true")
    parser.add_argument("--only", metavar="TEXT", help="only the hostile requests whose description contains this")
    parser.add_argument("--scale", type=float, default=1, help="factor of the sizes of hostile requests")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tunesmith-held-up-") as folder:
        command = [arguments.tunesmith, "serve", "--listen", "127.0.0.1:0", "--data-dir", folder]
        environment = dict(os.environ)
        if arguments.hostile:
            secrets = tokens(arguments.tunesmith, folder)
            command.append("--allow-unisolated-programs")
            environment["TUNESMITH_EXECUTOR"] = "agent"
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        try:
            port = int(server.stdout.readline().strip().rsplit(":", 1)[1].split("/")[0])
            longest = Attack(port, secrets, folder, arguments.scale).measure(arguments.only) if arguments.hostile else measure(port, arguments)
        finally:
            server.terminate()
            server.wait(60)
    return int(arguments.limit_ms is not None and longest > arguments.limit_ms)


if __name__ == "__main__":
    sys.exit(main())
