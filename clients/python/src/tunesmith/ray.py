"""Search algorithm for Ray Tune.

    from ray import tune
    from tunesmith.ray import TunesmithSearch

    tuner = tune.Tuner(
        lambda config: {"loss": (config["x"] - 1) ** 2},
        param_space={"x": tune.uniform(-2, 2)},
        tune_config=tune.TuneConfig(search_alg=TunesmithSearch(), metric="loss", mode="min", num_samples=20),
    )
    print(tuner.fit().get_best_result().config)

Needs `ray[tune]` (`pip install "tunesmith[ray]"`) and the engine of `tunesmith.Optimizer`.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

try:
    from ray import cloudpickle
    from ray.tune.search import Searcher
except ModuleNotFoundError as error:
    if error.name != "ray":
        raise
    raise ModuleNotFoundError("tunesmith.ray needs Ray Tune: pip install 'tunesmith[ray]'", name=error.name) from None

from ._ray_space import Container, Values, parse
from .errors import SearchEnded
from .metrics import Metric, maximize, minimize
from .optimizer import Optimizer

__all__ = ["TunesmithSearch"]

_LOG = logging.getLogger("tunesmith")

_GOALS = {"min": minimize, "max": maximize}
_STATE_VERSION = 1


@dataclass
class _RunningTrial:
    """A trial that Ray has not completed."""

    number: int
    config: dict[str, Any]
    latest: dict[str, float] = field(default_factory=dict)
    """The last value of each metric."""


class TunesmithSearch(Searcher):
    """Searches with `tunesmith.Optimizer` in the process of the Tuner.

    `space` is a search space of Ray Tune; without it the Tuner's `param_space` is used. It may be nested, in lists and
    tuples too, and options of `tune.choice` may contain domains, which exist only in trials with this option. Constants
    are part of the configurations. `tune.grid_search`, `tune.sample_from` and expressions are refused.

    `metric` and `mode` ("min" or "max") are those of `TuneConfig` by default. Lists of both search for the Pareto
    front; `TuneConfig` accepts single ones only, so lists are given here.

    `points_to_evaluate` are configurations to try first, in this order. The search supplies values that they lack.
    `seed` makes the suggestions a function of the results; their order depends on the run. `max_concurrent` limits the
    number of trials that run at a time.

    The result of a trial is its last value of each metric; that holds for trials that a scheduler stops. A trial that
    fails, or whose result is not finite, is infeasible: the search avoids its surroundings.
    """

    def __init__(
        self,
        space: Mapping[str, Any] | None = None,
        metric: str | Sequence[str] | None = None,
        mode: str | Sequence[str] | None = None,
        *,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        seed: int | None = None,
        max_concurrent: int | None = None,
    ) -> None:
        super().__init__()
        # The base class declares single ones only, and accepts lists.
        self._metric: Any = _listed(metric)
        self._mode: Any = _listed(mode)
        _check_metrics(self._metric, self._mode)
        if isinstance(points_to_evaluate, Mapping):
            raise TypeError("points_to_evaluate is a list of configurations, not a single one")
        self._points = [dict(point) for point in points_to_evaluate or ()]
        self._seed = None if seed is None else operator.index(seed)
        self._max_concurrent = None if max_concurrent is None else _positive("max_concurrent", max_concurrent)
        self._space: Container | None = None
        self._optimizer: Optimizer | None = None
        self._queue: list[Values] = []
        self._running: dict[str, _RunningTrial] = {}
        self._completed: set[str] = set()
        if space is not None:
            self._set_space(space)

    @property
    def optimizer(self) -> Optimizer:
        """The search, with its trials, `best`, `front` and `importance`. Its parameters are named by their paths.

        A quantized domain is a parameter of its multiples of `q`. Raises `RuntimeError` before the search space, the
        metric and the mode are known.
        """
        if self._optimizer is None:
            missing = [
                name
                for name, value in (("space", self._space), ("metric", self._metric), ("mode", self._mode))
                if value is None
            ]
            raise RuntimeError(
                f"TunesmithSearch has no {', '.join(missing)}: give it to TunesmithSearch(...), or use param_space of "
                "tune.Tuner and metric and mode of tune.TuneConfig"
            )
        return self._optimizer

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Accepts the Tuner's search space, metric and mode, where the constructor had none.

        Returns whether `config` is the search space from now on.
        """
        for name, given, own in (("metric", metric, self._metric), ("mode", mode, self._mode)):
            if given and own and given != own and not isinstance(own, list):
                _LOG.warning("the search uses the %s %r of TunesmithSearch, not %r of TuneConfig", name, own, given)
        if self._optimizer is None:
            wanted = (self._metric or metric or None, self._mode or mode or None)
            _check_metrics(*wanted)
            self._metric, self._mode = wanted
        if self._space is not None:
            self._start()
            return False
        self._set_space(config)
        return True

    # The base class documents the result FINISHED, a text, but does not declare it.
    def suggest(self, trial_id: str) -> Any:
        """Returns the configuration of a new trial, `FINISHED` at the end of a finite space, or `None` for later."""
        optimizer, space = self.optimizer, self._space
        assert space is not None
        if trial_id in self._running:
            return self._running[trial_id].config
        if self._max_concurrent is not None and len(self._running) >= self._max_concurrent:
            return None
        try:
            trial = optimizer.ask(parameters=self._queue[0]) if self._queue else optimizer.ask()
        except SearchEnded:
            return Searcher.FINISHED
        del self._queue[:1]
        config: dict[str, Any] = space.decode(trial.parameters)
        self._running[trial_id] = _RunningTrial(trial.number, config)
        return config

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Remembers the values of the metrics."""
        trial = self._running.get(trial_id)
        if trial is None:
            self._warn_late("result", trial_id)
            return
        trial.latest.update(self._values(result))

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Completes a trial with its last values, or as infeasible if it failed or has none."""
        trial = self._running.get(trial_id)
        if trial is None:
            self._warn_late("completion", trial_id)
            return
        if error:
            self.optimizer.tell(trial.number, infeasible="the trial failed")
        else:
            values = trial.latest | self._values(result or {})
            missing = [name for name in self._names() if name not in values]
            if missing:
                self.optimizer.tell(trial.number, infeasible=f"no result has the metric {', '.join(missing)}")
            else:
                self.optimizer.tell(trial.number, values)
        del self._running[trial_id]
        self._completed.add(trial_id)

    def add_evaluated_point(
        self,
        parameters: Mapping[str, Any],
        value: float | Mapping[str, float] | Sequence[float] | None,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: Sequence[float] | None = None,
    ) -> None:
        """Adds a completed trial that this search did not suggest.

        `parameters` is a configuration with a value for every domain. With several metrics, `value` has the values by
        metric, or in their order. The last of `intermediate_values` counts if `value` is `None`; a pruned trial is a
        result like another one.
        """
        optimizer, names = self.optimizer, self._names()
        assert self._space is not None
        point = self._space.encode(parameters)
        if error:
            optimizer.tell(point, infeasible="the trial failed")
            return
        if value is None and intermediate_values:
            value = intermediate_values[-1]
        if value is None:
            raise ValueError("an evaluated point without error needs a value")
        values: Mapping[str, Any]
        if isinstance(value, Mapping):
            values = value
        else:
            listed = list(value) if isinstance(value, (list, tuple)) else [value]
            if len(listed) != len(names):
                raise ValueError(f"value {value!r} is not one number for each metric ({', '.join(names)})")
            values = dict(zip(names, listed, strict=True))
        optimizer.tell(point, {name: _metric_value(name, each) for name, each in values.items()})

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Replaces the limit `max_concurrent`.

        Returns false, so that `ConcurrencyLimiter` counts as well: otherwise its `batch=True` would have no effect.
        """
        self._max_concurrent = _positive("max_concurrent", max_concurrent)
        return False

    def save(self, checkpoint_path: str) -> None:
        """Writes the search with all its trials to a file."""
        state = {"tunesmith.ray": _STATE_VERSION, "state": self.get_state()}
        Path(checkpoint_path).write_bytes(cloudpickle.dumps(state))

    def restore(self, checkpoint_path: str) -> None:
        """Continues the search of a file that `save` wrote, with its search space, metric and limit."""
        state = cloudpickle.loads(Path(checkpoint_path).read_bytes())
        version = state.get("tunesmith.ray") if isinstance(state, dict) else None
        if version != _STATE_VERSION:
            raise ValueError(f"{checkpoint_path} is not a state of TunesmithSearch that this version reads")
        self.set_state(state["state"])

    def get_state(self) -> dict[str, Any]:
        """Returns the attributes of the search."""
        return self.__dict__.copy()

    def set_state(self, state: dict[str, Any]) -> None:
        """Replaces the attributes of the search."""
        self.__dict__.update(state)

    def _set_space(self, space: Mapping[str, Any]) -> None:
        parsed = parse(space)
        if not parsed.parameters():
            raise ValueError("the search space has no domain such as tune.uniform: there is nothing to search")
        queue = []
        for i, point in enumerate(self._points):
            try:
                queue.append(parsed.encode(point))
            except ValueError as error:
                raise ValueError(f"points_to_evaluate[{i}]: {error}") from None
        self._space, self._queue = parsed, queue
        self._start()

    def _start(self) -> None:
        """Creates the optimizer once everything is known."""
        if self._optimizer is not None or self._space is None or self._metric is None or self._mode is None:
            return
        modes = [self._mode] if isinstance(self._mode, str) else self._mode
        metrics: list[Metric] = [_GOALS[mode](name) for name, mode in zip(self._names(), modes, strict=True)]
        priors = list(self._space.priors())
        self._optimizer = Optimizer(
            self._space.parameters(), metrics, seed=self._seed, additions={"priors": priors} if priors else None
        )

    def _names(self) -> list[str]:
        return [self._metric] if isinstance(self._metric, str) else list(self._metric or ())

    def _values(self, result: Mapping[str, Any]) -> dict[str, float]:
        """Returns those metrics that a result has."""
        values = {}
        for name in self._names():
            found, value = _looked_up(result, name)
            if found and value is not None:
                values[name] = _metric_value(name, value)
        return values

    def _warn_late(self, what: str, trial_id: str) -> None:
        reason = "is already completed" if trial_id in self._completed else "is not of this search"
        _LOG.warning("ignored a %s of trial %s, which %s", what, trial_id, reason)


def _listed(value: str | Sequence[str] | None) -> str | list[str] | None:
    return value if value is None or isinstance(value, str) else list(value)


def _check_metrics(metric: str | list[str] | None, mode: str | list[str] | None) -> None:
    modes = mode if isinstance(mode, list) else [] if mode is None else [mode]
    for each in modes:
        if each not in _GOALS:
            raise ValueError(f"mode {each!r} is not one of {', '.join(map(repr, _GOALS))}")
    if isinstance(metric, list) and (not metric or len(set(metric)) != len(metric)):
        raise ValueError(f"metric {metric!r} is not a list of different names")
    if metric is None or mode is None:
        return
    if isinstance(metric, list) != isinstance(mode, list) or (isinstance(metric, list) and len(metric) != len(mode)):
        raise ValueError(f"metric {metric!r} and mode {mode!r} are not both single, or lists of the same length")


def _positive(name: str, value: int) -> int:
    number = operator.index(value)
    if isinstance(value, bool) or number < 1:
        raise ValueError(f"{name} {value!r} is not a positive integer")
    return number


def _looked_up(result: Mapping[str, Any], name: str) -> tuple[bool, Any]:
    """Returns whether a result has a metric, by its name or by a path such as `eval/loss`, and its value."""
    if name in result:
        return True, result[name]
    value: Any = result
    for key in name.split("/"):
        if not isinstance(value, Mapping) or key not in value:
            return False, None
        value = value[key]
    return True, value


def _metric_value(name: str, value: Any) -> float:
    try:
        if isinstance(value, str):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"metric {name!r}: {value!r} is not a number") from None
