#!/usr/bin/env python3
"""Measures a server with one very long study: suggestions, pages, memory, and the wait of another study meanwhile.

    benches/long_study.py TUNESMITH [--trials 100000 1000000] [--algorithms RANDOM_SEARCH ALGORITHM_UNSPECIFIED] [--later 50] [--memory 256]

For each algorithm and number of trials it fills a SQLite store with completed trials of 6 parameters (copies of one record with
values, keys and checksums of their own), and starts a server for each measurement, so that each begins without caches:

- listOptimalTrials, and the summary of the study in the console with its list of trials, each twice: of a study that no server
  has seen, and again after the suggestions below and a restart;
- suggestions: the first and the next ones, each completed; meanwhile another study suggests and completes in a loop;
- Explore: the page and its first view, of the course of the results, twice.

Prints the times, the highest resident memory (VmHWM) and the resident memory at the end of each. Needs only the standard
library, and 1 GB of disk space for 1,000,000 trials.
"""

import argparse
import contextlib
import json
import pathlib
import random
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from soak import PARENT, Api  # noqa: E402

PARAMETERS = [f"p{index}" for index in range(6)]
DIGITS = 15


def crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = crc_table()


def crc(content, state=0xFFFFFFFF):
    """The state of CRC-32C after `content`."""
    for byte in content:
        state = TABLE[(state ^ byte) & 0xFF] ^ state >> 8
    return state


class Checksums:
    """Checksums of texts that differ from a template in some bytes: a checksum is linear in the bytes."""

    def __init__(self, template, places):
        self.template, self.base = template, crc(template) ^ 0xFFFFFFFF
        self.effects = {}
        for place in places:
            rest = bytes(len(template) - place - 1)
            # Of each bit of the byte; that of a difference is their sum.
            bits = [crc(rest, crc(bytes([1 << bit]), 0)) for bit in range(8)]
            effects = [0] * 256
            for value in range(256):
                for bit in range(8):
                    effects[value] ^= bits[bit] if value >> bit & 1 else 0
            self.effects[place] = effects

    def of(self, content):
        value = self.base
        for place, effects in self.effects.items():
            value ^= effects[content[place] ^ self.template[place]]
        return value


def rows(study, body, count):
    """Rows of trials 1 to `count`, as the completed trial of the record `body`."""
    record = json.loads(body)
    prefix = study.encode() + b"\0"
    source = random.Random(1)
    known = {}
    for number in range(1, count + 1):
        revision = 2 * number + 10
        values = [f"0.{source.randrange(10 ** (DIGITS - 1), 10**DIGITS) // 10 * 10 + 1}" for _ in range(len(PARAMETERS) + 1)]
        key = prefix + number.to_bytes(8, "big")
        width = (len(str(number)), len(str(revision)))
        if width not in known:
            mark = lambda index: f"@{index}@".ljust(DIGITS + 2, "#")
            record["parameters"] = {name: {"double": mark(index)} for index, name in enumerate(PARAMETERS)}
            record["final_measurement"]["metrics"][0]["value"] = mark(len(PARAMETERS))
            record["id"], record["revision"] = "@id@".ljust(width[0] + 4, "#"), "@revision@"
            text = json.dumps(record, separators=(",", ":"))
            for index in range(len(values)):
                text = text.replace(f'"{mark(index)}"', f"%({index})s")
            text = text.replace(json.dumps(record["id"]), "%(id)s").replace(json.dumps(record["revision"]), "%(revision)s")
            known[width] = text, None
        text, checksums = known[width]
        fields = {str(index): value for index, value in enumerate(values)} | {"id": number, "revision": revision}
        content = text % fields
        whole = key + content.encode()
        if checksums is None:
            other = {name: "".join(chr(ord(letter) ^ 1) for letter in str(value)) for name, value in fields.items()}
            differing = key[:-8] + bytes(byte ^ 1 for byte in key[-8:]) + (text % other).encode()
            places = [place for place in range(len(whole)) if whole[place] != differing[place]]
            checksums = Checksums(whole, places)
            known[width] = text, checksums
        yield study, number, revision, content, checksums.of(whole)


def fill(binary, folder, algorithm, count):
    """Makes a study with `count` completed trials, and a short one."""
    with served(binary, folder, 256) as (_, port):
        api = Api(port)
        create(api, "other", "RANDOM_SEARCH")
        create(api, "long", algorithm)
        suggest(api, "long")
    database = opened(folder)
    study, body = database.execute("SELECT study, body FROM trials WHERE study LIKE '%long%'").fetchone()
    database.execute("BEGIN")
    database.execute("DELETE FROM trials WHERE study = ?", (study,))
    insert = "INSERT INTO trials (study, id, revision, body, crc, open) VALUES (?, ?, ?, ?, ?, 0)"
    database.executemany(insert, rows(study, body, count))
    following, revision = count + 1, 2 * count + 20
    progress = following.to_bytes(8, "big") + revision.to_bytes(8, "big")
    update = "UPDATE progress SET next_trial_id = ?, revision = ?, crc = ? WHERE study = ?"
    database.execute(update, (following, revision, crc(study.encode() + progress) ^ 0xFFFFFFFF, study))
    database.execute("COMMIT")
    database.close()


def opened(folder):
    """The database of the store."""
    [path] = [path for path in folder.rglob("*") if path.is_file() and path.open("rb").read(15) == b"SQLite format 3"]
    return sqlite3.connect(path, isolation_level=None)


