"""The line of progress in a terminal, in a log, and nowhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import tunesmith
from tunesmith._progress import duration

PROGRAM = """
import tunesmith

def objective(parameters):
    if tunesmith.current_trial().number == 2:
        raise ValueError
    return parameters["x"] + 0.123456789

tunesmith.minimize(objective, {"x": [0.0, 1.0, 2.0, 3.0]}, trials=4, seed=1, catch=ValueError, metrics=["loss"]OPTIONS)
"""


def in_terminal(columns: int, options: str = "") -> str:
    """Returns what the program writes to a terminal."""
    ours, theirs = os.openpty()
    try:
        command = [sys.executable, "-W", "error", "-c", PROGRAM.replace("OPTIONS", options)]
        environment = os.environ | {"COLUMNS": str(columns)}
        process = subprocess.Popen(command, stderr=theirs, stdout=subprocess.PIPE, env=environment)
        os.close(theirs)
        written = b""
        try:
            while chunk := os.read(ours, 4096):
                written += chunk
        except OSError:
            pass  # Linux reports the end of a terminal as an error.
        assert process.communicate()[0] == b""
        assert process.returncode == 0, written
        return written.decode()
    finally:
        os.close(ours)


def in_pipe(options: str = "") -> str:
    """Returns what the program writes to a pipe."""
    command = [sys.executable, "-W", "error", "-c", PROGRAM.replace("OPTIONS", options)]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stdout == ""
    return process.stderr


def test_a_terminal_has_one_line_that_is_rewritten() -> None:
    written = in_terminal(100)
    assert written.startswith("\r0/4 trials  no result  0 failed")
    assert written.endswith("\r\n")
    assert written.count("\n") == 1
    last = written.rstrip().rpartition("\r")[2]
    assert re.fullmatch(
        r"4/4 trials  best loss=[0-3]\.1234[0-9]+ \(trial [134]\)  1 failed  \S+ trials/s  1 s", last
    ), last


def test_the_line_is_no_wider_than_the_terminal() -> None:
    lines = re.split(r"[\r\n]+", in_terminal(24))
    assert max(map(len, lines)) == 23
    assert lines[1] == "0/4 trials  no result  "


def test_the_line_begins_with_the_name_of_the_study() -> None:
    assert "\rdigits  4/4 trials  best" in in_terminal(100, ", name='digits'")


def test_several_metrics_show_the_number_of_optimal_trials() -> None:
    options = ", progress=True)\ntunesmith.minimize(lambda _: {'a': 1.0, 'b': 2.0}, {'x': [1]}, metrics=['a', 'b']"
    assert "1/50 trials  1 optimal  0 failed" in in_terminal(100, options)


def test_nothing_is_written_elsewhere_or_if_unwanted() -> None:
    assert in_pipe() == ""
    assert in_terminal(100, ", progress=False") == ""


def test_a_log_has_lines_on_request() -> None:
    first, last = in_pipe(", progress=True").splitlines()
    assert first == "0/4 trials  no result  0 failed"
    assert last.startswith("4/4 trials  best loss=")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (59.4, "59 s"), (59.6, "1 min"), (95, "2 min"), (3599, "1 h 0 min"), (7500, "2 h 5 min")],
)
def test_durations_are_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_continued_run_counts_the_trials_before_it(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    for trials in (2, 4):
        tunesmith.minimize(
            lambda parameters: parameters["x"],
            {"x": (0.0, 1.0)},
            trials=trials,
            seed=1,
            progress=True,
            storage=f"{tmp_path}/data",
        )
    assert capsys.readouterr().err.splitlines()[2].startswith("2/4 trials  best value=")
