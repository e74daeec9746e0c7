"""Tunesmith's search and stopping rules for Optuna, and the import of Optuna's studies.

    study = optuna.create_study(sampler=TunesmithSampler(seed=1), pruner=TunesmithPruner())
    search = import_study(optuna.load_study(study_name="old", storage="sqlite:///old.db"))

Everything runs in the process of the study; no server is involved. Needs Optuna: `pip install "tunesmith[optuna]"`.
"""

try:
    import optuna as _optuna  # noqa: F401
except ImportError as error:
    raise ImportError(f'tunesmith.optuna needs Optuna ({error}): pip install "tunesmith[optuna]"') from error

from ._import import ImportedOptimizer, ImportSummary, import_study
from .pruner import TunesmithPruner
from .sampler import TunesmithSampler

__all__ = ["ImportSummary", "ImportedOptimizer", "TunesmithPruner", "TunesmithSampler", "import_study"]
