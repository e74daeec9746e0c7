"""Data for estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


@pytest.fixture
def data() -> tuple[Any, Any]:
    """Twenty samples of one feature, 0 to 19, of two classes in turn."""
    return np.arange(20.0).reshape(-1, 1), np.arange(20) % 2
