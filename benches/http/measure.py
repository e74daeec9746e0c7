"""What every reference server is measured with: clients that ask for a trial and complete it, over and over.

A server is a `Server`: it makes an empty study, puts completed trials into it, and tells how a client process connects.
`main` reads the command line, runs one measurement for each number of clients and of completed trials, and writes one
line of JSON for each to standard output:

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

# The space that every study has: (name, kind, ...). Each program says it in the words of its library.
LEARNING_RATE = (1e-5, 0.1)  # Log scale.
MOMENTUM = (0.5, 0.99)
LAYERS = (1, 8)  # Integers.
OPTIMIZERS = ("adam", "rmsprop", "sgd")
# Values of the completed trials that a study begins with, and what they reported.
FORMER_POINT = {"learning_rate": 0.001, "momentum": 0.9, "layers": 3, "optimizer": "adam"}
FORMER_VALUE = 0.5
# What starting a client may take: importing its library and one pair.
START_SECONDS = 120.0


class Server:
    """What is measured. One object serves one measurement; `close` ends it."""

    def __init__(self, folder):
        """Starts the server, if there is one, with its data in `folder`, and makes an empty study."""
        raise NotImplementedError

    def address(self):
        """What `connect` needs, as plain values: it is sent to another process."""
        raise NotImplementedError

    def add_completed(self):
        """Puts a completed trial with `FORMER_POINT` and `FORMER_VALUE` into the study."""
        raise NotImplementedError

    def close(self):
        """Ends the server."""

    @staticmethod
    def connect(address, client):
        """In a client process: two functions, `suggest()` to get a trial and `complete(trial, value)`."""
        raise NotImplementedError


def run_client(server, address, client, pairs, seconds, barrier, results):
    """A client process: connects, does one pair that does not count, waits for the others, then does `pairs`."""
    # The libraries report every trial.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        suggest, complete = server.connect(address, client)
        complete(suggest(), FORMER_VALUE)
        barrier.wait(START_SECONDS)
        began = time.monotonic()
        latencies = []
        while len(latencies) < pairs and time.monotonic() - began < seconds:
            before = time.perf_counter()
            trial = suggest()
            latencies.append(time.perf_counter() - before)
            complete(trial, 1.0 / (1 + len(latencies)))
        results.put((began, time.monotonic(), latencies, None))
    except BaseException:
        barrier.abort()
        results.put((0.0, 0.0, [], f"client {client}: {traceback.format_exc()}"))


def percentile(values, share):
    """The smallest of `values` that at least `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


def measure(what, version, server_type, folder, clients, pairs, completed, options):
    """One measurement: its line as a dictionary."""
    server = server_type(folder)
    try:
        stop = time.monotonic() + options.setup_seconds
        former = 0
        # The pair that each client begins with is one of the completed trials.
        while former + clients < completed and time.monotonic() < stop:
            server.add_completed()
            former += 1
        if former + clients < completed:
            print(f"{what}: {former} of {completed} completed trials after {options.setup_seconds} s, which is the limit",
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
            answers = [results.get(timeout=START_SECONDS + 2 * options.seconds) for _ in processes]
        except queue.Empty:
            sys.exit(f"{what}: the clients did not end in time")
        finally:
            for process in processes:
                process.join(5.0)
                process.kill()
    finally:
        server.close()
    failures = [failure for *_, failure in answers if failure]
    if failures:
        sys.exit(f"{what}: {len(failures)} of {clients} clients failed\n" + "\n".join(failures))
    latencies = [latency for _, _, several, _ in answers for latency in several]
    seconds = max(end for _, end, _, _ in answers) - min(began for began, _, _, _ in answers)
    return {
        "what": what, "version": version, "clients": clients, "pairs": len(latencies), "seconds": round(seconds, 3),
        "pairs_per_second": round(len(latencies) / seconds, 2),
        "suggest_p50_ms": round(1000 * percentile(latencies, 0.5), 3),
        "suggest_p99_ms": round(1000 * percentile(latencies, 0.99), 3),
        "completed_before": former + clients,
    }


def numbers(text):
    """`1,8` as a list."""
    parsed = [int(part) for part in text.split(",")]
    if min(parsed) < 0:
        raise ValueError
    return parsed


def main(program, servers, version):
    """Reads the command line and measures; `servers` maps what may be measured to its `Server`."""
    parser = argparse.ArgumentParser(prog=f"run.sh {program}")
    parser.add_argument("what", choices=sorted(servers), help="what to measure")
    parser.add_argument("--clients", type=numbers, default=[1, 8], help="processes at once, one or several: 1,8")
    parser.add_argument("--pairs", type=int, default=1000, help="trials that all clients together ask for and complete")
    parser.add_argument("--completed", type=numbers, default=[0],
                        help="completed trials the study begins with, one or several: 0,1000")
    parser.add_argument("--seconds", type=float, default=60.0, help="a measurement ends after that, with fewer pairs")
    parser.add_argument("--setup-seconds", type=float, default=300.0, help="the same for the completed trials")
    parser.add_argument("--folder", help="where the data is kept during a measurement (default: a temporary folder)")
    options = parser.parse_args()
    if min(options.clients) < 1 or options.pairs < max(options.clients):
        parser.error("at least one client, and as many pairs as clients")
    for completed in options.completed:
        for clients in options.clients:
            with tempfile.TemporaryDirectory(prefix="tunesmith-http-", dir=options.folder) as folder:
                line = measure(f"{program}-{options.what}", version, servers[options.what], folder, clients,
                               options.pairs, completed, options)
            print(json.dumps(line), flush=True)
