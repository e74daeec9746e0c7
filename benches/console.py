"""The page Explore of the console beside optuna-dashboard on the same trials, in a real browser.

Usage: python3 benches/console.py PATH_OF_TUNESMITH [--trials 1000 100000 1000000] [--optuna-up-to 100000]
       [--output benches/results/console.md]

Needs chromium, and from PyPI: playwright, google-crc32c; it installs optuna and optuna-dashboard in a folder of its own.

For each number of trials it makes one study with 6 parameters and 5 measurements of each trial in both stores, starts both
servers on loopback, and measures one after the other:

- first useful paint: from the request of the page until the first plot and the best trials are seen, in a new browser
  context without a cache; Tunesmith sketches its plots until plotly.js is loaded;
- plots: from the request until all plots in the window are drawn by plotly.js, and can be brushed;
- transferred bytes: what the browser received, with plotly.js counted apart;
- filter to redrawn: from the change of the filter until all visible plots and the table show it; in brackets, until the plots
  within 200 px of the window show it as well, which the page draws after them;
- idle poll: processor time of the server for a request that finds nothing new;
- memory: resident memory of the server after that.
"""

import argparse
import contextlib
import json
import math
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import google_crc32c
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from playwright.sync_api import sync_playwright

OPTUNA = ["optuna==4.5.0", "optuna-dashboard==0.21.0"]
PARAMETERS = [f"p{index}" for index in range(6)]
MEASUREMENTS = 5
POLLS, OPTUNA_POLLS = 50, 3
# Seconds after which its page is given up.
OPTUNA_LIMIT = 120
TRAINER = "import sys\nfor step in range(5): print(f'step={step} loss={1 / (step + 1)}', flush=True)\n"
PLOT_LIBRARY = ("plotly.min.js",)
CLOCK = os.sysconf("SC_CLK_TCK")


def values(trial):
    """Parameters and curve of a trial: the same for both stores."""
    source = random.Random(trial)
    parameters = {name: source.random() for name in PARAMETERS}
    loss = sum((value - 0.3) ** 2 for value in parameters.values()) + source.random() * 0.1
    return parameters, [loss * (1 + 1 / (step + 1)) for step in range(MEASUREMENTS - 1)] + [loss]


