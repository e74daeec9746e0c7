"""A server for each test module, and clients."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tunesmith
from server_process import ServerProcess

if TYPE_CHECKING:
    from optuna.storages import GrpcStorageProxy

    from storage_server import StorageServer


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


@pytest.fixture(scope="session")
def storage_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StorageServer]:
    """A server with Optuna studies, which all tests share except those that end it."""
    from storage_server import StorageServer

    server = StorageServer(tmp_path_factory.mktemp("server"))
    yield server
    server.end()


@pytest.fixture
def own_storage_server(tmp_path: Path) -> Iterator[StorageServer]:
    """A server with Optuna studies for one test, which may stop or kill it."""
    from storage_server import StorageServer

    server = StorageServer(tmp_path)
    yield server
    server.end()


@pytest.fixture
def storage(storage_server: StorageServer) -> Iterator[GrpcStorageProxy]:
    """An empty storage of Optuna studies."""
    proxy = storage_server.proxy()
    for study in proxy.get_all_studies():
        proxy.delete_study(study._study_id)
    yield proxy
    proxy.close()
