"""The plug-in class. Every start of a Hydra program imports this module, so it imports little."""

from __future__ import annotations

from typing import Any

from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from .config import TunesmithSweeperConf


class TunesmithSweeper(Sweeper):
    """Runs a program with parameters that a search suggests; `TunesmithSweeperConf` has the options."""

    def __init__(self, **options: Any) -> None:
        plain: dict[str, Any] = {
            name: OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
            for name, value in options.items()
        }
        self.options = TunesmithSweeperConf(**plain)
        self.hydra_context: HydraContext | None = None
        self.task_function: TaskFunction | None = None
        self.config: DictConfig | None = None
        self.launcher: Launcher | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Prepares the launcher."""
        from hydra.core.plugins import Plugins

        self.hydra_context = hydra_context
        self.task_function = task_function
        self.config = config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        """Runs trials until the study has `n_trials`, and writes `optimization_results.yaml`."""
        from ._impl import run_sweep

        run_sweep(self, arguments)