def fill_tunesmith(binary, folder, count):
    """Runs a job with one trial, and multiplies its records: each copy has values, key and checksum of its own."""
    config = {
        "trainingInput": {
            "hyperparameters": {
                "goal": "MINIMIZE",
                "hyperparameterMetricTag": "loss",
                "maxTrials": 1,
                "params": [{"parameterName": name, "type": "DOUBLE", "minValue": 0, "maxValue": 1} for name in PARAMETERS],
            },
            "tunesmith": {"metricFromStdout": True},
        }
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    (folder / "train.py").write_text(TRAINER)
    run = [binary, "run", "--config", "config.yaml", "--job-id", "bench", "--data-dir", "data", "--", sys.executable, "train.py"]
    subprocess.run(run, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    [path] = [path for path in (folder / "data").rglob("*") if is_database(path)]
    database = sqlite3.connect(path, isolation_level=None)
    study, body = database.execute("SELECT study, body FROM trials").fetchone()
    template = json.loads(body)
    chunk = database.execute("SELECT body FROM measurements").fetchone()[0]
    prefix = study.encode() + b"\0"

    def checksum(key, content):
        return google_crc32c.value(key + content)

    def trial_row(number):
        parameters, curve = values(number)
        record = dict(template, id=number, revision=number + 10)
        record["parameters"] = {name: {"Double": value} for name, value in parameters.items()}
        record["final_measurement"] = json.loads(json.dumps(template["final_measurement"]))
        record["final_measurement"]["metrics"][0]["value"] = curve[-1]
        text = json.dumps(record, separators=(",", ":"))
        crc = checksum(prefix + number.to_bytes(8, "big"), text.encode())
        return study, number, number + 10, text, crc

    def measurement_row(number):
        key = prefix + number.to_bytes(8, "big") + (0).to_bytes(8, "big")
        return study, number, 0, chunk, checksum(key, chunk)

    database.execute("BEGIN")
    database.execute("DELETE FROM trials")
    database.execute("DELETE FROM measurements")
    numbers = range(1, count + 1)
    database.executemany("INSERT INTO trials (study, id, revision, body, crc, open) VALUES (?, ?, ?, ?, ?, 0)", map(trial_row, numbers))
    insert = "INSERT INTO measurements (study, trial, first, body, crc) VALUES (?, ?, ?, ?, ?)"
    database.executemany(insert, map(measurement_row, numbers))
    following, revision = count + 1, count + 11
    progress = following.to_bytes(8, "big") + revision.to_bytes(8, "big")
    update = "UPDATE progress SET next_trial_id = ?, revision = ?, crc = ? WHERE study = ?"
    database.execute(update, (following, revision, checksum(study.encode(), progress), study))
    database.execute("COMMIT")
    database.close()


def is_database(path):
    with contextlib.suppress(OSError):
        return path.is_file() and path.open("rb").read(15) == b"SQLite format 3"
    return False


def fill_optuna(python, folder, count):
    """Writes the rows that optuna's own storage would write, in one transaction."""
    path = folder / "optuna.db"
    create = (
        "import optuna, sys; s = optuna.create_study(study_name='bench', storage=sys.argv[1]);"
        "s.add_trial(optuna.trial.create_trial(params={'p0': 0.5}, distributions={'p0':"
        "optuna.distributions.FloatDistribution(0, 1)}, value=1.0, intermediate_values={0: 1.0}))"
    )
    subprocess.run([python, "-c", create, f"sqlite:///{path}"], check=True, stderr=subprocess.DEVNULL)
    database = sqlite3.connect(path, isolation_level=None)
    [(distribution,)] = database.execute("SELECT distribution_json FROM trial_params").fetchall()
    database.execute("BEGIN")
    for table in ["trial_params", "trial_values", "trial_intermediate_values", "trials"]:
        database.execute(f"DELETE FROM {table}")
    columns = "(trial_id, number, study_id, state, datetime_start, datetime_complete)"
    times = ("2026-01-01 00:00:00.000000", "2026-01-01 00:00:01.000000")
    numbers = range(1, count + 1)
    rows = ((number, number - 1, 1, "COMPLETE", *times) for number in numbers)
    database.executemany(f"INSERT INTO trials {columns} VALUES (?, ?, ?, ?, ?, ?)", rows)
    drawn = ((number, *values(number)) for number in numbers)
    for number, parameters, curve in drawn:
        database.executemany(
            "INSERT INTO trial_params (trial_id, param_name, param_value, distribution_json) VALUES (?, ?, ?, ?)",
            [(number, name, value, distribution) for name, value in parameters.items()],
        )
        database.execute(
            "INSERT INTO trial_values (trial_id, objective, value, value_type) VALUES (?, 0, ?, 'FINITE')", (number, curve[-1])
        )
        database.executemany(
            "INSERT INTO trial_intermediate_values (trial_id, step, intermediate_value, intermediate_value_type)"
            " VALUES (?, ?, ?, 'FINITE')",
            [(number, step, value) for step, value in enumerate(curve)],
        )
    database.execute("COMMIT")
    database.close()
    return path


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def served(command, port, cwd):
    """The process of a server, once it accepts connections."""
    server = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if server.poll() is not None:
                raise RuntimeError(f"{command[0]} ended with {server.returncode}")
            time.sleep(0.02)
        yield server.pid
    finally:
        server.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(10)
        server.kill()


def processor_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK


def resident_mib(pid):
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def poll_milliseconds(pid, url, headers, polls):
    """Processor time of one request that finds nothing new."""
    before = processor_seconds(pid)
    for _ in range(polls):
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(urllib.request.Request(url, headers=headers)).read()
    return (processor_seconds(pid) - before) * 1000 / polls


class Traffic:
    """The bytes that a page receives, those of the plot library apart."""

    def __init__(self, page):
        self.data, self.library, self.addresses = 0, 0, {}
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.on("Network.responseReceived", self.answered)
        session.on("Network.loadingFinished", self.finished)

    def answered(self, event):
        self.addresses[event["requestId"]] = event["response"]["url"]

    def finished(self, event):
        address = self.addresses.get(event["requestId"], "")
        if address.endswith(PLOT_LIBRARY):
            self.library += event["encodedDataLength"]
        else:
            self.data += event["encodedDataLength"]


def measure_tunesmith(browser, binary, folder):
    port = free_port()
    command = [binary, "serve", "--listen", f"127.0.0.1:{port}", "--data-dir", "data"]
    with served(command, port, folder) as pid:
        page = browser.new_context().new_page()
        page.add_init_script(SEEN)
        traffic = Traffic(page)
        address = f"http://127.0.0.1:{port}"
        start = time.perf_counter()
        page.goto(f"{address}/console/projects/local/jobs/bench/explore", wait_until="commit")
        page.wait_for_function(ALL_DRAWN, timeout=600_000)
        plots = time.perf_counter() - start
        paint = page.evaluate("seen / 1000")
        bytes_of_page = traffic.data
        redrawn = []
        for bound in [0.9, 0.8, 0.7]:
            redrawn.append(page.evaluate(FILTERED, f"parameters.p0 <= {bound} AND parameters.p1 >= {1 - bound}"))
        view = f"{address}/v1/projects/local/locations/jobs/studies/bench/views/history?prettyPrint=false"
        with urllib.request.urlopen(view) as answer:
            etag = answer.headers["etag"]
        poll = poll_milliseconds(pid, view, {"If-None-Match": etag}, POLLS)
        figures = dict(paint=paint, plots=plots, data=bytes_of_page, library=traffic.library, redrawn=[sorted(times)[1] for times in zip(*redrawn)], poll=poll)
        page.context.close()
        return dict(figures, memory=resident_mib(pid))


# Milliseconds from the request until the history, as a sketch or drawn, and the trials are painted. Looked at in every frame,
# by the page itself: a call from outside waits while plotly.js is compiled.
SEEN = """
  const look = () => {
    const history = document.querySelector("figure[data-plot=history] .canvas svg");
    const isSeen = history && document.querySelector("#matches tbody tr");
    if (isSeen) setTimeout(() => { window.seen = performance.now(); });
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
"""
# All figures near the window show the present selection. The model behind the importance takes seconds, and comes after.
ALL_DRAWN = """() => {
  const shown = document.getElementById("explore").dataset.shown;
  const near = [...document.querySelectorAll("figure[data-plot]:not([data-plot=importance])")]
    .filter((figure) => figure.getBoundingClientRect().top < innerHeight);
  return shown && near.every((figure) => figure.dataset.drawn === shown);
}"""
FILTERED = """(filter) => new Promise((resolve) => {
  const form = document.getElementById("selection");
  const before = document.getElementById("explore").dataset.shown;
  form.elements.filter.value = filter;
  const start = performance.now();
  form.requestSubmit();
  const isDone = (margin) => {
    const shown = document.getElementById("explore").dataset.shown;
    const near = [...document.querySelectorAll("figure[data-plot]:not([data-plot=importance])")]
      .filter((figure) => figure.getBoundingClientRect().top < innerHeight + margin);
    return shown !== before && near.every((figure) => figure.dataset.drawn === shown);
  };
  const times = [];
  const look = () => {
    while (times.length < 2 && isDone([0, 200][times.length])) times.push((performance.now() - start) / 1000);
    if (times.length === 2) resolve(times);
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})"""


def measure_optuna(browser, python, path, count):
    port = free_port()
    dashboard = str(Path(python).parent / "optuna-dashboard")
    command = [dashboard, f"sqlite:///{path}", "--port", str(port), "--host", "127.0.0.1"]
    with served(command, port, path.parent) as pid:
        page = browser.new_context().new_page()
        traffic = Traffic(page)
        address = f"http://127.0.0.1:{port}"
        start = time.perf_counter()
        page.goto(f"{address}/dashboard/studies/1", wait_until="commit")
        try:
            page.wait_for_selector(".js-plotly-plot .main-svg", timeout=OPTUNA_LIMIT * 1000, state="attached")
            paint = time.perf_counter() - start
        except PlaywrightTimeout:
            paint = math.inf
        poll = poll_milliseconds(pid, f"{address}/api/studies/1?after={count}", {}, OPTUNA_POLLS)
        figures = dict(paint=paint, plots=paint, data=traffic.data, library=traffic.library, redrawn=None, poll=poll)
        page.context.close()
        return dict(figures, memory=resident_mib(pid))


def environment_of_optuna(folder):
    python = folder / "optuna" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", folder / "optuna"], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *OPTUNA], check=True)
    return str(python)


def line(count, name, figures):
    redrawn = "–" if figures["redrawn"] is None else "{:.0f} ms ({:.0f})".format(*(1000 * time for time in figures["redrawn"]))
    paint, plots = (f"{figures[key]:.2f} s" if math.isfinite(figures[key]) else f"over {OPTUNA_LIMIT} s" for key in ("paint", "plots"))
    return (
        f"| {count:,} | {name} | {paint} | {plots} | {figures['data'] / 1e6:.2f} MB | {figures['library'] / 1e6:.2f} MB "
        f"| {redrawn} | {figures['poll']:.1f} ms | {figures['memory']:.0f} MiB |"
    )


def report(table):
    """The page of results."""
    [model] = {line.split(": ")[1] for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")}
    method = __doc__[__doc__.index("For each number") :]
    return (
        f"# The console at many trials\n\nWritten by `benches/console.py`, on {os.cpu_count()} cores of {model} that browser and servers "
        f"share, with chromium without a GPU, beside {OPTUNA[1]} on the same trials in the same run.\n\n{method}\n"
        + "\n".join(table)
        + "\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path)
    parser.add_argument("--trials", type=int, nargs="+", default=[1000, 100_000, 1_000_000])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--optuna-up-to", type=int, default=100_000, help="its processes need 10 GiB for 100,000 trials")
    arguments = parser.parse_args()
    binary = str(arguments.binary.resolve())
    chromium = shutil.which("chromium")
    lines = [
        "| trials | server | first useful paint | plots | transferred | plot library | filter to redrawn | idle poll | memory |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    print("\n".join(lines), flush=True)
    with tempfile.TemporaryDirectory() as root, sync_playwright() as playwright:
        python = environment_of_optuna(Path(root)) if min(arguments.trials) <= arguments.optuna_up_to else None
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for count in arguments.trials:
            folder = Path(root) / str(count)
            folder.mkdir()
            fill_tunesmith(binary, folder, count)
            lines.append(line(count, "tunesmith", measure_tunesmith(browser, binary, folder)))
            print(lines[-1], flush=True)
            if count <= arguments.optuna_up_to:
                path = fill_optuna(python, folder, count)
                lines.append(line(count, OPTUNA[1], measure_optuna(browser, python, path, count)))
                print(lines[-1], flush=True)
            shutil.rmtree(folder)
        browser.close()
    if arguments.output:
        arguments.output.write_text(report(lines))


if __name__ == "__main__":
    main()
