"""A port for processes that train together."""

from __future__ import annotations

import socket

import pytest


@pytest.fixture
def unused_port() -> int:
    """A port of this machine that no program listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
