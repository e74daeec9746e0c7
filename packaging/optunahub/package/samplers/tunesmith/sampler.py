"""The sampler and the pruner of the distribution `tunesmith`, which has the compiled engine."""

from __future__ import annotations

try:
    from tunesmith.optuna import TunesmithPruner, TunesmithSampler
except ImportError as error:
    raise ImportError(
        f"samplers/tunesmith needs the distribution tunesmith ({error}): pip install tunesmith"
    ) from error

__all__ = ["TunesmithPruner", "TunesmithSampler"]
