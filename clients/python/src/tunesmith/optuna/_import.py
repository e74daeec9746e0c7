"""Import of a study: its trials as those of a study of Tunesmith."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optuna.study import Study as OptunaStudy
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from .. import _engine
from .._engine import EngineService
from .._wire import ParameterValue, duration_text, metrics_message
from ..errors import NotFound, StudyDiffers
from ..metrics import Metric, maximize, minimize
from ..optimizer import Optimizer
from ..parameters import Parameter
from ..records import TrialRecord
from ..study import Study, create_study, parameter_messages
from ..study_config import differences, study_config
from ._history import CONSTRAINTS, constraint_values
from ._import_space import ImportedSpace, OutsideSpace, Points, distinct_names, imported_space

_ID = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_MOST_OF_ID = 128
# Owner of an imported trial: its number in Optuna, and a digest of its content.
_OWNER = re.compile(r"optuna:(\d+):([0-9a-f]{16})")
_METRIC_NAMES = "study:metric_names"
_RETRIED = "retry_history"
# Written by Optuna 1 and 2.
_FAIL_REASON = "fail_reason"
_UNFINISHED = (TrialState.RUNNING, TrialState.WAITING)


@dataclass(frozen=True)
class ImportSummary:
    """Numbers of trials, and everything that was not imported. `str()` has it as text, a line each."""

    study: str
    """Name of the study in Tunesmith."""
    completed: int
    """Trials imported with a result."""
    pruned: int
    """Trials imported as stopped early."""
    infeasible: int
    """Trials imported as infeasible."""
    present: int
    """Trials of earlier imports."""
    unfinished: int
    """Running and waiting trials, which are left out until they are finished."""
    left_out: Mapping[int, str]
    """Reasons by Optuna's number of a finished trial that was left out."""
    parameters_left_out: Mapping[str, str]
    """Reasons by the name of a parameter that the imported study lacks. The trials are imported without its values."""
    notes: tuple[str, ...]
    """Further differences between the studies."""

    @property
    def imported(self) -> int:
        """Trials of this import, infeasible ones included."""
        return self.completed + self.pruned + self.infeasible

    def __str__(self) -> str:
        lines = [
            f"study {self.study!r}: {_counted(self.imported, 'trial')} imported: "
            f"{self.completed} completed, {self.pruned} pruned, {self.infeasible} infeasible"
        ]
        if self.present:
            lines.append(f"{_counted(self.present, 'trial')} of earlier imports")
        if self.unfinished:
            lines.append(f"{_counted(self.unfinished, 'unfinished trial')} left out")
        lines += [f"trial {number} left out: {reason}" for number, reason in self.left_out.items()]
        lines += [f"parameter {name!r} left out: {reason}" for name, reason in self.parameters_left_out.items()]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)


class ImportedOptimizer(Optimizer):
    """The search that continues an imported study; `summary` has the numbers of trials. Returned by `import_study`."""

    summary: ImportSummary

    def __enter__(self) -> ImportedOptimizer:
        return self


def import_study(
    study: OptunaStudy, *, storage: str | os.PathLike[str] | None = None, name: str | None = None
) -> ImportedOptimizer:
    """Imports a study of Optuna and returns the search that continues it.

    `storage` is a data folder, as of `tunesmith.Optimizer`; by default the study is in memory. `name` is the name of
    the study in it; by default Optuna's, with `_` for characters other than letters, digits, `_`, `-` and `.`.

    Importing the study again into the same storage adds the trials that have finished since, in the space of the first
    import. Raises `StudyDiffers` if the study of this name is another one.

    Nothing is left out silently: `summary` of the returned search names all that was.

    >>> import optuna
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    >>> study.optimize(lambda trial: (trial.suggest_float("x", -10, 10) - 2) ** 2, n_trials=20)
    >>> search = import_study(study)
    >>> search.summary.imported, search.best.value == study.best_value
    (20, True)
    """
    target = _default_name(study.study_name) if name is None else name
    if _ID.fullmatch(target) is None:
        raise ValueError(f"name {target!r} is not 1 to {_MOST_OF_ID} letters, digits, '_', '-' and '.'")
    source = _Source(study)
    service = EngineService.in_memory() if storage is None else EngineService.in_folder(storage)
    try:
        imported = _Import(service, source, target)
        optimizer = ImportedOptimizer._of_study(service, target)
        assert isinstance(optimizer, ImportedOptimizer)
        optimizer.summary = imported.run()
    except BaseException:
        service.close()
        raise
    return optimizer


@dataclass(frozen=True)
class _Outcome:
    """End of a trial: its result, or the reason why it is infeasible."""

    metrics: Mapping[str, float]
    infeasible: str | None = None
    pruned: bool = False


