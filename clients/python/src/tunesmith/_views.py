"""Tables and plots of trials, for every class that has trials."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from .metrics import Metric
from .parameters import Parameter
from .records import TrialRecord

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects

PlotKind = Literal["history", "slice", "importance", "parallel"]


@dataclass(frozen=True)
class View:
    """Everything that tables and plots show."""

    trials: Sequence[TrialRecord]
    parameters: Sequence[Parameter]
    metrics: Sequence[Metric]
    importance: Callable[[str], dict[str, float]]
    """Share of a metric's variance by parameter; empty with too few results."""


class Views:
    """Mixin with `to_dataframe` and `plot`. A class provides the trials in `_view`."""

    @abstractmethod
    def _view(self) -> View:
        """Returns the present trials."""

    def to_dataframe(self) -> pandas.DataFrame:
        """Returns a table with a row for each trial, indexed by number. Needs pandas.

        Columns: `state`, `infeasible`, `infeasible_reason`, `start_time`, `end_time`, `metric.NAME` for each metric and
        `parameter.NAME` for each parameter. A parameter that does not exist in a trial is missing there.
        """
        from ._frames import dataframe

        table: pandas.DataFrame = dataframe(self._view(), optional("pandas", "pandas"))
        return table

    def plot(self, kind: PlotKind = "history", metric: str | None = None) -> plotly.graph_objects.Figure:
        """Returns a plotly figure. Needs plotly.

        Kinds: `history`, the results and the best so far by trial; `slice`, the results by each parameter;
        `importance`, the share of the variance that each parameter explains; `parallel`, a line through the
        parameters of each trial.
        `metric` is by default the first one that is no constraint.
        """
        from ._plots import figure

        go = optional("plotly.graph_objects", "plotly")
        made: plotly.graph_objects.Figure = figure(self._view(), kind, metric, go)
        return made


def optional(package: str, extra: str) -> Any:
    """Imports an optional package; `extra` is the extra of tunesmith that installs it."""
    top = package.partition(".")[0]
    try:
        import_module(top)
    except ModuleNotFoundError as error:
        if error.name != top:
            raise
        raise ImportError(f"{top} is not installed: pip install tunesmith[{extra}]", name=top) from error
    return import_module(package)
