"""Uses the units of examples/systemd under a real systemd. `tests/systemd_root.sh` starts it."""

import json
import os
import pwd
import subprocess
import time
import urllib.request
from pathlib import Path

SERVER = "http://127.0.0.1:8090"
STORE = "/var/lib/tunesmith/store.sqlite"
# Files that a program tries to read.
FILES = ["/etc/shadow", "/root/secret", "/home/secret", STORE]
TRAINER = f"""
import os, pathlib, sys, time
readable = []
for path in {FILES!r}:
    try:
        pathlib.Path(path).read_bytes()
        readable.append(path)
    except OSError:
        pass
print("user", os.getuid(), "readable", readable, flush=True)
go = pathlib.Path("/opt/check/go")
while not go.exists():
    time.sleep(0.1)
print("accuracy=" + sys.argv[1].partition("=")[2])
"""
CONFIG = """
trainingInput:
  hyperparameters:
    goal: MAXIMIZE
    maxTrials: 2
    maxParallelTrials: 2
    hyperparameterMetricTag: accuracy
    params:
    - {parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}
  tunesmith: {metricFromStdout: true}
"""


def run(*command: str) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, (command, ended.returncode, ended.stdout, ended.stderr)
    return ended.stdout


def get(path: str):
    with urllib.request.urlopen(SERVER + path, timeout=30) as response:
        return json.load(response)


def show(unit: str, name: str) -> str:
    return run("systemctl", "show", "--property", name, "--value", unit).strip()


def until(condition, text: str):
    for _ in range(600):
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(text)


def programs() -> dict[int, str]:
    """Process numbers and users of the running programs of trials."""
    found = {}
    for folder in Path("/proc").iterdir():
        try:
            arguments = (folder / "cmdline").read_bytes().split(b"\0") if folder.name.isdigit() else []
            if b"/opt/check/train.py" in arguments and b"python" in arguments[0]:
                found[int(folder.name)] = pwd.getpwuid(folder.stat().st_uid).pw_name
        except FileNotFoundError:
            pass
    return found


def check(unit: str, user: str, readable: list[str]):
    """Uses `unit`, whose programs run as `user` and can read `readable` of FILES."""
    go = Path("/opt/check/go")
    go.unlink(missing_ok=True)
    run("systemctl", "start", unit)
    # Type=notify: it has started once it accepts connections.
    assert get("/readyz")["ready"] is True
    first = show(unit, "MainPID")
    assert show(unit, "StatusText") == f"listening on {SERVER}", show(unit, "StatusText")
    run("systemctl", "reload", unit)
    assert show(unit, "MainPID") == first

    submit = ["tunesmith", "jobs", "submit", "training", "job", "--config", "/opt/check/job.yaml", "--server", SERVER]
    run(*submit, "--", "python3", "/opt/check/train.py")
    started = until(lambda: len(found := programs()) == 2 and found, "the programs do not run")
    assert set(started.values()) == {user}, started

    run("systemctl", "restart", unit)
    second = show(unit, "MainPID")
    assert second != first and programs() == started, (programs(), started)
    os.kill(int(second), 9)
    third = until(lambda: (pid := show(unit, "MainPID")) not in ("0", second) and pid, "no restart after a kill")
    until(lambda: show(unit, "ActiveState") == "active", "the restarted unit is not active")
    assert programs() == started, (programs(), started, third)

    go.touch()
    job = until(lambda: (job := get("/v1/projects/local/jobs/job"))["state"] == "SUCCEEDED" and job, "the job does not end")
    trials = job["trainingOutput"]["trials"]
    for trial in trials:
        value, x = trial["finalMetric"]["objectiveValue"], float(trial["hyperparameters"]["x"])
        assert abs(value - x) < 1e-9, trial
    assert len(trials) == 2
    output = run("tunesmith", "jobs", "stream-logs", "job", "--server", SERVER)
    expected = f"user {pwd.getpwnam(user).pw_uid} readable {readable}"
    assert output.count(expected) == 2, output

    run("systemctl", "stop", unit)
    assert show(unit, "Result") == "success", show(unit, "Result")
    journal = run("journalctl", "--unit", unit, "--output", "json").splitlines()
    ours = [entry for entry in map(json.loads, journal) if entry.get("_COMM") == "tunesmith"]
    texts = [(entry["PRIORITY"], entry["MESSAGE"]) for entry in ours]
    assert ("6", "ending; running trials go on, and the next server adopts them") in texts, texts
    loud = [text for priority, text in texts if priority < "6"]
    assert not loud, loud
    exposure = run("systemd-analyze", "security", unit, "--no-pager").splitlines()[-1]
    print(f"{unit}: passed; {exposure.strip('→ ')}")


def main():
    for name, home in (("tunesmith", "/var/lib/tunesmith"), ("trainer", "/nonexistent")):
        subprocess.run(["useradd", "--system", "--home-dir", home, "--shell", "/usr/sbin/nologin", name], check=False)
    for secret in ("/root/secret", "/home/secret"):
        Path(secret).write_text("secret")
    Path("/etc/tunesmith/tunesmith.env").write_text("TUNESMITH_OPTIONS=--listen 127.0.0.1:8090 --job-slots 2\n")
    work = Path("/opt/check")
    work.chmod(0o755)
    (work / "train.py").write_text(TRAINER)
    (work / "job.yaml").write_text(CONFIG)
    # Its programs have the user of the server.
    check("tunesmith", "tunesmith", [STORE])
    run("rm", "-rf", "/var/lib/tunesmith")
    check("tunesmith-isolated", "trainer", [])


main()