class _Source:
    """Metrics and trials of a study of Optuna."""

    def __init__(self, study: OptunaStudy) -> None:
        self.name: str = study.study_name
        self.trials: list[FrozenTrial] = sorted(study.get_trials(deepcopy=False), key=lambda trial: trial.number)
        directions: Sequence[StudyDirection] = study.directions
        # Optuna 4 and 5 share this attribute; `Study.metric_names` warns that it is experimental.
        given = study._storage.get_study_system_attrs(study._study_id).get(_METRIC_NAMES)
        usual = ["value"] if len(directions) == 1 else [f"value_{index}" for index in range(len(directions))]
        self._constraints = [_constraints(trial) for trial in self.trials]
        constraints = list(dict.fromkeys(key for each in self._constraints for key in each))
        objectives = [("objective", str(text)) for text in given or usual]
        self._names = _metric_names([*objectives, *constraints])
        self.objectives = [self._names[index] for index in range(len(objectives))]
        self._constraint_names = dict(zip(constraints, self._names[len(objectives) :], strict=True))
        goals = [maximize if direction == StudyDirection.MAXIMIZE else minimize for direction in directions]
        self.metrics: tuple[Metric, ...] = (
            *(goal(text) for goal, text in zip(goals, self.objectives, strict=True)),
            *(minimize(text, safety_threshold=0.0) for text in self._constraint_names.values()),
        )
        self.retried = {number for trial in self.trials for number in trial.system_attrs.get(_RETRIED, [])}

    def outcome(self, trial: FrozenTrial) -> _Outcome:
        """Returns the end of a finished trial."""
        if trial.state == TrialState.FAIL:
            reason = trial.system_attrs.get(_FAIL_REASON)
            return _Outcome({}, f"failed in Optuna: {reason}" if reason else "failed in Optuna")
        if trial.state == TrialState.PRUNED:
            if trial.last_step is None:
                return _Outcome({}, "pruned in Optuna without an intermediate value")
            values = [float(trial.intermediate_values[trial.last_step])]
        else:
            values = [float(value) for value in trial.values]
        metrics = {**dict(zip(self.objectives, values, strict=True)), **self._margins(trial)}
        for name, value in metrics.items():
            if not math.isfinite(value):
                return _Outcome({}, f"{name} is {value}")
        return _Outcome(metrics, pruned=trial.state == TrialState.PRUNED)

    def notes(self, trials: Sequence[FrozenTrial]) -> list[str]:
        """Returns a note for each constraint that some of these trials lack."""
        found = []
        for key, name in self._constraint_names.items():
            results = [trial for trial in trials if trial.state in (TrialState.COMPLETE, TrialState.PRUNED)]
            without = sum(key not in _constraints(trial) for trial in results)
            if without:
                found.append(
                    f"constraint {name!r} has no value in {_counted(without, 'trial')}: it counts as satisfied, "
                    f"with {self._usual(key):g}"
                )
        return found

    def _margins(self, trial: FrozenTrial) -> dict[str, float]:
        own = _constraints(trial)
        # A missing constraint is satisfied, as in Optuna; an infinite margin is no information.
        return {
            name: self._usual(key) if own.get(key, -math.inf) == -math.inf else own[key]
            for key, name in self._constraint_names.items()
        }

    def _usual(self, key: tuple[str, str]) -> float:
        """Returns the median of the values that satisfy a constraint, 0 without one."""
        satisfied = [each[key] for each in self._constraints if -math.inf < each.get(key, math.inf) <= 0]
        return statistics.median(satisfied) if satisfied else 0.0


