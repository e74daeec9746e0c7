"""A real server in its own process."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path


def binary() -> str:
    """The server's program, which `TUNESMITH_BINARY` has to name."""
    path = os.environ.get("TUNESMITH_BINARY")
    if not path or not os.access(path, os.X_OK):
        raise RuntimeError(f"TUNESMITH_BINARY must name the program tunesmith, not {path!r}")
    return path


class ServerProcess:
    """A server with its data in a folder; after a restart it listens on the same port."""

    def __init__(self, folder: Path, arguments: Sequence[str] = ()) -> None:
        self._folder = folder
        self._arguments = list(arguments)
        self._port = 0
        self._process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def address(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Starts it, and returns when it listens."""
        command = [binary(), "serve", "--listen", f"127.0.0.1:{self._port}", "--data-dir", "data"]
        command += self._arguments
        with (self._folder / "server.log").open("a") as log:
            self._process = subprocess.Popen(
                command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line.startswith("listening on http://"):
            self.end(signal.SIGKILL)
            log_text = (self._folder / "server.log").read_text()
            raise RuntimeError(f"the server does not listen: {line!r}\n{log_text}")
        self._port = int(line.rpartition(":")[2])

    def end(self, by: signal.Signals = signal.SIGTERM) -> None:
        """Ends it by a signal, and returns when it has ended."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(by)
            process.communicate()


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Waits until `condition` holds, and fails after a while if it does not."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not so within {seconds} seconds"
