"""The engine in process: requests of the API as calls of the extension module."""

from __future__ import annotations

import json
import os
import re
import threading
import weakref
from typing import Any

from . import _core, _status
from ._service import JsonObject
from .errors import ApiError, ConfigurationError

PARENT = "projects/local/locations/local"

_PATH = re.compile(
    rf"/v1/{PARENT}/studies(?:/(?P<study>[^/:]+)(?:/(?P<kind>trials|views)(?:/(?P<item>[^/:]+))?)?)?(?::(?P<verb>\w+))?"
)

# By HTTP method, kind of the resource (an item of it has a dot), and verb.
_METHODS = {
    ("POST", "studies", None): "createStudy",
    ("GET", "study", None): "getStudy",
    ("GET", "trials", None): "listTrials",
    ("POST", "trials", None): "createTrial",
    ("POST", "trials", "suggest"): "suggest",
    ("POST", "trials", "start"): "startTrial",
    ("POST", "trials", "listOptimalTrials"): "listOptimalTrials",
    ("GET", "trial", None): "getTrial",
    ("POST", "trial", "addMeasurement"): "addMeasurement",
    ("POST", "trial", "complete"): "complete",
    ("POST", "trial", "stop"): "stop",
    ("POST", "trial", "checkEarlyStoppingState"): "checkEarlyStopping",
}

_ENGINES: weakref.WeakValueDictionary[str, _core.Engine] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()

# A call that runs in another thread would leave its locks in the child.
os.register_at_fork(before=_core.before_fork, after_in_parent=_core.after_fork, after_in_child=_core.after_fork)


class EngineService:
    """Studies of an engine; threads may share it."""

    def __init__(self, engine: _core.Engine) -> None:
        self._engine: _core.Engine | None = engine
        self.folder: str | None = engine.folder
        """Absolute path of the data folder; `None` in memory."""

    @classmethod
    def in_memory(cls) -> EngineService:
        """Opens an empty engine, whose studies end with the process."""
        return cls(_core.Engine())

    @classmethod
    def in_folder(cls, folder: str | os.PathLike[str]) -> EngineService:
        """Opens a data folder, or shares it with its other users in this process."""
        path = os.path.realpath(folder)
        with _LOCK:
            engine = _ENGINES.get(path)
            if engine is None:
                try:
                    engine = _core.Engine(path)
                except _core.EngineError as error:
                    raise _refusal(error) from None
                _ENGINES[path] = engine
        return cls(engine)

    @classmethod
    def of_snapshot(cls, snapshot: str) -> tuple[EngineService, str]:
        """Returns an engine in memory with the study of a snapshot, and the ID of the study."""
        try:
            engine, study = _core.Engine.restore(snapshot)
        except _core.EngineError as error:
            raise _refusal(error) from None
        return cls(engine), study

    def get(self, path: str, query: dict[str, str] | None = None) -> JsonObject:
        """Reads a study, a trial, all trials, or a view of a study's model."""
        study, kind, item, _ = _parsed(path)
        if kind == "views":
            return {"view": self.call(item, study, "", query or {})}
        return self.call(_method("GET", path), study, item)

    def post(
        self, path: str, body: JsonObject, query: dict[str, str] | None = None, retry_for: float | None = None
    ) -> JsonObject:
        """Creates a study or a trial, or calls a method of one."""
        study, _, item, _ = _parsed(path)
        return self.call(_method("POST", path), study or (query or {}).get("studyId", ""), item, body)

    def delete(self, path: str) -> JsonObject:
        """Refuses: the engine deletes nothing."""
        raise ValueError(f"{path!r}: the engine in process deletes nothing")

    def finished(self, operation: JsonObject) -> JsonObject:
        """Returns `operation` itself: a call returns its result."""
        return operation

    def close(self) -> None:
        """Refuses later calls."""
        self._engine = None

    def call(self, method: str, study: str, trial: str = "", body: JsonObject | None = None) -> JsonObject:
        """Calls a method of the engine."""
        engine = self._engine
        if engine is None:
            raise ConfigurationError("the optimizer is closed")
        try:
            text = engine.call(method, study, trial, json.dumps(body or {}, allow_nan=False))
        except _core.EngineError as error:
            raise _refusal(error) from None
        message: JsonObject = json.loads(text)
        return message


def _parsed(path: str) -> tuple[str, str, str, str | None]:
    match = _PATH.fullmatch(path)
    if match is None:
        raise ValueError(f"{path!r} is not a path of the engine in process")
    return match["study"] or "", match["kind"] or "", match["item"] or "", match["verb"]


def _method(http_method: str, path: str) -> str:
    study, kind, item, verb = _parsed(path)
    resource = "trial" if item else kind or ("study" if study else "studies")
    method = _METHODS.get((http_method, resource, verb))
    if method is None:
        raise ValueError(f"{http_method} {path} is not a request of the engine in process")
    return method


def _refusal(error: _core.EngineError) -> ApiError:
    status: dict[str, Any] = json.loads(str(error))
    return _status.of_operation(status)
