#!/usr/bin/env python3
"""Measures pairs of suggestion and completion per second: servers on PostgreSQL beside a server on SQLite, and pgbench.

    benches/postgres.py PROGRAM [PROGRAM ...] [--clients 16] [--servers 1 3] [--seconds 10] [--studies 8] [--runs 3]

A pair is two transactions of the store, each of which changes a row of a study and a row of a trial durably. pgbench runs
transactions of that shape, with the same number of clients and of studies, on the same cluster in the same run. The ratio
of a row is that to pgbench in the same run. Several programs, such as a build before and one after a change, take turns.
The clients send prepared bytes over open connections, so that they cost little beside the servers. Everything listens on
127.0.0.1 and ends with the script. Needs PostgreSQL 15 or later with pgbench.
"""

import argparse
import contextlib
import glob
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
import time

PGBENCH = """\\set study random(1, {studies})
BEGIN;
SELECT next FROM progress_of WHERE id = :study FOR UPDATE;
INSERT INTO trial_of (study, body) VALUES (:study, repeat('x', 400));
UPDATE progress_of SET next = next + 1 WHERE id = :study;
COMMIT;
"""


def programs():
    return os.path.dirname(sorted(glob.glob("/usr/lib/postgresql/*/bin/pgbench"))[-1])


@contextlib.contextmanager
def cluster():
    folder = tempfile.mkdtemp(prefix="pg")
    as_user = []
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(name, *arguments):
        subprocess.run([*as_user, f"{programs()}/{name}", *arguments], check=True, cwd=folder, stdout=subprocess.DEVNULL)

    data = f"{folder}/data"
    run("initdb", "-D", data, "-U", "test", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
    options = f"-c listen_addresses=127.0.0.1 -p {port} -k {folder} -c max_connections=200"
    run("pg_ctl", "-D", data, "-w", "-s", "-l", f"{folder}/log", "-o", options, "start")
    try:
        yield folder, port
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "-s", "stop")
        shutil.rmtree(folder)


@contextlib.contextmanager
def server(program, store):
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "serve", "--listen", "127.0.0.1:0", "--data-dir", folder, "--allow-unisolated-programs"]
        environment = {**os.environ, "TUNESMITH_LOG": "error"}
        process = subprocess.Popen([*command, "--store", store], stdout=subprocess.PIPE, text=True, env=environment)
        try:
            yield process.stdout.readline().split("://")[1].strip()
        finally:
            process.kill()
            process.wait()


class Client:
    """A connection to a server, which sends requests that were prepared."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.connection = socket.create_connection((host, int(port)))
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def post(self, request):
        """Sends `request`, and returns the body of the answer."""
        self.connection.sendall(request)
        while b"\r\n\r\n" not in self.rest:
            self.receive()
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        length = int(re.search(rb"content-length: *([0-9]+)", head, re.IGNORECASE)[1])
        while len(self.rest) < length:
            self.receive()
        body, self.rest = self.rest[:length], self.rest[length:]
        assert head.split(b" ", 2)[1] == b"200", body
        return body

    def receive(self):
        received = self.connection.recv(65536)
        assert received, "the server closed the connection"
        self.rest += received


def post(path, body):
    """The bytes of a request. `path` may contain what is replaced later."""
    text = json.dumps(body)
    return (
        f"POST /v1/projects/p/locations/l/studies{path} HTTP/1.1\r\nhost: localhost\r\n"
        f"content-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n{text}"
    ).encode()


def pairs_per_second(addresses, clients, seconds, studies, run):
    creator = Client(addresses[0])
    for study in range(studies):
        creator.post(post(f"?studyId=r{run}s{study}", {"studyConfig": {
            "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
            "parameters": [{"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
            "algorithm": "RANDOM_SEARCH",
        }}))
    counts = [0] * clients
    end = time.monotonic() + seconds
    result = {"finalMeasurement": {"metrics": [{"metric": "loss", "value": 1}]}}

    def work(number):
        client = Client(addresses[number % len(addresses)])
        study = f"/r{run}s{number % studies}/trials"
        suggest = post(f"{study}:suggest", {"suggestionCount": 1, "clientId": f"c{number}"})
        complete = post(f"{study}/TRIAL:complete", result)
        while time.monotonic() < end:
            # A request that takes more than 100 ms is answered before it is done.
            trial = re.search(rb'/trials/([0-9]+)"', client.post(suggest))
            if trial:
                client.post(complete.replace(b"TRIAL", trial[1], 1))
                counts[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.monotonic() - begin)


def pgbench(folder, port, clients, seconds, studies):
    address = ["-h", "127.0.0.1", "-p", str(port), "-U", "test"]
    tables = (
        "DROP TABLE IF EXISTS progress_of, trial_of; CREATE TABLE progress_of (id int PRIMARY KEY, next bigint);"
        "CREATE TABLE trial_of (id bigserial PRIMARY KEY, study int, body text);"
        f"INSERT INTO progress_of SELECT id, 1 FROM generate_series(1, {studies}) id"
    )
    subprocess.run([f"{programs()}/psql", *address, "-q", "-c", tables, "postgres"], check=True, stderr=subprocess.DEVNULL)
    script = f"{folder}/script.sql"
    with open(script, "w") as file:
        file.write(PGBENCH.format(studies=studies))
    command = [f"{programs()}/pgbench", *address, "-n", "-M", "prepared", "-c", str(clients), "-j", "2"]
    command += ["-T", str(seconds), "-f", script, "postgres"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(re.search(r"tps = ([0-9.]+)", done.stdout)[1]) / 2


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="+", metavar="PROGRAM")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--servers", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--studies", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    rows = {}
    with cluster() as (folder, port):
        for run in range(args.runs):
            sizes = (args.clients, args.seconds, args.studies)
            measured = {}
            for index, program in enumerate(args.programs):
                prefix = f"program {index + 1}: " if len(args.programs) > 1 else ""
                with server(program, "sqlite") as address:
                    measured[f"{prefix}1 server, SQLite"] = pairs_per_second([address], *sizes, run)
                for count in args.servers:
                    name = f"program{index}run{run}x{count}"
                    create = [f"{programs()}/createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "test", name]
                    subprocess.run(create, check=True)
                    with contextlib.ExitStack() as stack:
                        store = f"postgres://test@127.0.0.1:{port}/{name}"
                        addresses = [stack.enter_context(server(program, store)) for _ in range(count)]
                        row = f"{prefix}{count} server{'s'[: count > 1]}, PostgreSQL"
                        measured[row] = pairs_per_second(addresses, *sizes, run)
            measured["pgbench"] = pgbench(folder, port, *sizes)
            for row, value in measured.items():
                rows.setdefault(row, []).append((value, value / measured["pgbench"]))
    print(f"{args.clients} clients, {args.studies} studies, {args.seconds} s, {args.runs} runs: median (all)")
    print(f"{'':36} {'pairs/s':>8} {'ratio':>6}")
    for row, values in rows.items():
        rate, ratio = (statistics.median(value[index] for value in values) for index in (0, 1))
        print(f"{row:36} {rate:8.0f} {ratio:6.2f}  ({', '.join(f'{value:.0f}' for value, _ in values)})")


if __name__ == "__main__":
    main()
