"""Optuna's own test suite for third-party samplers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from optuna.samplers import BaseSampler
from optuna.testing import pytest_samplers

from tunesmith.optuna import TunesmithSampler


class TestTunesmithSampler(
    pytest_samplers.BasicSamplerTestCase,
    pytest_samplers.RelativeSamplerTestCase,
    pytest_samplers.MultiObjectiveSamplerTestCase,
):
    """All tests for samplers of several objectives that suggest points jointly."""

    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return TunesmithSampler