def forget_summary(folder):
    """Removes the stored summaries, which older versions do not have."""
    database = opened(folder)
    with contextlib.suppress(sqlite3.OperationalError):
        database.execute("DELETE FROM summaries")
    database.close()


class served:
    """A server on `folder`: its process and its port."""

    def __init__(self, binary, folder, memory):
        self.command = [binary, "serve", "--listen", "127.0.0.1:0", "--data-dir", str(folder), "--memory", str(memory)]

    def __enter__(self):
        self.server = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        port = int(self.server.stdout.readline().strip().rsplit(":", 1)[1].split("/")[0])
        return self.server, port

    def __exit__(self, *_):
        self.server.send_signal(signal.SIGTERM)
        self.server.wait(30)


def create(api, name, algorithm):
    parameters = [{"parameter": p, "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}} for p in PARAMETERS]
    config = {"metrics": [{"metric": "loss", "goal": "MINIMIZE"}], "parameters": parameters, "algorithm": algorithm}
    api.call("POST", f"{PARENT}/studies?studyId={name}", {"studyConfig": config})


def suggest(api, name):
    """Suggests one trial and completes it; returns the seconds until the suggestion was there."""
    start = time.perf_counter()
    operation = api.call("POST", f"{PARENT}/studies/{name}/trials:suggest", {"clientId": "one", "suggestionCount": 1})
    while not operation.get("done"):
        time.sleep(0.002)
        operation = api.call("GET", f"/v1/{operation['name']}")
    seconds = time.perf_counter() - start
    trial = operation["response"]["trials"][0]
    measurement = {"finalMeasurement": {"stepCount": "1", "metrics": [{"metric": "loss", "value": 0.5}]}}
    api.call("POST", f"/v1/{trial['name']}:complete", measurement)
    return seconds


class Other:
    """The waits of another study until it is stopped."""

    def __init__(self, port):
        self.api, self.waits, self.is_over = Api(port), [], False
        suggest(self.api, "other")
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.is_over:
            self.waits.append(suggest(self.api, "other"))
            time.sleep(0.005)

    def stop(self):
        self.is_over = True
        self.thread.join()
        return max(self.waits)


def memory(server):
    lines = pathlib.Path(f"/proc/{server.pid}/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    return "resident {:.0f} MiB at most, {:.0f} at the end".format(*(int(values[name].split()[0]) / 1024 for name in ("VmHWM", "VmRSS")))


def get(port, address):
    start = time.perf_counter()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{address}", timeout=600) as response:
        response.read()
    return time.perf_counter() - start


def ms(seconds):
    return f"{seconds * 1000:,.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def pages(binary, folder, limit, state):
    console = "/console/projects/soak/locations/here/studies/long"
    with served(binary, folder, limit) as (server, port):
        other = Other(port)
        times = [ms(get(port, console)) for _ in range(2)]
        trials = get(port, f"{console}/trials")
        yield f"console {state}: first page {times[0]}, again {times[1]}, list of trials {ms(trials)}"
        yield f"  another study meanwhile: at most {ms(other.stop())} of {len(other.waits)}; {memory(server)}"


def optimal(binary, folder, limit, state):
    with served(binary, folder, limit) as (server, port):
        times = []
        for _ in range(2):
            start = time.perf_counter()
            Api(port).call("POST", f"{PARENT}/studies/long/trials:listOptimalTrials", {})
            times.append(ms(time.perf_counter() - start))
        yield f"listOptimalTrials {state}: first {times[0]}, again {times[1]}; {memory(server)}"


def measure(binary, folder, limit, more):
    yield from optimal(binary, folder, limit, "of a study that no server has seen")
    forget_summary(folder)
    yield from pages(binary, folder, limit, "of a study that no server has seen")
    with served(binary, folder, limit) as (server, port):
        api, other = Api(port), Other(port)
        api.connection.timeout = 600
        first = suggest(api, "long")
        later = sorted(suggest(api, "long") for _ in range(more))
        waited = other.stop()
        yield f"first suggestion {ms(first)}, later median {ms(statistics.median(later))}, 99 % {ms(later[-1])}"
        yield f"  another study meanwhile: at most {ms(waited)} of {len(other.waits)}; {memory(server)}"
    yield from pages(binary, folder, limit, "after a restart")
    yield from optimal(binary, folder, limit, "after a restart")
    with served(binary, folder, limit) as (server, port):
        page = get(port, "/console/projects/soak/locations/here/studies/long/explore")
        views = [ms(get(port, f"{PARENT}/studies/long/views/history")) for _ in range(2)]
        yield f"Explore: page {ms(page)}, first view {views[0]}, again {views[1]}; {memory(server)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tunesmith")
    parser.add_argument("--trials", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--algorithms", nargs="+", default=["RANDOM_SEARCH", "ALGORITHM_UNSPECIFIED"])
    parser.add_argument("--later", type=int, default=50, help="suggestions after the first")
    parser.add_argument("--memory", type=int, default=256, help="MiB")
    arguments = parser.parse_args()
    for algorithm in arguments.algorithms:
        for count in arguments.trials:
            folder = pathlib.Path(tempfile.mkdtemp(prefix="tunesmith-long-study-"))
            try:
                start = time.monotonic()
                fill(arguments.tunesmith, folder, algorithm, count)
                print(f"{algorithm}, {count:,} trials (filled in {time.monotonic() - start:.0f} s)", flush=True)
                for line in measure(arguments.tunesmith, folder, arguments.memory, arguments.later):
                    print(f"  {line}", flush=True)
            finally:
                shutil.rmtree(folder)


if __name__ == "__main__":
    main()
