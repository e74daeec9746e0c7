"""A trial that this program owns: report, complete, or declare it infeasible."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from ._lease import LeaseRenewer
from ._service import Service
from ._wire import duration_text, metrics_message
from .errors import ApiError, FailedPrecondition, NotFound, TrialLost, TrialNotCompleted, TunesmithError
from .records import TrialRecord

_LOG = logging.getLogger("tunesmith")


class Trial:
    """A trial that this program runs.

    As a context manager it is completed at the end with its reports, or declared infeasible if an exception escapes
    (which propagates). Three kinds of exceptions leave it active, for the same client or, after its lease has expired,
    for another one: those of this package, which are independent of the parameters, `KeyboardInterrupt` and
    `SystemExit`.
    """

    def __init__(
        self,
        api: Service,
        record: TrialRecord,
        metric_names: Sequence[str],
        whole_discrete: frozenset[str],
        lease: float | None,
    ) -> None:
        self._api = api
        self._metric_names = tuple(metric_names)
        self._whole_discrete = whole_discrete
        self._lock = threading.Lock()
        self._last_step = max((measurement.step for measurement in record.measurements), default=None)
        # A resumed trial continues where its curve ends.
        self._elapsed_before = max((measurement.elapsed or 0.0 for measurement in record.measurements), default=0.0)
        self._taken_at = time.monotonic()
        self._record = record
        self._should_stop = record.state == "STOPPING"
        self._lost: TrialLost | None = None
        self._renewer = None if lease is None else LeaseRenewer(self, record.name, lease)

    @property
    def name(self) -> str:
        """Resource name of the trial at this owner's attempt."""
        return self._record.name

    @property
    def number(self) -> int:
        """Number in the study, from 1."""
        return self._record.number

    @property
    def id(self) -> int:
        """The same as `number`."""
        return self.number

    @property
    def parameters(self) -> dict[str, Any]:
        """The values to try by name, `int`, `float` or `str`; only those that exist in this trial."""
        return dict(self._record.parameters)

    @property
    def record(self) -> TrialRecord:
        """The trial as in the service's last answer."""
        return self._record

    @property
    def is_completed(self) -> bool:
        """Whether it has a result or is infeasible."""
        return self._record.state == "COMPLETED"

    @property
    def is_lost(self) -> bool:
        """Whether the service has reported that the trial no longer belongs to this program."""
        return self._lost is not None

    def report(
        self, value: float | Mapping[str, float], *, step: int | None = None, elapsed: float | None = None
    ) -> None:
        """Adds a measurement: the value of the only metric, or values by metric. Renews the lease.

        By default `step` is one more than the last one, starting with 1, and `elapsed` the seconds since the trial was
        received. Raises `TrialLost` if the trial no longer belongs to this program.
        """
        with self._lock:
            if step is None:
                step = (self._last_step or 0) + 1
            body = {"measurement": self._measurement(value, step, elapsed)}
            self._change("addMeasurement", body)
            self._last_step = max(step, self._last_step or 0)

    def should_stop(self) -> bool:
        """Returns whether the study's rule or a user requests that the trial ends early. Renews the lease.

        If so, call `complete()` or leave the `with` block: the last report is the result.
        """
        if not self._should_stop:
            self._check_stopping(None)
        return self._should_stop

    def complete(
        self,
        value: float | Mapping[str, float] | None = None,
        *,
        step: int | None = None,
        elapsed: float | None = None,
    ) -> TrialRecord:
        """Completes the trial with this result; without one, with its last or best report, depending on the study.

        The service makes the trial infeasible if the result is not finite, or if no report has all metrics.
        """
        body: dict[str, Any] = {}
        if value is not None:
            body["finalMeasurement"] = self._measurement(value, self._last_step if step is None else step, elapsed)
        record = self._end(body)
        if record.infeasible:
            _LOG.warning("trial %d is infeasible: %s", self.number, record.infeasible_reason)
        return record

    def infeasible(self, reason: str) -> TrialRecord:
        """Completes the trial without a result: its parameters are not tried again."""
        return self._end({"trialInfeasible": True, "infeasibleReason": reason})

    def release(self) -> None:
        """Stops renewing the lease, if any. The trial stays assigned to this client until the lease expires."""
        if self._renewer is not None:
            self._renewer.release()

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self.is_completed:
                return
            if error is None:
                if self._last_step is None and not self.is_lost:
                    raise TrialNotCompleted(
                        f"trial {self.number} ended without a report, complete() or infeasible(); it stays active"
                    )
                self.complete()
            elif isinstance(error, Exception) and not isinstance(error, TunesmithError):
                self._give_up(error)
        finally:
            self.release()

    def __repr__(self) -> str:
        return f"Trial({self.name!r}, {self.parameters})"

    def _give_up(self, error: Exception) -> None:
        text = str(error)
        reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
        try:
            self.infeasible(reason)
        except TunesmithError as refusal:
            # The user has to see the exception of the program, not this one.
            _LOG.warning("trial %d could not be declared infeasible (%s): %s", self.number, reason, refusal)

    def _measurement(
        self, value: float | Mapping[str, float], step: int | None, elapsed: float | None
    ) -> dict[str, Any]:
        if elapsed is None:
            elapsed = self._elapsed_before + time.monotonic() - self._taken_at
        message: dict[str, Any] = {
            "elapsedTime": duration_text(elapsed),
            "metrics": metrics_message(by_metric(value, self._metric_names)),
        }
        if step is not None:
            message["stepCount"] = str(step)
        return message

    def _end(self, body: dict[str, Any]) -> TrialRecord:
        with self._lock:
            self._change("complete", body)
        self.release()
        return self._record

    def _change(self, method: str, body: dict[str, Any]) -> None:
        message = self._call(method, body, None)
        self._record = TrialRecord.of_message(message, self._whole_discrete)

    def _renew(self, patience: float) -> bool:
        """Renews the lease without a report; see `Renewable`."""
        if self.is_completed or self.is_lost:
            return False
        try:
            # The API has no other call for this. It also evaluates the stopping rule, so the answer is kept.
            self._check_stopping(patience)
        except (TrialLost, NotFound):
            return False
        return True

    def _check_stopping(self, patience: float | None) -> None:
        operation = self._call("checkEarlyStoppingState", {}, patience)
        if self._api.finished(operation).get("shouldStop", False):
            self._should_stop = True

    def _call(self, method: str, body: dict[str, Any], patience: float | None) -> dict[str, Any]:
        if self._lost is not None:
            raise self._lost
        try:
            return self._api.post(f"/v1/{self.name}:{method}", body, retry_for=patience)
        except FailedPrecondition as refusal:
            self._lost = self._loss(refusal)
            if self._lost is None:
                raise
            self.release()
            raise self._lost from refusal

    def _loss(self, refusal: FailedPrecondition) -> TrialLost | None:
        """Returns a `TrialLost` if the service refuses because the trial has another owner or result."""
        try:
            # The name without an attempt addresses the present one.
            message = self._api.get(f"/v1/{self.name.partition('~')[0]}")
        except ApiError:
            return None
        if self.is_completed or (message["name"] == self.name and message["state"] != "COMPLETED"):
            return None
        return TrialLost(f"trial {self.number} is not ours any more: {refusal.message}")


def by_metric(value: float | Mapping[str, float], metric_names: Sequence[str]) -> Mapping[str, float]:
    """Returns values by metric; a number is the value of the only metric."""
    if isinstance(value, Mapping):
        return value
    if len(metric_names) != 1:
        raise ValueError(f"the study has several metrics ({', '.join(metric_names)}): report values by metric")
    return {metric_names[0]: float(value)}
