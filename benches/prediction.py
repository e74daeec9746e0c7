"""Online prediction beside MLServer or `mlflow models serve`, for a small model of scikit-learn.

    python benches/prediction.py PATH_OF_TUNESMITH [--beside mlserver] [--clients 1 16] [--rounds 3] [--seconds 5]

Needs scikit-learn and `mlserver-sklearn` (1.7.1 with `uvloop<0.22`) or `mlflow` in this interpreter, which both services use. Both run at the same time, and
take turns under load. Each client is a process with one connection, which sends one instance after another. Prints the medians over
the rounds of requests per second, of the median and of the 99th percentile of the latency; the memory of the processes of each
service after the load; the time to the first prediction; and the memory of versions without a worker.
"""

import argparse
import contextlib
import http.client
import json
import multiprocessing
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import joblib
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

INSTANCE = [[6.7, 3.1, 4.7, 1.5]]


def call(connection, method, path, body):
    text = None if body is None else json.dumps(body)
    connection.request(method, path, text, {"content-type": "application/json"})
    response = connection.getresponse()
    content = response.read()
    if response.status != 200:
        raise RuntimeError(f"{method} {path}: {response.status} {content[:300]}")
    return json.loads(content)


def client(service, end, results):
    connection = http.client.HTTPConnection(service.address)
    times = []
    while time.monotonic() < end:
        begin = time.perf_counter()
        reply = call(connection, "POST", service.path, service.body)
        times.append(time.perf_counter() - begin)
        service.check(reply)
    results.put(times)


def load(service, clients, seconds):
    results, end = multiprocessing.Queue(), time.monotonic() + seconds
    processes = [multiprocessing.Process(target=client, args=(service, end, results)) for _ in range(clients)]
    for process in processes:
        process.start()
    times = sorted(seconds for _ in processes for seconds in results.get())
    for process in processes:
        process.join()
    return len(times) / seconds, statistics.median(times) * 1000, times[int(len(times) * 0.99)] * 1000


def memory(pid):
    """Resident memory of a process and its descendants, in MiB."""
    listing = subprocess.run(["ps", "-eo", "pid=,ppid=,rss="], capture_output=True, text=True, check=True).stdout
    rows = [tuple(map(int, row.split())) for row in listing.splitlines()]
    wanted, total = {pid}, 0
    for _ in rows:
        wanted |= {child for child, parent, _ in rows if parent in wanted}
    for process, _, resident in rows:
        total += resident if process in wanted else 0
    return total / 1024


