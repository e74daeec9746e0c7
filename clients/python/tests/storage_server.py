"""A real server with a gRPC listener, in its own process."""

from __future__ import annotations

import re
import signal
import warnings
from pathlib import Path

from optuna.exceptions import ExperimentalWarning
from optuna.storages import GrpcStorageProxy

from server_process import ServerProcess


class StorageServer:
    """A server process that listens for gRPC; after a restart on the same port."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self._arguments = arguments
        self.port = 0
        self.start()

    def start(self) -> None:
        """Starts it, and returns when it listens."""
        log = self.folder / "server.log"
        begin = log.stat().st_size if log.exists() else 0
        self._process = ServerProcess(self.folder, ["--grpc-listen", f"127.0.0.1:{self.port}", *self._arguments])
        line = re.search(r"^listening for gRPC on 127\.0\.0\.1:(\d+)$", log.read_text()[begin:], re.MULTILINE)
        assert line is not None
        self.port = int(line[1])

    def end(self, by: signal.Signals = signal.SIGTERM) -> None:
        """Ends it by a signal, and returns when it has ended."""
        self._process.end(by)

    def proxy(self) -> GrpcStorageProxy:
        """A client with a connection of its own."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            return GrpcStorageProxy(host="127.0.0.1", port=self.port)
