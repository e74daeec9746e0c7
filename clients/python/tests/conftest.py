"""A server for each test module, and clients."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import tunesmith
from server_process import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that is shared by the tests of a module."""
    process = ServerProcess(tmp_path_factory.mktemp("server"))
    yield process
    process.end()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server for one test, which may stop or kill it."""
    process = ServerProcess(tmp_path)
    yield process
    process.end()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[tunesmith.Client]:
    """A client with its own project for each test."""
    with tunesmith.Client(server.address, project=f"test-{uuid.uuid4().hex}") as client:
        yield client
