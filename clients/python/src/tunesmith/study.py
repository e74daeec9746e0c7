"""A study: its trials, one after the other, and their results."""

from __future__ import annotations

import operator
import os
import secrets
import socket
import time
from collections.abc import Generator, Iterator, Mapping
from datetime import timedelta
from typing import Any, Literal, SupportsFloat, SupportsIndex, overload
from urllib.parse import quote

from ._backoff import Backoff
from ._service import Service
from ._wire import ParameterValue, double_text, duration_text, metrics_message, timestamp, whole_discrete_names
from .errors import (
    AlreadyExists,
    FailedPrecondition,
    NoResult,
    SearchEnded,
    StudyCompleted,
    StudyDiffers,
    StudyInactive,
    TrialNotCompleted,
)
from .records import TrialRecord
from .study_config import differences
from .trial import Trial, by_metric

StudyState = Literal["ACTIVE", "INACTIVE", "COMPLETED"]

# The service refuses to suggest more trials at once.
_MAX_SUGGESTIONS = 1000


class Study:
    """A study on the service; threads may share it."""

    def __init__(self, api: Service, message: dict[str, Any]) -> None:
        self._api = api
        self._message = message
        self._whole_discrete = whole_discrete_names(self.config["parameters"])

    @property
    def name(self) -> str:
        """Resource name, `projects/{project}/locations/{location}/studies/{id}`."""
        return str(self._message["name"])

    @property
    def id(self) -> str:
        """The name in its project and location."""
        return self.name.rpartition("/")[2]

    @property
    def config(self) -> dict[str, Any]:
        """`StudyConfig` of the API: search space, metrics, algorithm."""
        config: dict[str, Any] = self._message["studyConfig"]
        return config

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the metrics, in their order."""
        return tuple(str(metric["metric"]) for metric in self.config["metrics"])

    @property
    def notices(self) -> tuple[str, ...]:
        """What of the configuration has no effect, as in the answer that created the study."""
        notices = self._message.get("tunesmith", {}).get("notices", [])
        return tuple(f"{notice['field']}: {notice['description']}" for notice in notices)

    @property
    def state(self) -> StudyState:
        """The current state of the study. Each access is a request."""
        self._message = self._api.get(f"/v1/{self.name}")
        state: StudyState = self._message["state"]
        return state

    def trials(
        self,
        client_id: str | None = None,
        *,
        count: int | None = None,
        lease: float | timedelta | None = None,
        renew_lease: bool = True,
        linger: bool = False,
    ) -> Generator[Trial, None, None]:
        """Yields trials for this worker, one after the other, until the study has no more or `count` were yielded.

        Each trial has to be completed or declared infeasible before the next one is requested (`with trial:` does so);
        otherwise `TrialNotCompleted` is raised. A lost trial needs neither. If the loop is left early, the trial stays
        assigned to this client until its lease expires.

        `client_id` names one worker. Two workers must not share it at a time; a worker that restarts under the same
        name gets its unfinished trial again. By default it consists of host, process and a random part.

        `lease` (seconds) replaces the study's `trial_lease` for this worker. While the worker holds a trial with a
        lease, a thread renews it, unless `renew_lease` is false: then only reports renew it.

        With `linger`, the worker waits after the study's last trial was suggested: it waits until all trials with
        leases are completed, and takes over trials that other workers lose.

        Raises `StudyInactive` if the service has deactivated the study.
        """
        if count is not None and count < 0:
            raise ValueError(f"count {count} is negative")
        return self._trials(client_id or new_client_id(), count, lease, renew_lease, linger)

    def suggest(
        self,
        count: int = 1,
        client_id: str | None = None,
        *,
        lease: float | timedelta | None = None,
        renew_lease: bool = True,
    ) -> list[Trial]:
        """Returns up to `count` trials, including unfinished trials of this client; an empty list if there are no more.

        The arguments are those of `trials`. Leases are renewed until the trials are completed, released or garbage
        collected. Raises `StudyInactive` if the service has deactivated the study.
        """
        if not 1 <= count <= _MAX_SUGGESTIONS:
            raise ValueError(f"count {count} is not from 1 to {_MAX_SUGGESTIONS}")
        trials, state = self._suggest(client_id or new_client_id(), count, lease, renew_lease)
        if not trials and state == "INACTIVE":
            self._raise_inactive()
        return trials

    @overload
    def ask(self) -> Trial: ...

    @overload
    def ask(self, count: int) -> list[Trial]: ...

    def ask(self, count: int | None = None) -> Trial | list[Trial]:
        """Returns the next trial; with `count`, a list of so many, fewer at the end of the search.

        Raises `SearchEnded` if there are no more, and `StudyInactive` if the service has deactivated the study.
        """
        if count is not None and count < 1:
            raise ValueError(f"count {count} is not positive")
        trials: list[Trial] = []
        while len(trials) < (count or 1):
            wanted = min((count or 1) - len(trials), _MAX_SUGGESTIONS)
            suggested = self.suggest(wanted)
            trials += suggested
            if len(suggested) < wanted:
                break
        if not trials:
            raise SearchEnded(f"study {self.id!r} has no more trials")
        return trials if count is not None else trials[0]

    def tell(
        self,
        trial: Trial | int | Mapping[str, ParameterValue],
        value: float | Mapping[str, float] | None = None,
        *,
        infeasible: str | None = None,
    ) -> TrialRecord:
        """Completes a trial, in any order: the trial itself, or its number.

        `value` is the value of the only metric, or values by metric. Without it, the reports of the trial decide. A
        value that is not finite makes the trial infeasible, as does the reason `infeasible`: the search avoids its
        parameters. Repeating a result has no effect; another one raises `TrialLost` or `FailedPrecondition`.

        A mapping of parameters adds a completed trial of one's own, such as an earlier result. Names and values are
        checked against the search space.
        """
        if value is not None and infeasible is not None:
            raise ValueError("value and infeasible exclude each other")
        if isinstance(trial, Mapping):
            if value is None and infeasible is None:
                raise ValueError("a trial of one's own needs a value, or the reason why it is infeasible")
            return self.create_trial(trial, value, infeasible=infeasible)
        body: dict[str, Any] = {}
        if infeasible is not None:
            body = {"trialInfeasible": True, "infeasibleReason": infeasible}
        elif value is not None:
            body = {"finalMeasurement": {"metrics": metrics_message(by_metric(value, self.metric_names))}}
        try:
            if not isinstance(trial, Trial):
                return self._record(self._api.post(f"/v1/{self.name}/trials/{trial}:complete", body))
            return trial.complete(value) if infeasible is None else trial.infeasible(infeasible)
        except FailedPrecondition:
            # Elapsed times differ between equal results.
            known = self.trial(trial.number if isinstance(trial, Trial) else trial)
            if infeasible is not None:
                is_same = known.infeasible_reason == infeasible
            else:
                is_same = value is not None and known.metrics == by_metric(value, self.metric_names)
            if known.state != "COMPLETED" or not is_same:
                raise
            return known

    @property
    def best(self) -> TrialRecord:
        """The trial with the best result, the first among equals.

        Raises `NoResult` if there is none, and `ValueError` in a study with several objectives: see `best_trials`.
        """
        objectives = [metric["metric"] for metric in self.config["metrics"] if "safetyConfig" not in metric]
        if len(objectives) > 1:
            raise ValueError(f"the study has several objectives ({', '.join(objectives)}): use the Pareto front")
        trials = self.best_trials()
        if not trials:
            raise NoResult(f"study {self.id!r} has no result yet")
        return trials[0]

    @property
    def recommended(self) -> TrialRecord:
        """The trial with the best prediction of the model: under noise, the best result is also the luckiest.

        It is the best trial while there are too few results for a model. Raises as `best`.
        """
        best = self.best
        recommended = self._view("recommended", None)
        chosen = (recommended or {}).get("recommended") or {}
        return best if chosen.get("trial") in (None, best.number) else self.trial(int(chosen["trial"]))

    def importance(self, metric: str | None = None) -> dict[str, float]:
        """Returns the share of the variance of `metric` in which each parameter takes part, the largest first.

        `metric` is the first one by default. Empty while there are too few results for a model.
        """
        view = self._view("importance", metric)
        return {} if view is None else {str(bar["parameter"]): float(bar["total"]) for bar in view["parameters"]}

    def _view(self, name: str, metric: str | None) -> dict[str, Any] | None:
        """Returns a view of the model; `None` while there are too few results."""
        try:
            answer = self._api.get(f"/v1/{self.name}/views/{name}", {"metric": metric} if metric else None)
        except FailedPrecondition:
            return None
        view: dict[str, Any] = answer["view"]
        return view

    def create_trial(
        self,
        parameters: Mapping[str, ParameterValue],
        result: float | Mapping[str, float] | None = None,
        *,
        infeasible: str | None = None,
    ) -> TrialRecord:
        """Adds a user-supplied trial: the next one to be assigned to a worker or, with a result, a completed one.

        `result` is the value of the only metric, or values by metric, and `infeasible` the reason for having none.
        """
        body: dict[str, Any] = {"parameters": parameter_messages(self.config, parameters)}
        if infeasible is not None:
            body |= {"trialInfeasible": True, "infeasibleReason": infeasible}
        elif result is not None:
            body["finalMeasurement"] = {"metrics": metrics_message(by_metric(result, self.metric_names))}
        return self._record(self._api.post(f"/v1/{self.name}/trials", body))

    def all_trials(self) -> list[TrialRecord]:
        """Returns all trials in their present state, sorted by number."""
        return self._records(self._api.get(f"/v1/{self.name}/trials"))

    def trial(self, number: int) -> TrialRecord:
        """Returns the trial of this number in its present state, for any owner."""
        return self._record(self._api.get(f"/v1/{self.name}/trials/{number}"))

    def stop_trial(self, number: int) -> TrialRecord:
        """Requests that a trial ends early: `should_stop` of its owner returns true from then on."""
        # The name without an attempt addresses the present one.
        return self._record(self._api.post(f"/v1/{self.name}/trials/{number}:stop", {}))

    def set_note(self, number: int, text: str) -> TrialRecord:
        """Sets the note on a trial, plain text of at most 8192 bytes; an empty text removes it."""
        return self._record(self._api.post(f"/v1/{self.name}/trials/{number}:setNote", {"text": text}))

    def best_trials(self) -> list[TrialRecord]:
        """Returns the best trial; with several metrics, the Pareto front, best first by the first metric.

        Empty if there are no results.
        """
        return self._records(self._api.post(f"/v1/{self.name}/trials:listOptimalTrials", {}))

    def delete(self) -> None:
        """Removes the study with all its trials."""
        self._api.delete(f"/v1/{self.name}")

    def __repr__(self) -> str:
        return f"Study({self.name!r})"

    def _trials(
        self, client_id: str, count: int | None, lease: float | timedelta | None, renew_lease: bool, linger: bool
    ) -> Generator[Trial, None, None]:
        backoff, given, waits = Backoff(first=0.05, most=2.0), 0, 0
        while count is None or given < count:
            trials, state = self._suggest(client_id, 1, lease, renew_lease)
            if not trials:
                if state == "INACTIVE":
                    self._raise_inactive()
                if state == "COMPLETED" and not (linger and self._may_get_trials_back()):
                    return
                time.sleep(backoff.seconds(waits))
                waits += 1
                continue
            (trial,) = trials
            given, waits = given + 1, 0
            try:
                yield trial
                if not (trial.is_completed or trial.is_lost):
                    raise TrialNotCompleted(
                        f"trial {trial.number} was neither completed nor declared infeasible; `with trial:` does either"
                    )
            finally:
                trial.release()

    def _suggest(
        self, client_id: str, count: int, lease: float | timedelta | None, renew_lease: bool
    ) -> tuple[list[Trial], StudyState]:
        body: dict[str, Any] = {"suggestionCount": count, "clientId": client_id}
        if lease is not None:
            body["tunesmith"] = {"lease": duration_text(lease)}
        try:
            response = self._api.finished(self._api.post(f"/v1/{self.name}/trials:suggest", body))
        except StudyCompleted:
            return [], "COMPLETED"
        given_at = timestamp(response["endTime"])
        trials = []
        for record in self._records(response):
            left = None
            if renew_lease and record.lease_end_time is not None and given_at is not None:
                # Both times are the service's, so the difference is independent of this machine's clock.
                left = (record.lease_end_time - given_at).total_seconds()
            trials.append(self._trial(record, left))
        state: StudyState = response["studyState"]
        return trials, state

    def trial_of_message(self, message: dict[str, Any]) -> Trial:
        """Returns the trial of a `Trial` of the API that this program owns."""
        return self._trial(self._record(message), None)

    def _trial(self, record: TrialRecord, lease: float | None) -> Trial:
        return Trial(self._api, record, self.metric_names, self._whole_discrete, lease)

    def _may_get_trials_back(self) -> bool:
        return any(
            trial.state == "REQUESTED" or (trial.state != "COMPLETED" and trial.lease_end_time is not None)
            for trial in self.all_trials()
        )

    def _raise_inactive(self) -> None:
        self._message = self._api.get(f"/v1/{self.name}")
        raise StudyInactive(f"study {self.id!r}: {self._message.get('inactiveReason', 'no reason is known')}")

    def _records(self, message: dict[str, Any]) -> list[TrialRecord]:
        return [self._record(trial) for trial in message.get("trials", [])]

    def _record(self, message: dict[str, Any]) -> TrialRecord:
        return TrialRecord.of_message(message, self._whole_discrete)


def new_client_id() -> str:
    """Returns a unique name for a worker: host, process, and a random part."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def create_study(service: Service, parent: str, name: str, config: dict[str, Any], *, exist_ok: bool) -> Study:
    """Creates a study below `parent`, or returns an equal one that exists, if `exist_ok`."""
    try:
        message = service.post(f"/v1/{parent}/studies", {"studyConfig": config}, {"studyId": name})
    except AlreadyExists:
        if not exist_ok:
            raise
        found = Study(service, service.get(f"/v1/{parent}/studies/{quote(name, safe='')}"))
        different = differences(config, found.config)
        if different:
            raise StudyDiffers(f"study {name!r} exists and differs: {'; '.join(different)}") from None
        return found
    return Study(service, message)


def parameter_messages(config: Mapping[str, Any], parameters: Mapping[str, ParameterValue]) -> list[dict[str, Any]]:
    """Returns values by name as in a `Trial` of the API, in a study with this `StudyConfig`."""
    types = dict(_types(config["parameters"]))
    return [_parameter_message(name, value, types.get(name)) for name, value in parameters.items()]


def _types(specs: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for spec in specs:
        yield spec["parameter"], spec["type"]
        yield from _types(spec.get("childParameterSpecs", []))


def _parameter_message(name: str, value: ParameterValue, kind: str | None) -> dict[str, Any]:
    if isinstance(value, str):
        return {"parameter": name, "stringValue": value}
    if isinstance(value, bool) or not isinstance(value, (SupportsIndex, SupportsFloat)):
        raise TypeError(f"parameter {name!r}: {value!r} is neither a number nor a text")
    if isinstance(value, SupportsIndex) and kind not in ("DOUBLE", "DISCRETE"):
        return {"parameter": name, "intValue": str(operator.index(value))}
    return {"parameter": name, "floatValue": double_text(float(value))}
