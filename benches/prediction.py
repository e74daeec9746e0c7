"""Online prediction beside `mlflow models serve`, for a small model of scikit-learn.

    python benches/prediction.py PATH_OF_TUNESMITH [--clients 1 16] [--seconds 10]

Needs `mlflow` and `scikit-learn` in this interpreter, which both services use. Each client is a process with one connection,
which sends one instance after another. Prints requests per second, the median and the 99th percentile of the latency, the memory
of the processes of each service after the load, and the time of a first prediction without a worker.
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
import mlflow.sklearn
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


def client(address, path, body, end, results):
    connection = http.client.HTTPConnection(address)
    times = []
    while time.monotonic() < end:
        begin = time.perf_counter()
        reply = call(connection, "POST", path, body)
        times.append(time.perf_counter() - begin)
        if reply["predictions"] != [1]:
            raise RuntimeError(f"a wrong prediction: {reply}")
    results.put(times)


def load(address, path, body, clients, seconds):
    results, end = multiprocessing.Queue(), time.monotonic() + seconds
    processes = [multiprocessing.Process(target=client, args=(address, path, body, end, results)) for _ in range(clients)]
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


def tunesmith(program, folder, arguments):
    environment = dict(os.environ, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    command = [program, "serve", "--listen", "127.0.0.1:0", "--data-dir", str(folder / "data")]
    with started(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        address = re.search(r"//(.*)", server.stdout.readline()).group(1)
        connection = http.client.HTTPConnection(address)
        call(connection, "POST", "/v1/projects/local/models", {"name": "iris"})
        version = {"name": "v1", "deploymentUri": str(folder / "model"), "framework": "SCIKIT_LEARN"}
        version["autoScaling"] = {"minNodes": 0, "maxNodes": os.cpu_count()}
        operation = call(connection, "POST", "/v1/projects/local/models/iris/versions", version)
        while not operation.get("done"):
            time.sleep(0.1)
            operation = call(connection, "GET", f"/v1/{operation['name']}", None)
        if "error" in operation:
            raise RuntimeError(operation["error"])
        path, body = "/v1/projects/local/models/iris:predict", {"instances": INSTANCE}
        rows = [load(address, path, body, clients, arguments.seconds) for clients in arguments.clients]
        return rows, memory(server.pid)


def cold_start(program, folder):
    """Seconds to the first prediction of a server that has just started."""
    environment = dict(os.environ, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    command = [program, "serve", "--listen", "127.0.0.1:0", "--data-dir", str(folder / "data")]
    with started(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        address = re.search(r"//(.*)", server.stdout.readline()).group(1)
        begin = time.perf_counter()
        call(http.client.HTTPConnection(address), "POST", "/v1/projects/local/models/iris:predict", {"instances": INSTANCE})
        return time.perf_counter() - begin


def mlflow_serve(folder, arguments):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).parent / "mlflow"), "models", "serve", "--model-uri", str(folder / "mlflow")]
    command += ["--env-manager", "local", "--port", str(port), "--workers", str(os.cpu_count())]
    environment = dict(os.environ, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    with started(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as server:
        path, body = "/invocations", {"instances": INSTANCE}
        for _ in range(600):
            try:
                call(http.client.HTTPConnection("127.0.0.1", port), "POST", path, body)
                break
            except OSError:
                time.sleep(0.1)
        rows = [load(f"127.0.0.1:{port}", path, body, clients, arguments.seconds) for clients in arguments.clients]
        return rows, memory(server.pid)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = LogisticRegression(max_iter=1000).fit(*load_iris(return_X_y=True))
        (folder / "model").mkdir()
        joblib.dump(model, folder / "model" / "model.joblib")
        mlflow.sklearn.save_model(model, folder / "mlflow", serialization_format="cloudpickle")
        services = {"tunesmith": tunesmith(arguments.program, folder, arguments), "mlflow": mlflow_serve(folder, arguments)}
        print("| clients | service | requests/s | median | 99th percentile | memory |\n|---:|---|---:|---:|---:|---:|")
        for index, clients in enumerate(arguments.clients):
            for service, (rows, resident) in services.items():
                rate, median, tail = rows[index]
                print(f"| {clients} | {service} | {rate:.0f} | {median:.2f} ms | {tail:.2f} ms | {resident:.0f} MiB |")
        print(f"\nFirst prediction of a restarted server: {cold_start(arguments.program, folder):.2f} s")


if __name__ == "__main__":
    main()
