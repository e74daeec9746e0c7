"""Calls of an objective, in this process or another one, and their outcomes."""

from __future__ import annotations

import itertools
import os
import pickle
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .current import RunningTrial, running_trial
from .errors import TunesmithError

Objective: TypeAlias = "Callable[[dict[str, Any]], float | Mapping[str, float] | None]"
"""Function of a trial's parameters. Returns the value of the only metric, values by metric, or `None`: the reports
decide."""

Catch: TypeAlias = "type[Exception] | tuple[type[Exception], ...]"
"""Exceptions of the objective that make a trial infeasible without ending the run."""


class RemoteError(TunesmithError):
    """An exception of an objective that cannot be sent between processes: its type, text and traceback."""


class RemoteTraceback(Exception):
    """Cause of an exception from another process: the traceback as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True)
class Outcome:
    """End of one call of an objective: a result, or an exception."""

    result: float | dict[str, float] | None = None
    error: BaseException | None = None
    reason: str = ""
    """Type and text of the exception."""
    is_caught: bool = False
    """True if the exception is one of `catch`."""


@dataclass(frozen=True)
class Call:
    """Picklable call of an objective for one trial.

    In the process that made it, `current_trial()` inside the objective reports to the search. In another process it
    has the parameters only.
    """

    objective: Objective
    parameters: dict[str, Any]
    number: int
    catch: tuple[type[Exception], ...]
    process: int = field(default_factory=os.getpid)
    key: int = field(default_factory=itertools.count().__next__)

    def __call__(self) -> Outcome:
        """Calls the objective. Exceptions that are no `Exception`, such as `KeyboardInterrupt`, propagate."""
        # A forked process has a copy of the registered trials.
        trial = _RUNNING.get(self.key) if self.process == os.getpid() else None
        token = running_trial.set(trial or RunningTrial(self.number, self.parameters, None))
        try:
            result = self.objective(dict(self.parameters))
        except Exception as error:
            outcome = Outcome(error=error, reason=reason_of(error), is_caught=isinstance(error, self.catch))
            return _portable(outcome) if trial is None else outcome
        finally:
            running_trial.reset(token)
        try:
            return Outcome(_as_result(result))
        except (TypeError, ValueError, OverflowError) as error:
            return Outcome(error=error, reason=reason_of(error))


class Running:
    """Registration of a trial while its call runs in this process."""

    def __init__(self, call: Call, trial: RunningTrial) -> None:
        self.call = call
        self.trial = trial
        _RUNNING[call.key] = trial

    def end(self) -> None:
        """Releases the trial: its objective, if it still runs, cannot report any more."""
        _RUNNING.pop(self.call.key, None)
        self.trial.release()


# Without a lock, which an interrupt could leave locked: each use is one operation.
_RUNNING: dict[int, RunningTrial] = {}


def reason_of(error: BaseException) -> str:
    """Returns the type and text of an exception, as the reason of an infeasible trial."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _as_result(value: Any) -> float | dict[str, float] | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {name: _as_float(each, f"value of metric {name!r}") for name, each in value.items()}
    return _as_float(value, "result")


def _as_float(value: Any, what: str) -> float:
    if isinstance(value, (str, bytes)) or not hasattr(type(value), "__float__"):
        if hasattr(value, "close") and hasattr(value, "send"):
            value.close()  # A coroutine would warn that it was never awaited.
        raise TypeError(
            f"the objective's {what} is {value!r}, of type {type(value).__name__}; "
            "return a number, a mapping of metrics to numbers, or None after reports"
        )
    return float(value)


def _portable(outcome: Outcome) -> Outcome:
    """Returns `outcome` with an exception that survives pickling."""
    error = outcome.error
    assert error is not None
    text = "".join(traceback.format_exception(error))
    try:
        copy: BaseException = pickle.loads(pickle.dumps(error))
        if type(copy) is not type(error):
            raise TypeError
    except Exception:  # Pickling runs code of the exception's class, which may raise anything.
        copy = RemoteError(outcome.reason)
    return Outcome(error=_PortableError(copy, text), reason=outcome.reason, is_caught=outcome.is_caught)


class _PortableError(Exception):
    """Pickles as an exception with the traceback of its process as the cause."""

    def __init__(self, error: BaseException, text: str) -> None:
        super().__init__(error, text)

    def __reduce__(self) -> tuple[Any, ...]:
        return _with_traceback, self.args


def _with_traceback(error: BaseException, text: str) -> BaseException:
    error.__cause__ = RemoteTraceback(text)
    return error
