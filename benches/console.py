"""The pages of the console beside optuna-dashboard on the same trials, in a real browser.

Usage: python3 benches/console.py PATH_OF_TUNESMITH... [--trials 1000 100000 1000000] [--runs 3] [--optuna-up-to 100000]
       [--output benches/results/console.md]

Needs chromium, and from PyPI: playwright, google-crc32c; it installs optuna and optuna-dashboard in a folder of its own.

For each number of trials it makes one study with 6 parameters and 5 measurements of each trial in both stores, starts the
servers on loopback, and measures one after the other. The table has medians of the runs, for which servers take turns:

- first useful paint in seconds of the first page of the study (results and the best trials; a plot), of its list of trials (the
  first row) and of its page of plots (the first plot and the best trials; a plot), from the request, in a new browser context
  without a cache: of a server that was just started, and once more of the same server. Tunesmith sketches its plots until
  plotly.js is loaded;
- all drawn: from the request until all plots in the window are drawn by plotly.js, and can be brushed, in seconds; of
  optuna-dashboard its first plot;
- what the browser received for that page in KB, with plotly.js counted apart;
- filter to redrawn: from the change of the filter until all visible plots and the table show it; in brackets, until the plots
  within 200 px of the window show it as well, which the page draws after them;
- filter of trials: from the change of the filter of the list of trials until its rows are painted;
- idle poll: processor time of the server for a request that finds nothing new;
- memory: resident memory of the server after the plots.
"""

import argparse
import contextlib
import functools
import json
import math
import os
import random
import shutil
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import google_crc32c
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from playwright.sync_api import sync_playwright

OPTUNA = ["optuna==5.0.0", "optuna-dashboard==0.21.0"]
PARAMETERS = [f"p{index}" for index in range(6)]
MEASUREMENTS = 5
POLLS, OPTUNA_POLLS = 50, 3
# Seconds after which a page is an error.
OUR_LIMIT = 600
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


@contextlib.contextmanager
def opened(browser, address, condition):
    """A page in a new context without a cache, with its traffic; `window.seen` is the time of the first frame with `condition`."""
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(SEEN.replace("CONDITION", condition))
    traffic = Traffic(page)
    page.goto(address, wait_until="commit")
    try:
        yield page, traffic
    finally:
        context.close()


def painted(page, limit):
    """Seconds from the request to the first useful paint, as the page has seen it."""
    try:
        page.wait_for_function("() => window.seen", timeout=limit * 1000)
    except PlaywrightTimeout:
        return math.inf
    return page.evaluate("seen / 1000")


def paints(browser, serve, address, condition, limit):
    """First useful paint with a server that was just started, and then in another context of the same server."""
    with serve():
        times = []
        for _ in range(2):
            with opened(browser, address, condition) as (page, _):
                times.append(painted(page, limit))
            if math.isinf(times[0]):
                return times * 2
        return times


def measure_tunesmith(browser, binary, folder):
    port = free_port()
    command = [binary, "serve", "--listen", f"127.0.0.1:{port}", "--data-dir", "data"]
    serve = functools.partial(served, command, port, folder)
    address = f"http://127.0.0.1:{port}"
    job = f"{address}/console/projects/local/jobs/bench"
    figures = {
        name: paints(browser, serve, job + path, condition, OUR_LIMIT)
        for name, path, condition in [("start", "", OUR_START), ("trials", "/trials", OUR_TRIALS), ("plots", "/explore", OUR_PLOTS)]
    }
    with serve() as pid:
        with opened(browser, f"{job}/explore", OUR_PLOTS) as (page, traffic):
            page.wait_for_function(ALL_DRAWN, timeout=OUR_LIMIT * 1000)
            figures |= {"drawn": page.evaluate("performance.now() / 1000"), "data": traffic.data, "library": traffic.library}
            redrawn = [page.evaluate(FILTERED, filter_of(bound)) for bound in [0.9, 0.8, 0.7]]
            figures["redrawn"] = [statistics.median(times) for times in zip(*redrawn)]
        view = f"{address}/v1/projects/local/locations/jobs/studies/bench/views/history?prettyPrint=false"
        with urllib.request.urlopen(view) as answer:
            etag = answer.headers["etag"]
        figures["poll"] = poll_milliseconds(pid, view, {"If-None-Match": etag}, POLLS)
        figures["memory"] = resident_mib(pid)
        with opened(browser, f"{job}/trials", OUR_TRIALS) as (page, _):
            painted(page, OUR_LIMIT)
            figures["listed"] = statistics.median(listed(page, filter_of(bound)) for bound in [0.85, 0.75, 0.65])
    return figures


def filter_of(bound):
    return f"parameters.p0 <= {bound} AND parameters.p1 >= {1 - bound:.2f}"


def listed(page, expression):
    """Seconds from the change of the filter of the page Trials, which loads it anew, to the paint of the selected trials."""
    started = page.evaluate(LISTED, expression)
    page.wait_for_url("**filter=*")
    painted(page, OUR_LIMIT)
    return page.evaluate("performance.timeOrigin + seen") / 1000 - started / 1000


OUR_START = """document.querySelector("figure[data-plot=history] .canvas svg") && document.querySelector("#leaders tbody tr")"""
OUR_TRIALS = """document.querySelector("main table tbody tr")"""
# The history, as a sketch or drawn, and the trials.
OUR_PLOTS = """document.querySelector("figure[data-plot=history] .canvas svg") && document.querySelector("#matches tbody tr")"""
OPTUNA_PLOTS = """document.querySelector(".js-plotly-plot .main-svg")"""
# The list has the heading of a trial for each row.
OPTUNA_TRIALS = """[...document.querySelectorAll(".MuiListItemButton-root")].some((row) => row.textContent.startsWith("Trial "))"""

