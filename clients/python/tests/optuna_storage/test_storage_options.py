"""Options of the server, and their errors."""

from __future__ import annotations

import socket
import sqlite3
import subprocess
from pathlib import Path

from server_process import ServerProcess, binary


def refused(folder: Path, *arguments: str) -> str:
    command = [binary(), "serve", "--listen", "127.0.0.1:0", "--data-dir", "data", *arguments]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (2, "")
    return ended.stderr


def test_other_addresses_than_loopback_need_a_flag(tmp_path: Path) -> None:
    message = refused(tmp_path, "--grpc-listen", "0.0.0.0:0")
    assert "--grpc-listen 0.0.0.0:0: the protocol has no credentials" in message
    assert "--grpc-allow-remote" in message
    server = ServerProcess(tmp_path, ["--grpc-listen", "0.0.0.0:0", "--grpc-allow-remote"])
    server.end()
    assert "listening for gRPC on 0.0.0.0:" in (tmp_path / "server.log").read_text()


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = occupied.getsockname()[1]
        message = refused(tmp_path, "--grpc-listen", f"127.0.0.1:{port}")
        assert f"cannot listen on 127.0.0.1:{port}" in message


def test_a_shared_store_is_refused(tmp_path: Path) -> None:
    message = refused(tmp_path, "--grpc-listen", "127.0.0.1:0", "--store", "postgres://u@127.0.0.1/d")
    assert "Optuna studies are stored in the data folder of one server" in message


def test_a_file_of_a_later_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    ServerProcess(tmp_path, ["--grpc-listen", "127.0.0.1:0"]).end()
    with sqlite3.connect(tmp_path / "data" / "optuna.sqlite") as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    message = refused(tmp_path, "--grpc-listen", "127.0.0.1:0")
    assert "optuna.sqlite was written by a later version (schema 2, known up to 1): use that version" in message
