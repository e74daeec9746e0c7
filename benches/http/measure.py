"""Load measurements of reference servers: clients repeatedly request a trial and complete it.

A `Server` creates an empty study, adds completed trials, and provides the address for client processes. `main` parses
the command line, runs one measurement for each number of clients and of completed trials, and writes one line of JSON
for each to standard output:

    {"what": "optuna-sqlite", "version": "...", "clients": 8, "pairs": 1000, "seconds": 9.1, "pairs_per_second": 110.2,
     "suggest_p50_ms": 31.0, "suggest_p99_ms": 180.4, "completed_before": 1000}

Only the standard library is imported.
"""

import argparse
import json
import math
import multiprocessing
import os
import queue
import sys
import tempfile
import time
import traceback

# The space of every study: (name, kind, ...). Each program converts it to the types of its library.
LEARNING_RATE = (1e-5, 0.1)  # Log scale.
MOMENTUM = (0.5, 0.99)
LAYERS = (1, 8)  # Integers.
OPTIMIZERS = ("adam", "rmsprop", "sgd")
# Parameters and metric of the completed trials of a new study.
FORMER_POINT = {"learning_rate": 0.001, "momentum": 0.9, "layers": 3, "optimizer": "adam"}
FORMER_VALUE = 0.5
# Time limit for starting a client, which imports its library and completes one pair.
START_SECONDS = 120.0


class Server:
    """A measured system. One object serves one measurement; `close` ends it."""

    def __init__(self, folder):
        """Starts the server, if there is one, with its data in `folder`, and creates an empty study."""
        raise NotImplementedError

    def address(self):
        """Returns the argument of `connect` as plain values, since it is sent to another process."""
        raise NotImplementedError

    def add_completed(self):
        """Adds a completed trial with `FORMER_POINT` and `FORMER_VALUE` to the study."""
        raise NotImplementedError

    def close(self):
        """Stops the server."""

    @staticmethod
    def connect(address, client):
        """Connects a client process and returns two functions, `suggest()` and `complete(trial, value)`."""
        raise NotImplementedError


def run_client(server, address, client, pairs, seconds, barrier, results):
    """Runs a client process: connects, completes one pair without timing, waits for the others, then runs `pairs`."""
    # The libraries print every trial.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        suggest, complete = server.connect(address, client)
        complete(suggest(), FORMER_VALUE)
        barrier.wait(START_SECONDS)
        started = time.monotonic()
        latencies = []
        while len(latencies) < pairs and time.monotonic() - started < seconds:
            before = time.perf_counter()
            trial = suggest()
            latencies.append(time.perf_counter() - before)
            complete(trial, 1.0 / (1 + len(latencies)))
        results.put((started, time.monotonic(), latencies, None))
    except BaseException:
        barrier.abort()
        results.put((0.0, 0.0, [], f"client {client}: {traceback.format_exc()}"))


def percentile(values, share):
    """Returns the smallest of `values` that at least `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


def measure(what, version, server_type, folder, clients, pairs, completed, options):
    """Runs one measurement and returns its line as a dictionary."""
    server = server_type(folder)
    try:
        stop = time.monotonic() + options.setup_seconds
        former = 0
        # The first pair of each client is one of the completed trials.
        while former + clients < completed and time.monotonic() < stop:
            server.add_completed()
            former += 1
        if former + clients < completed:
            print(f"{what}: {former} of {completed} completed trials after the time limit of {options.setup_seconds} s",
                  file=sys.stderr)
        context = multiprocessing.get_context("spawn")
        barrier = context.Barrier(clients)
        results = context.Queue()
        shares = [pairs // clients + (client < pairs % clients) for client in range(clients)]
        processes = [context.Process(target=run_client, daemon=True, args=(
            server_type, server.address(), client, shares[client], options.seconds, barrier, results))
            for client in range(clients)]
        for process in processes:
            process.start()
        try:
            outcomes = [results.get(timeout=START_SECONDS + 2 * options.seconds) for _ in processes]
        except queue.Empty:
            sys.exit(f"{what}: the clients exceeded the time limit")
        finally:
            for process in processes:
                process.join(5.0)
                process.kill()
    finally:
        server.close()
    failures = [failure for *_, failure in outcomes if failure]
    if failures:
        sys.exit(f"{what}: {len(failures)} of {clients} clients failed\n" + "\n".join(failures))
    latencies = [latency for _, _, several, _ in outcomes for latency in several]
    seconds = max(end for _, end, _, _ in outcomes) - min(started for started, _, _, _ in outcomes)
    return {
        "what": what, "version": version, "clients": clients, "pairs": len(latencies), "seconds": round(seconds, 3),
        "pairs_per_second": round(len(latencies) / seconds, 2),
        "suggest_p50_ms": round(1000 * percentile(latencies, 0.5), 3),
        "suggest_p99_ms": round(1000 * percentile(latencies, 0.99), 3),
        "completed_before": former + clients,
    }


def numbers(text):
    """Parses a list such as `1,8`."""
    parsed = [int(part) for part in text.split(",")]
    if min(parsed) < 0:
        raise ValueError
    return parsed


def main(program, servers, version):
    """Parses the command line and measures; `servers` maps the names of systems to their `Server`."""
    parser = argparse.ArgumentParser(prog=f"run.sh {program}")
    parser.add_argument("what", choices=sorted(servers), help="the measured system")
    parser.add_argument("--clients", type=numbers, default=[1, 8], help="parallel processes, one or several: 1,8")
    parser.add_argument("--pairs", type=int, default=1000, help="trials that all clients together request and complete")
    parser.add_argument("--completed", type=numbers, default=[0],
                        help="completed trials at the start, one or several: 0,1000")
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of a measurement")
    parser.add_argument("--setup-seconds", type=float, default=300.0, help="time limit for adding the completed trials")
    parser.add_argument("--folder", help="location of the data of a measurement (default: a temporary folder)")
    options = parser.parse_args()
    if min(options.clients) < 1 or options.pairs < max(options.clients):
        parser.error("there must be at least one client, and as many pairs as clients")
    for completed in options.completed:
        for clients in options.clients:
            with tempfile.TemporaryDirectory(prefix="tunesmith-http-", dir=options.folder) as folder:
                line = measure(f"{program}-{options.what}", version, servers[options.what], folder, clients,
                               options.pairs, completed, options)
            print(json.dumps(line), flush=True)
