"""The work of a child process, which imports it by name."""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Any

from tunesmith import Optimizer


def send_suggestions(search: Optimizer, pipe: Connection[list[dict[str, Any]], Any]) -> None:
    """Sends the next two points of `search`."""
    pipe.send([trial.parameters for trial in search.ask(2)])