# Milliseconds from the request until what a visitor came for is painted. Looked at in every frame, by the page itself: a call from
# outside waits while plotly.js is compiled.
SEEN = """
  const look = () => {
    if (CONDITION) setTimeout(() => { window.seen = performance.now(); });
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
"""
LISTED = """(filter) => {
  const form = document.querySelector("form[role=search]");
  form.elements.filter.value = filter;
  const started = performance.timeOrigin + performance.now();
  form.requestSubmit();
  return started;
}"""
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


def measure_optuna(browser, python, path, count, limit):
    port = free_port()
    dashboard = str(Path(python).parent / "optuna-dashboard")
    command = [dashboard, f"sqlite:///{path}", "--port", str(port), "--host", "127.0.0.1"]
    serve = functools.partial(served, command, port, path.parent)
    address = f"http://127.0.0.1:{port}"
    study = f"{address}/dashboard/studies/1"
    pages = [("start", "", OPTUNA_PLOTS), ("trials", "/trials", OPTUNA_TRIALS), ("plots", "/analytics", OPTUNA_PLOTS)]
    figures = {name: paints(browser, serve, study + path, condition, limit) for name, path, condition in pages}
    with serve() as pid:
        with opened(browser, study, OPTUNA_PLOTS) as (page, traffic):
            drawn = painted(page, limit)
            figures |= {"drawn": drawn, "data": traffic.data, "library": traffic.library, "redrawn": None, "listed": None}
        is_drawn = math.isfinite(drawn)
        figures["poll"] = poll_milliseconds(pid, f"{address}/api/studies/1?after={count}", {}, OPTUNA_POLLS) if is_drawn else math.inf
        figures["memory"] = resident_mib(pid)
    return figures


def environment_of_optuna(folder):
    python = folder / "optuna" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", folder / "optuna"], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *OPTUNA], check=True)
    return str(python)


def middle(runs):
    """The median of each figure."""
    return {key: middle_of([run[key] for run in runs]) for key in runs[0]}


def middle_of(values):
    if values[0] is None:
        return None
    return [middle_of(parts) for parts in zip(*values)] if isinstance(values[0], list) else statistics.median(values)


def line(count, name, figures, limit):
    def seconds(value):
        return f"{value:.2f}" if math.isfinite(value) else f"> {limit}"

    def both(key):
        return " / ".join(seconds(value) for value in figures[key])

    redrawn = "–" if figures["redrawn"] is None else "{:.0f} ms ({:.0f})".format(*(1000 * time for time in figures["redrawn"]))
    shown = "–" if figures["listed"] is None else f"{1000 * figures['listed']:.0f} ms"
    poll = f"{figures['poll']:.1f} ms" if math.isfinite(figures["poll"]) else "–"
    return (
        f"| {count:,} | {name} | {both('start')} | {both('trials')} | {both('plots')} | {seconds(figures['drawn'])} | {figures['data'] / 1e3:.0f} "
        f"| {figures['library'] / 1e6:.2f} | {redrawn} | {shown} | {poll} | {figures['memory']:.0f} MiB |"
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
    parser.add_argument("binary", type=Path, nargs="+", help="one program, or several to compare")
    parser.add_argument("--trials", type=int, nargs="+", default=[1000, 100_000, 1_000_000])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--runs", type=int, default=3, help="runs of each server, which take turns")
    parser.add_argument("--optuna-up-to", type=int, default=100_000, help="its processes need 10 GiB for 100,000 trials")
    parser.add_argument("--optuna-limit", type=int, default=120, help="seconds after which its page is given up")
    parser.add_argument("--optuna-python", help="the Python of an environment that has optuna-dashboard")
    arguments = parser.parse_args()
    binaries = [str(binary.resolve()) for binary in arguments.binary]
    names = ["tunesmith"] if len(binaries) == 1 else [f"tunesmith {index + 1}" for index in range(len(binaries))]
    lines = [
        "| trials | server | start | trials | plots | all drawn | KB | plot library, MB | filter to redrawn | filter of trials | idle poll | memory |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    print("\n".join(lines), flush=True)
    with tempfile.TemporaryDirectory() as root, sync_playwright() as playwright:
        python = arguments.optuna_python
        if python is None and min(arguments.trials) <= arguments.optuna_up_to:
            python = environment_of_optuna(Path(root))
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for count in arguments.trials:
            folder = Path(root) / str(count)
            folder.mkdir()
            fill_tunesmith(binaries[0], folder, count)
            measured = {name: functools.partial(measure_tunesmith, browser, binary, folder) for name, binary in zip(names, binaries)}
            if count <= arguments.optuna_up_to:
                path = fill_optuna(python, folder, count)
                measured[OPTUNA[1]] = functools.partial(measure_optuna, browser, python, path, count, arguments.optuna_limit)
            runs = {name: [] for name in measured}
            for _ in range(arguments.runs):
                for name, measure in measured.items():
                    # A page that is never drawn is not waited for again.
                    if not runs[name] or math.isfinite(runs[name][-1]["drawn"]):
                        runs[name].append(measure())
                        print(line(count, name, runs[name][-1], arguments.optuna_limit), file=sys.stderr, flush=True)
            for name, figures in runs.items():
                lines.append(line(count, name, middle(figures), arguments.optuna_limit))
                print(lines[-1], flush=True)
            shutil.rmtree(folder)
        browser.close()
    if arguments.output:
        arguments.output.write_text(report(lines))


if __name__ == "__main__":
    main()
