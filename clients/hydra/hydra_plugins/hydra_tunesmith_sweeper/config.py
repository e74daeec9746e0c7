"""Configuration group `hydra/sweeper: tunesmith`."""

# Without postponed annotations: Hydra's scanner executes a module before it is in sys.modules, where dataclasses look
# them up.
from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore


@dataclass
class TunesmithSweeperConf:
    """Options of the sweeper."""

    _target_: str = "hydra_plugins.hydra_tunesmith_sweeper.tunesmith_sweeper.TunesmithSweeper"

    direction: Any = "minimize"
    """`minimize` or `maximize`, or a list of them for a function that returns several values."""

    n_trials: int = 20
    """Total number of trials of the study, those of earlier runs included."""

    n_jobs: int = 1
    """Number of jobs that a launcher receives at a time; the basic launcher runs one at a time."""

    max_failure_rate: float = 0.0
    """Fraction of `n_trials` that may fail before the sweep ends with the error of the job."""

    study_name: str | None = None
    """Name of the study in `storage` or on `server`; the job's name by default."""

    storage: str | None = None
    """Data folder of the study, which a restarted sweep continues; in memory by default."""

    server: str | None = None
    """Address of a Tunesmith server that holds the study, instead of `storage`."""

    algorithm: str = "automatic"
    """Search algorithm."""

    seed: int | None = None
    """Seed of the search."""

    params: dict[str, Any] = field(default_factory=dict)
    """Overrides by key, as on the command line: `x: interval(0, 1)`."""

    custom_search_space: str | None = None
    """Path of a function that returns further parameters: `my_module.search_space`."""


ConfigStore.instance().store(
    group="hydra/sweeper", name="tunesmith", node=TunesmithSweeperConf, provider="hydra-tunesmith-sweeper"
)