class _Import:
    """Import of `source` into the study `name`, which is created if it does not exist."""

    def __init__(self, service: EngineService, source: _Source, name: str) -> None:
        self._service = service
        self._source = source
        self._space: ImportedSpace | None = None
        try:
            message = service.get(f"/v1/{_engine.PARENT}/studies/{name}")
        except NotFound:
            self._study = self._created(name)
            self._records: dict[int, TrialRecord] = {}
        else:
            self._study = Study(service, message)
            self._records = self._checked()
        parameters = [Parameter.of_message(each) for each in self._study.config["parameters"]]
        self._points = Points(parameters, source.trials)

    def run(self) -> ImportSummary:
        """Adds the finished trials that the study lacks."""
        counts = {"completed": 0, "pruned": 0, "infeasible": 0, "present": 0, "unfinished": 0}
        left_out: dict[int, str] = {}
        added: list[FrozenTrial] = []
        for trial in self._source.trials:
            record = self._records.get(trial.number)
            if record is not None and record.state == "COMPLETED":
                counts["present"] += 1
            elif trial.state in _UNFINISHED:
                counts["unfinished"] += 1
            elif trial.number in self._source.retried:
                left_out[trial.number] = "its worker died, and Optuna repeated it as another trial"
            else:
                try:
                    point = self._points.of(trial)
                except OutsideSpace as reason:
                    left_out[trial.number] = str(reason)
                    continue
                outcome = self._source.outcome(trial)
                self._add(trial, point, outcome, record)
                added.append(trial)
                kind = "infeasible" if outcome.infeasible else "pruned" if outcome.pruned else "completed"
                counts[kind] += 1
        space_notes = self._space.notes if self._space else ()
        notes = (*space_notes, *self._study.notices, *self._source.notes(added))
        return ImportSummary(
            study=self._study.id, left_out=left_out, parameters_left_out=self._missing(), notes=notes, **counts
        )

    def _created(self, name: str) -> Study:
        self._space = imported_space(self._source.trials)
        config = study_config(self._space.parameters, self._source.metrics)
        return create_study(self._service, _engine.PARENT, name, config, exist_ok=False)

    def _checked(self) -> dict[int, TrialRecord]:
        """Returns the imported trials by Optuna's number. Raises `StudyDiffers` if they are those of another study."""
        study, source = self._study, self._source
        metrics = tuple(Metric.of_message(each) for each in study.config["metrics"])
        if metrics != source.metrics:
            texts = [", ".join(_metric_text(metric) for metric in each) for each in (metrics, source.metrics)]
            raise StudyDiffers(f"study {study.id!r} exists with the metrics {texts[0]}; to import are {texts[1]}")
        all_records = study.all_trials()
        owners = [(_OWNER.fullmatch(record.client_id), record) for record in all_records]
        found = {int(match[1]): (match[2], record) for match, record in owners if match is not None}
        if all_records and not found:
            raise StudyDiffers(f"study {study.id!r} exists, and none of its trials is imported: use another name")
        if not found:
            self._space = imported_space(source.trials)
            different = differences(study_config(self._space.parameters, source.metrics), study.config)
            if different:
                raise StudyDiffers(f"study {study.id!r} exists and differs: {'; '.join(different)}")
        digests = {trial.number: _digest(trial) for trial in source.trials}
        for number, (digest, _) in sorted(found.items()):
            if digests.get(number) != digest:
                raise StudyDiffers(
                    f"study {study.id!r} exists and was imported from another study than {source.name!r}: "
                    f"trial {number} differs; use another name"
                )
        return {number: record for number, (_, record) in found.items()}

    def _missing(self) -> dict[str, str]:
        known = self._space.left_out if self._space else {}
        reason = "it is not part of the study of the first import"
        return {name: known.get(name, reason) for name in sorted(self._points.unknown)}

    def _add(
        self, trial: FrozenTrial, point: Mapping[str, ParameterValue], outcome: _Outcome, record: TrialRecord | None
    ) -> None:
        """Adds a trial, or ends the one of an import that was interrupted."""
        if record is None:
            body = {
                "clientId": f"optuna:{trial.number}:{_digest(trial)}",
                "parameters": parameter_messages(self._study.config, point),
            }
            path = f"/v1/{self._service.post(f'/v1/{self._study.name}/trials:start', body)['name']}"
        else:
            path = f"/v1/{record.name}"
        objective = self._source.objectives[0]
        for step, value in sorted(trial.intermediate_values.items()):
            measurement = {"stepCount": str(step), "metrics": metrics_message({objective: value})}
            self._service.post(f"{path}:addMeasurement", {"measurement": measurement})
        if outcome.pruned:
            self._service.post(f"{path}:stop", {})
        if outcome.infeasible is not None:
            self._service.post(f"{path}:complete", {"trialInfeasible": True, "infeasibleReason": outcome.infeasible})
            return
        final: dict[str, Any] = {"metrics": metrics_message(outcome.metrics)}
        if trial.last_step is not None:
            final["stepCount"] = str(trial.last_step)
        if trial.duration is not None and trial.duration.total_seconds() >= 0:
            final["elapsedTime"] = duration_text(trial.duration)
        self._service.post(f"{path}:complete", {"finalMeasurement": final})


def _default_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:_MOST_OF_ID] or "study"


def _constraints(trial: FrozenTrial) -> dict[tuple[str, str], float]:
    """Returns the constraints of a trial, those of `constraints_func` apart from named ones."""
    attributes = dict(trial.system_attrs)
    unnamed = constraint_values({CONSTRAINTS: attributes.pop(CONSTRAINTS, None)})
    found = {("unnamed", f"constraint_{index}"): value for index, value in unnamed.items()}
    return {**found, **{("named", name): value for name, value in constraint_values(attributes).items()}}


def _metric_names(keys: Sequence[tuple[str, str]]) -> list[str]:
    """Returns distinct names of metrics, objectives first."""
    valid = distinct_names({text for _, text in keys})
    names: list[str] = []
    for kind, text in keys:
        name = valid[text]
        if name in names:
            name = f"{name} ({'objective' if kind == 'objective' else 'constraint'})"
        while name in names:
            name += "'"
        names.append(name)
    return names


def _metric_text(metric: Metric) -> str:
    kind = "constraint" if metric.safety_threshold is not None else metric.goal.lower()
    return f"{metric.name!r} ({kind})"


def _digest(trial: FrozenTrial) -> str:
    """Returns a digest that tells trials of different studies apart."""
    internal = {name: each.to_internal_repr(trial.params[name]) for name, each in sorted(trial.distributions.items())}
    times = [None if time is None else time.isoformat() for time in (trial.datetime_start, trial.datetime_complete)]
    content = [trial.number, trial.state.name, internal, trial.values, times]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
