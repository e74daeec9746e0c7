"""A server with a gRPC listener, and Optuna's proxy to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from optuna.storages import GrpcStorageProxy

from storage_server import StorageServer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Optuna warns that its proxy is experimental."""
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning"))


@pytest.fixture(scope="session")
def storage_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StorageServer]:
    """A server that all tests share, except those that end it."""
    server = StorageServer(tmp_path_factory.mktemp("server"))
    yield server
    server.end()


@pytest.fixture
def own_storage_server(tmp_path: Path) -> Iterator[StorageServer]:
    """A server for one test, which may stop or kill it."""
    server = StorageServer(tmp_path)
    yield server
    server.end()


@pytest.fixture
def storage(storage_server: StorageServer) -> Iterator[GrpcStorageProxy]:
    """An empty storage."""
    proxy = storage_server.proxy()
    for study in proxy.get_all_studies():
        proxy.delete_study(study._study_id)
    yield proxy
    proxy.close()