@contextlib.contextmanager
def started(command, **options):
    process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def environment():
    return dict(os.environ, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def answering(address, service):
    """Waits up to two minutes for the first correct prediction."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with contextlib.suppress(OSError, RuntimeError):
            reply = call(http.client.HTTPConnection(address), "POST", service.path, service.body)
            return service.check(reply)
        time.sleep(0.05)
    raise RuntimeError(f"{address} does not answer")


class Tunesmith:
    path, body = "/v1/projects/local/models/iris:predict", {"instances": INSTANCE}

    def __init__(self, stack, folder, program):
        self.folder, self.program = folder, program
        self.pid, self.address = self.serve(stack)
        self.connection = http.client.HTTPConnection(self.address)
        call(self.connection, "POST", "/v1/projects/local/models", {"name": "iris"})
        self.create("v1")
        answering(self.address, self)

    def serve(self, stack):
        command = [self.program, "serve", "--listen", "127.0.0.1:0", "--data-dir", str(self.folder / "data")]
        server = stack.enter_context(started(command, stdout=subprocess.PIPE, text=True, env=environment()))
        return server.pid, re.search(r"//(.*)", server.stdout.readline()).group(1)

    def create(self, name):
        version = {"name": name, "deploymentUri": str(self.folder / "model"), "framework": "SCIKIT_LEARN"}
        version["autoScaling"] = {"minNodes": 0, "maxNodes": os.cpu_count()}
        operation = call(self.connection, "POST", "/v1/projects/local/models/iris/versions", version)
        while not operation.get("done"):
            time.sleep(0.1)
            operation = call(self.connection, "GET", f"/v1/{operation['name']}", None)
        if "error" in operation:
            raise RuntimeError(operation["error"])

    def start_again(self):
        """Seconds from the start of a server to its first prediction, and from a first request to its response."""
        with contextlib.ExitStack() as stack:
            begin = time.perf_counter()
            _, address = self.serve(stack)
            request = time.perf_counter()
            answering(address, self)
            return time.perf_counter() - begin, time.perf_counter() - request

    def idle_memory(self):
        """Memory of a server that has just started, without workers, in MiB."""
        with contextlib.ExitStack() as stack:
            pid, address = self.serve(stack)
            call(http.client.HTTPConnection(address), "GET", "/v1/projects/local/models/iris/versions?pageSize=100", None)
            return memory(pid)

    @staticmethod
    def check(reply):
        if reply["predictions"] != [1]:
            raise ValueError(f"a wrong prediction: {reply}")


class Mlflow:
    path, body = "/invocations", {"instances": INSTANCE}
    check = Tunesmith.check

    def __init__(self, stack, folder, _):
        import mlflow.sklearn

        self.folder = folder
        model = joblib.load(folder / "model" / "model.joblib")
        mlflow.sklearn.save_model(model, folder / "mlflow", serialization_format="cloudpickle")
        self.pid, self.address = self.serve(stack)
        answering(self.address, self)

    def serve(self, stack):
        port = free_port()
        command = [str(Path(sys.executable).parent / "mlflow"), "models", "serve", "--model-uri", str(self.folder / "mlflow")]
        command += ["--env-manager", "local", "--port", str(port), "--workers", str(os.cpu_count())]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment()}
        return stack.enter_context(started(command, **quiet)).pid, f"127.0.0.1:{port}"

    start_again = Tunesmith.start_again


class Mlserver:
    path = "/v2/models/iris/infer"
    body = {"inputs": [{"name": "rows", "shape": [1, 4], "datatype": "FP64", "data": INSTANCE[0]}]}

    def __init__(self, stack, folder, _):
        self.folder = folder / "mlserver"
        self.folder.mkdir()
        model = {"name": "iris", "implementation": "mlserver_sklearn.SKLearnModel"}
        model["parameters"] = {"uri": str(folder / "model" / "model.joblib")}
        (self.folder / "model-settings.json").write_text(json.dumps(model))
        self.pid, self.address = self.serve(stack)
        answering(self.address, self)

    def serve(self, stack):
        ports = {name: free_port() for name in ("http_port", "grpc_port", "metrics_port")}
        settings = {"host": "127.0.0.1", "parallel_workers": os.cpu_count(), "debug": False, **ports}
        (self.folder / "settings.json").write_text(json.dumps(settings))
        command = [str(Path(sys.executable).parent / "mlserver"), "start", str(self.folder)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment()}
        return stack.enter_context(started(command, **quiet)).pid, f"127.0.0.1:{ports['http_port']}"

    start_again = Tunesmith.start_again

    @staticmethod
    def check(reply):
        if reply["outputs"][0]["data"] != [1]:
            raise ValueError(f"a wrong prediction: {reply}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--beside", choices=["mlserver", "mlflow"], default="mlserver")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--idle-versions", type=int, default=50)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        (folder / "model").mkdir()
        model = LogisticRegression(max_iter=1000).fit(*load_iris(return_X_y=True))
        joblib.dump(model, folder / "model" / "model.joblib")
        beside = {"mlserver": Mlserver, "mlflow": Mlflow}[arguments.beside]
        with contextlib.ExitStack() as running:
            services = [kind(running, folder, arguments.program) for kind in (Tunesmith, beside)]
            print("| clients | service | requests/s | median | 99th percentile |\n|---:|---|---:|---:|---:|")
            for clients in arguments.clients:
                rounds = [[load(service, clients, arguments.seconds) for service in services] for _ in range(arguments.rounds)]
                for service, results in zip(services, zip(*rounds)):
                    rate, median, tail = (statistics.median(column) for column in zip(*results))
                    print(f"| {clients} | {type(service).__name__} | {rate:.0f} | {median:.2f} ms | {tail:.2f} ms |")
                ratios = ", ".join(f"{first[0] / second[0]:.2f}" for first, second in rounds)
                print(f"Ratios of requests per second by round: {ratios}", file=sys.stderr)
            for service in services:
                print(f"\nMemory of {type(service).__name__} after the load: {memory(service.pid):.0f} MiB")
        for round in range(arguments.rounds):
            for service in services:
                whole, request = service.start_again()
                name = type(service).__name__
                print(f"First prediction of {name}: {whole:.2f} s after its start, {request:.2f} s after the first request")
        tunesmith, count = services[0], arguments.idle_versions
        before = tunesmith.idle_memory()
        with contextlib.ExitStack() as stack:
            tunesmith.pid, tunesmith.address = tunesmith.serve(stack)
            tunesmith.connection = http.client.HTTPConnection(tunesmith.address)
            for number in range(count):
                tunesmith.create(f"idle{number}")
        after = tunesmith.idle_memory()
        print(f"Server without workers: {before:.1f} MiB with one version, {after:.1f} MiB with {count + 1}")


if __name__ == "__main__":
    main()
