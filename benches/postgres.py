#!/usr/bin/env python3
"""Measures pairs of suggestion and completion per second: servers on PostgreSQL beside a server on SQLite, and pgbench.

    benches/postgres.py PROGRAM [--clients 16] [--seconds 10] [--studies 8] [--runs 3]

A pair is two transactions of the store, each of which changes a row of a study and a row of a trial durably. pgbench runs
transactions of that shape, with the same number of clients and of studies, on the same cluster in the same run. Everything
listens on 127.0.0.1 and ends with the script. Needs PostgreSQL 15 or later with pgbench.
"""

import argparse
import contextlib
import glob
import http.client
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


def request(connection, path, body):
    connection.request("POST", f"/v1/projects/p/locations/l/studies{path}", json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 200, text
    return json.loads(text)


def pairs_per_second(addresses, clients, seconds, studies, run):
    connection = http.client.HTTPConnection(addresses[0])
    for study in range(studies):
        request(connection, f"?studyId=r{run}s{study}", {"studyConfig": {
            "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
            "parameters": [{"parameter": "x", "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
            "algorithm": "RANDOM_SEARCH",
        }})
    counts = [0] * clients
    end = time.monotonic() + seconds
    result = {"finalMeasurement": {"metrics": [{"metric": "loss", "value": 1}]}}

    def work(number):
        connection = http.client.HTTPConnection(addresses[number % len(addresses)])
        study = f"/r{run}s{number % studies}/trials"
        while time.monotonic() < end:
            operation = request(connection, f"{study}:suggest", {"suggestionCount": 1, "clientId": f"c{number}"})
            if not operation.get("done"):
                continue
            trial = operation["response"]["trials"][0]["name"].rsplit("/", 1)[1]
            request(connection, f"{study}/{trial}:complete", result)
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
    parser.add_argument("program")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--studies", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    rows = {}
    with cluster() as (folder, port):
        for run in range(args.runs):
            sizes = (args.clients, args.seconds, args.studies)
            with server(args.program, "sqlite") as address:
                rows.setdefault("1 server, SQLite", []).append(pairs_per_second([address], *sizes, run))
            for count in (1, 3):
                name = f"run{run}x{count}"
                create = [f"{programs()}/createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "test", name]
                subprocess.run(create, check=True)
                with contextlib.ExitStack() as stack:
                    store = f"postgres://test@127.0.0.1:{port}/{name}"
                    addresses = [stack.enter_context(server(args.program, store)) for _ in range(count)]
                    row = f"{count} server{'s'[: count > 1]}, PostgreSQL"
                    rows.setdefault(row, []).append(pairs_per_second(addresses, *sizes, run))
            rows.setdefault("pgbench", []).append(pgbench(folder, port, *sizes))
    print(f"{args.clients} clients, {args.studies} studies, {args.seconds} s, {args.runs} runs: pairs/s, median (all)")
    for row, values in rows.items():
        print(f"{row:24} {statistics.median(values):8.0f}  ({', '.join(f'{value:.0f}' for value in values)})")


if __name__ == "__main__":
    main()
