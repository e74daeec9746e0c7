"""The tutorial notebook."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from server_process import binary

read: Any = nbformat.read  # Without types.
NOTEBOOK = Path(__file__).parents[4] / "docs" / "notebooks" / "tune-digits.ipynb"


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The executed cells."""
    folder = tmp_path_factory.mktemp("notebook")
    programs = folder / "bin"
    programs.mkdir()
    program, number = programs / "tunesmith", folder / "pid"
    program.write_text(f'#!/bin/sh\necho $$ > {shlex.quote(str(number))}\nexec {shlex.quote(binary())} "$@"\n')
    program.chmod(0o755)
    # The kernel is this interpreter, whichever kernels are installed for the user.
    kernel = folder / "jupyter" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    spec = {"argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "display_name": "Python 3"}
    (kernel / "kernel.json").write_text(json.dumps(spec))
    notebook = read(NOTEBOOK, as_version=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        patch.setenv("JUPYTER_PATH", str(folder / "jupyter"))
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        try:
            NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
        finally:
            if number.exists():
                # After a cell that failed, the server still runs.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(number.read_text()), signal.SIGTERM)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def output(cells: list[Any], source: str) -> dict[str, Any]:
    """The last output of the cell whose source has `source`: its text or its data by type."""
    (cell,) = [cell for cell in cells if source in cell.source]
    last = cell.outputs[-1]
    return {"text/plain": last.text} if last.output_type == "stream" else dict(last.data)


def test_the_search_is_shown_with_its_progress(cells: list[Any]) -> None:
    shown = output(cells, "trials=25")
    assert shown["text/plain"].startswith("Result: 25 trials\n  best trial ")
    assert "<th>accuracy</th><th>C</th><th>gamma</th><th>kernel</th>" in shown["text/html"]
    (cell,) = [cell for cell in cells if "trials=25" in cell.source]
    progress = cell.outputs[0].data["text/plain"]
    assert re.fullmatch(r"digits  25/25 trials  best accuracy=0\.\d+ \(trial \d+\)  0 failed  .*", progress), progress
    # No other output: warnings and progress of stderr would be streams.
    assert [each.output_type for each in cell.outputs] == ["display_data", "execute_result"]


def test_the_best_classifier_is_good(cells: list[Any]) -> None:
    text = output(cells, "result.recommended.number")["text/plain"]
    assert float(text.split()[0]) > 0.93
    assert re.search(r"^recommended: trial \d+$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("call", "trace"),
    [
        ("result.plot()", "scatter"),
        ('result.plot("slice")', "scatter"),
        ('result.plot("importance")', "bar"),
        ('result.plot("parallel")', "parcoords"),
    ],
)
def test_plots_are_shown(cells: list[Any], call: str, trace: str) -> None:
    figure = output(cells, call)["application/vnd.plotly.v1+json"]
    assert figure["data"][0]["type"] == trace


def test_the_server_and_the_process_continue_each_other(cells: list[Any]) -> None:
    assert re.fullmatch(
        r"The console is at http://127\.0\.0\.1:\d+/console\n", output(cells, "subprocess.Popen")["text/plain"]
    )
    first = output(cells, "print(result.value")["text/plain"]
    text = output(cells, "client.study")["text/plain"]
    found = re.fullmatch(r"30 trials, the best is (\d+) with (0\.\d+)\n", text)
    assert found is not None, text
    assert float(found[2]) >= round(float(first.split()[0]), 4)
    assert output(cells, "trials=32")["text/plain"].startswith("Result: 32 trials\n")


def test_the_stored_notebook_has_no_outputs() -> None:
    notebook = read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)
