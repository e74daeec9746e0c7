"""Tunesmith's search and stopping rules for Optuna.

    study = optuna.create_study(sampler=TunesmithSampler(seed=1), pruner=TunesmithPruner())

Everything runs in the process of the study; no server is involved. Needs Optuna: `pip install "tunesmith[optuna]"`.
"""

try:
    import optuna as _optuna  # noqa: F401
except ImportError as error:
    raise ImportError(f'tunesmith.optuna needs Optuna ({error}): pip install "tunesmith[optuna]"') from error

from .pruner import TunesmithPruner
from .sampler import TunesmithSampler

__all__ = ["TunesmithPruner", "TunesmithSampler"]
